-- Test files that `grpo test --record` wrote into projects require this name, so it stays.

return require "grpo.runs.record_tests"

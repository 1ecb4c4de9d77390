-- The name that test files of `grpo test --record` require.

return require "grpo.runs.record_tests"

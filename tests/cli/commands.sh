#!/usr/bin/env bash
# Every command once, as a user would type it.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# ---- help ----------------------------------------------------------------------------------------------------------------
says "help lists the commands" 0 '^  run  ' "$GRPO" help
says "--help is help" 0 '^usage: grpo COMMAND' "$GRPO" --help
for command in $("$GRPO" help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
  says "help $command" 0 "^usage: grpo $command" "$GRPO" help "$command"
  says "$command --help" 0 "^usage: grpo $command" "$GRPO" "$command" --help
done
says "nothing: the overview, and status 2" 2 '^usage: grpo COMMAND' "$GRPO"
says "--version says what matters" 0 '^grpo [0-9]+\.[0-9]+\.[0-9]+ \(.+\)$' "$GRPO" --version
says "--version names kernels and libraries" 0 'kernels: [a-z0-9]+; OpenBLAS: .+; Lua: .*5\.4.*; PCRE2: .+' "$GRPO" --version
says "doctor" 0 '^kernels ' "$GRPO" doctor
says "doctor --json" 0 '^\{.*"kernels": ' "$GRPO" doctor --json
says "bench: phases beside the floor" 0 '^  floor f32 +[0-9.]+ ' "$GRPO" bench --workload smoke --runs 1
result "nothing there is less than nothing" "$(none ' -[0-9]' out)"
for what in 'f32, reused: [0-9.]+ x the floor' 'f32, not shared: [0-9.]+ x the floor' 'bf16 +int8 +2 +([0-9]+|-) ' 'floor bf16 +[0-9.]+ ' 'rows +OpenBLAS +f32 +bf16 +int8'; do
  result "bench shows: $what" "$(grep -qE "^  +$what" out || show out)"
done
for kernels in generic blas avx2; do
  grep -q "$kernels" <(echo generic blas; cat /proc/cpuinfo) || continue
  says "GRPO_CPU=$kernels" 0 "kernels: $kernels;" env GRPO_CPU=$kernels "$GRPO" --version
done
GRPO_CPU=foo "$GRPO" --version >out 2>err; status=$?
result "GRPO_CPU: a path that there is not is refused" "$([ $status = 2 ] && grep -q 'GRPO_CPU=foo: unknown, want generic' err || show err)"

# ---- a project -------------------------------------------------------------------------------------------------------------
says "init writes a project" 0 '^project/experiment\.lua$' "$GRPO" init project
library=$(sed -nE 's/.*"workspace.library": \["(.*)"\].*/\1/p' project/.luarc.json)
result "its .luarc.json names the annotations" "$([ -e "$library/lua/grpo/meta/grpo.lua" ] && [ -e "$library/rewards/gsm8k.lua" ] ||
  cat project/.luarc.json)"
if [ -z "${RUN:-}" ]; then
  mkdir -p lone && cp "$GRPO" lone/grpo # nothing is installed beside it
  says "init without installed annotations" 0 '^other/experiment\.lua$' lone/grpo init other
  result "writes them beside the project" "$(grep -q '"\.grpo"' other/.luarc.json && cmp "$root/lua/grpo/meta/model.lua" \
    other/.grpo/lua/grpo/meta/model.lua && cmp "$root/rewards/text.lua" other/.grpo/rewards/text.lua)"
  result "as JSON" "$("$GRPO" repl <<<'assert(grpo.json.decode(assert(io.open("other/.luarc.json")):read("a")))' 2>&1)"
fi
"$GRPO" init project >out 2>err; status=$?
result "init overwrites nothing" "$([ $status = 2 ] && grep -q 'exists already' err || show err)"
cd project || exit 1
says "the project's tests pass" 0 '1 passed|1 successes|^ok|passed' "$GRPO" test .
says "check shows prompts with their token counts" 0 '^prompt 1 \(4 tokens\):$' "$GRPO" check experiment.lua --threads 1
result "check estimates memory" "$(grep -cE '^peak memory: [0-9]+ MiB of [0-9]+ MiB that are available; ' out | grep -v '^1$' && show out)"
result "check says what the longest prompts and completions take" "$(
  grep -qE '^grpo +[0-9]+ MiB \(weights [0-9]+, .*activations [0-9]+\)$' out || show out)"
result "check trains and writes nothing" "$([ ! -e runs ] || ls runs)"
says "the project runs" 0 '^runs/sums-001$' "$GRPO" run experiment.lua --quiet
says "runs lists it" 0 '^sums-001 +finished +step 260/260 .* accuracy [0-9.]+$' "$GRPO" runs
says "runs --json" 0 '"state": "finished"' "$GRPO" runs --json
says "GRPO has left its teacher behind" 0 '^eval/accuracy +(0\.9|1\.0)' "$GRPO" eval runs/sums-001
says "eval of a script, before training" 0 '^eval/accuracy +0\.[01]' "$GRPO" eval experiment.lua --rows 20
says "eval --json" 0 '"eval/accuracy": ' "$GRPO" eval runs/sums-001 --rows 10 --json
says "generate from a run" 0 '^7$' "$GRPO" generate runs/sums-001 '3+4=' --temperature 0 --max-new-tokens 4
says "generate from a checkpoint, several, as JSON" 0 '"finish": "' "$GRPO" generate runs/sums-001/latest '3+4=' --completions 3 --seed 1 --json
result "generate --completions 3 gives three" "$([ "$(wc -l <out)" = 3 ] || show out)"
result "generate: a prompt from standard input" "$([ "$(printf '3+4=' | "$GRPO" generate runs/sums-001 - --temperature 0 --max-new-tokens 4)" = 7 ] || echo no)"

# ---- repl ----------------------------------------------------------------------------------------------------------------------------
repl() { "$GRPO" repl "$@" >out 2>err; }
echo 'print(grpo.calc("(3+4)*2"), schedule.constant(5)())' | repl
result "repl reads a script from standard input" "$([ "$(cat out)" = "$(printf '14\t5')" ] || show out err)"
cat >unsteady.lua <<'LUA'
local grpo = require "grpo"
local calls = 0
return grpo.experiment {
  model = { config = { model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } }, max_prompt_tokens = 8 },
  sampling = { max_new_tokens = 8 }, train = { steps = 2, prompts_per_step = 2 },
  rewards = { { name = "unsteady", fn = function() calls = calls + 1 return calls end } },
}
LUA
echo 'print(tr:step().reward ~= nil, #tok, m:count() > 0)' | repl unsteady.lua
result "repl SCRIPT has tr, m and tok" "$([ "$(cat out)" = "$(printf 'true\t258\ttrue')" ] || show out err)"
echo 'print(m:generate("3+4=", { temperature = 0, max_new_tokens = 4 })[1].text)' | repl runs/sums-001
result "repl RUN has m" "$([ "$(cat out)" = 7 ] || show out err)"
echo 'error("x")' | repl; status=$?
result "an error in a piped script is one line, status 1" "$([ $status = 1 ] && [ "$(cat err)" = 'grpo: stdin:1: x' ] || show out err)"

# ---- test ------------------------------------------------------------------------------------------------------------------------------
cat >bad_test.lua <<'LUA'
describe("arithmetic", function()
  it("holds", function() assert.equal(4, 2 + 2) end)
  it("fails", function() assert.equal(5, 2 + 2) end)
end)
LUA
says "a failed test: status 1 and where" 1 'bad_test\.lua' "$GRPO" test bad_test.lua
says "test --filter" 0 '1' "$GRPO" test bad_test.lua --filter holds
says "test --junit writes JUnit's XML" 1 '1 passed, 1 failed' "$GRPO" test bad_test.lua --junit report.xml
result "test --junit: the failure is in it" "$(grep -q '<failure>bad_test.lua:3: ' report.xml && grep -q 'tests="2" failures="1"' report.xml || show report.xml)"
"$GRPO" test --record runs/sums-001 --count 6 >recorded_test.lua 2>err
says "test --record makes cases that hold" 0 '6 passed, 0 failed' "$GRPO" test recorded_test.lua
result "test --record: right and wrong answers" "$(grep -q 'correct = 1' recorded_test.lua && grep -q 'correct = 0' recorded_test.lua || show recorded_test.lua)"
says "test --tap" 1 '^not ok 2 - arithmetic fails' "$GRPO" test --tap bad_test.lua

finish

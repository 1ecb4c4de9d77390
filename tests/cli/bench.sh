#!/usr/bin/env bash
# grpo bench and the programs of bench/: what they refuse, and the shape of what they print; never how long anything takes.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
export GRPO
bench=$root/bench

skip() { result "$1 # SKIP $2"; }

# refuses NAME MESSAGE COMMAND... : status 2 and a line on stderr that matches
refuses() {
  local name=$1 pattern=$2 status; shift 2
  "$@" >out 2>err </dev/null; status=$?
  result "$name" "$([ $status = 2 ] && grep -qE "$pattern" err || echo "status $status: $(cat err)")"
}

# helps NAME COMMAND... : --help shows how it is called, status 0
helps() {
  local name=$1 status; shift
  "$@" --help >out 2>err </dev/null; status=$?
  result "$name --help" "$([ $status = 0 ] && grep -qE "^ +bench/(peers/)?$name \[" out || echo "status $status: $(head -n 5 out err)")"
}

# holds NAME LUA : the JSON in `out` as `report` satisfies a chunk that prints what is wrong
holds() {
  local name=$1
  printf 'local report = require("grpo.core").json_decode(assert(io.open "out"):read "a")\n%s\n' "$2" >chunk.lua
  result "$name" "$("$GRPO" repl <chunk.lua 2>&1)"
}

measuring=$(dirname "$(readlink -f "$GRPO")")/bench/grpo-bench
"$measuring" test --tap "$bench/rates_test.lua" >out 2>&1; status=$?
result "rates: what is refused, and what is measured" "$([ $status = 0 ] || show out)"
mkdir alone && cp "$(readlink -f "$GRPO")" alone/grpo
refuses "bench: not part of a program that stands alone" "bench is not part of this program; run 'make bench'" \
  alone/grpo bench --workload smoke

# ---- grpo bench ----
says "bench --json: one object" 0 '^\{"decode": .*"workloads": \[\{.*"best": .*"floor": .*\}$' \
  "$GRPO" bench --workload smoke --runs 1 --sharing on --reuse off --compute f32 --weights f32,nf4 --json
result "bench --json: its rows" "$("$GRPO" repl <<'LUA' 2>&1
local report = require("grpo.core").json_decode(assert(io.open "out"):read "a")
local row = report.workloads[1].rows[1]
for _, name in ipairs { "compute", "weights", "shared_prompt", "reuse_rollout", "best", "worst", "core_seconds", "peak_bytes",
  "ratio", "best_ratio", "core_ratio", "median_ratio" } do
  if row[name] == nil then print("a row without " .. name) end
end
for _, phase in ipairs { "generate", "reference", "reward", "forward", "backward", "optimizer", "step" } do
  if not (row.seconds[phase] and row.floor[phase]) then print("a row without " .. phase) end
end
if #report.workloads[1].rows ~= 1 then print "one row was asked for" end
if #report.decode.rows ~= 4 then print "two forms of two numbers of sequences were asked for" end
for _, name in ipairs { "rows", "blas", "f32", "nf4_ratio", "bf16_bf16" } do
  if not report.matrices[1][name] then print("matrices without " .. name) end
end
if not (report.machine.rates.bf16 > 0 and report.kernels[1].bf16_forward > 0) then print "no rate of bf16" end
LUA
)"
says "bench --write-expected: a ratio by compute mode" 0 '' "$GRPO" bench --workload smoke --runs 1 --sharing on --weights f32 \
  --compute f32 --json --write-expected ratios.json
result "bench --write-expected: the file" "$(tr -d '\n ' <ratios.json | grep -qE '"f32":\{"smoke":[0-9.]+\}.*"tolerance":0\.25' || show ratios.json)"
"$GRPO" bench --workload smoke --runs 1 --sharing on --weights f32 --compute f32 --json --check ratios.json >out 2>err
result "bench --check: compares" "$(grep -qE '^smoke f32: .* expected [0-9.]+, at most [0-9.]+: (fine|WORSE)$' err || show err)"
echo '{"tolerance": 0.2, "none": {}}' >expected.json
says "bench --check: other kernels have nothing to compare with" 0 '"kernels": ' \
  "$GRPO" bench --workload smoke --runs 1 --sharing on --weights f32 --compute f32 --json --check expected.json
result "bench --check says so" "$(grep -q 'no ratios for' err || show err)"

# ---- the programs ----
helps scaling "$bench/scaling"
refuses "scaling: an unknown word" "scaling: unknown word 'quick'; see" "$bench/scaling" quick
refuses "scaling: an unknown sweep" "scaling: --only: got 'depth', want some of rows, " "$bench/scaling" --only rows,depth
refuses "scaling: compute is a word" "scaling: --compute: got 'f16', want f32 or bf16" "$bench/scaling" --compute f16
refuses "scaling: tolerance is a number" "scaling: --tolerance: got 'x', want a number" "$bench/scaling" --tolerance x
refuses "scaling: a value is missing" "scaling: --threads wants a value" "$bench/scaling" --threads
"$bench/scaling" --quick --only group,vocabulary --tolerance 99 --json >out 2>err </dev/null; status=$?
result "scaling --json: exit status" "$([ $status = 0 ] || echo "status $status: $(cat err)")"
holds "scaling --json: its sweeps" '
if #report.sweeps ~= 3 then print(#report.sweeps .. " sweeps, want 3") end
for _, s in ipairs(report.sweeps) do
  if #s.values ~= #s.seconds or #s.values ~= #s.floor then print "points without a time" end
  if type(s.exponent) ~= "number" or type(s.floor_exponent) ~= "number" then print "no exponent" end
  if s.too_fast ~= false then print "too fast for a tolerance of 99" end
end'
"$bench/scaling" --quick --only group --tolerance 0 >out 2>err </dev/null; status=$?
result "scaling: a table, and a status that agrees with it" "$(grep -qE '^  floor +[0-9.]+ ' out &&
  [ $status = "$(($(grep -c 'GROWS TOO FAST' out) > 0))" ] || show out err)"

helps profile "$bench/profile"
refuses "profile: an unknown workload" "profile: unknown word 'W9'; see" "$bench/profile" W9
refuses "profile: compute is a word" "profile: --compute: got 'f16', want f32 or bf16" "$bench/profile" W1 --compute f16
refuses "profile: runs is a number" "profile: --runs: got '0', want a whole number, 1 or more" "$bench/profile" --runs 0
GRPO_PROFILER=$(dirname "$(readlink -f "$GRPO")")/bench/grpo-profile
export GRPO_PROFILER
if [ -x "$GRPO_PROFILER" ] && command -v addr2line >/dev/null; then
  "$bench/profile" smoke --runs 2000 --json >out 2>err </dev/null; status=$?
  result "profile --json: exit status" "$([ $status = 0 ] || echo "status $status: $(cat err)")"
  holds "profile --json: shares by kind and phase" '
local sum = 0
for _, phases in pairs(report.kinds) do
  for _, n in pairs(phases) do sum = sum + n end
end
if report.name ~= "smoke" or report.samples < 1 or sum ~= report.samples then print(report.name, report.samples, sum) end'
else
  skip "profile --json" "the program with the profiler is not built, or addr2line not installed"
fi

if command -v python3 >/dev/null; then
  helps compare "$bench/peers/compare"
  refuses "compare: an unknown workload" "compare: --workloads: got 'W9', want some of W1, " "$bench/peers/compare" --workloads W9
  refuses "compare: an unknown dtype" "compare: --dtypes: got 'f64', want some of f32, bf16" "$bench/peers/compare" --dtypes f64
  refuses "compare: no rounds" "compare: --runs, --rounds and --threads: want 1 or more" "$bench/peers/compare" --rounds 0
  refuses "compare: no such program" "compare: --python: /nope/python: no such program" "$bench/peers/compare" --python /nope/python
  refuses "compare: an unknown setting" "compare: --settings: got 'x', want some of " "$bench/peers/compare" --settings x
  "$bench/peers/compare" --workloads smoke --dtypes f32 --rounds 1 --runs 1 --python false --no-reuse >out 2>err </dev/null
  status=$?
  result "compare: one side fails, the other is shown" "$([ $status = 1 ] && grep -q 'left out: false .*: exit status 1' err &&
    grep -qE '^  grpo +[0-9.]+ ' out && grep -qE '^smoke +f32 +[0-9.]+ +- ' out || show out err)"
  "$bench/peers/compare" --workloads smoke --dtypes f32 --rounds 1 --runs 1 --python false --no-reuse --json >out 2>err </dev/null
  holds "compare --json" '
local r = report[1]
if not (r.rows.grpo and r.rows["grpo, not shared"] and #r.failed > 0) then print "no rows of ours, or nothing failed" end
if r.summary.workload ~= "smoke" or not (r.summary.algorithm and r.summary.floor and r.summary.peak) then print "summary" end'
  helps llama_cpp "$bench/peers/llama_cpp"
  refuses "llama_cpp: an unknown model" "llama_cpp: --models: got 'q2', want some of f16, q8_0" "$bench/peers/llama_cpp" --models q2
  refuses "llama_cpp: a number of sequences" "llama_cpp: --sequences: got '7', want some of 1, " "$bench/peers/llama_cpp" --sequences 7
  # the task that TRL repeats: adapter, rows and settings for a tiny model, two steps, and the reward in Lua and in Python
  echo 'grpo.model.new({ model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
vocab_size = 256, max_position_embeddings = 128 }, { tokenizer = grpo.tokenizer.bytes() }):save("first")' | "$GRPO" repl >out 2>err
  MODEL=first OUT=peer "$GRPO" repl <"$bench/peers/trl_grpo.lua" >>out 2>>err
  run=$("$GRPO" run "$bench/peers/trl_grpo.lua" --arg from=peer --quiet data.max_prompt_tokens=64 train.steps=2 2>>err)
  result "trl_grpo.lua: two steps on what it prepared" "$([ "$(wc -l <"$run/logs/rollouts.jsonl")" = 16 ] &&
    [ "$(wc -l <peer/rows.jsonl)" = 180 ] && grep -q '"group": 8' peer/settings.json || show out err)"
  cat >texts <<'EOF'
{"text": "", "letter": "b"}
{"text": " ball, Bread, BALL, bear2bug, b\u00e9b\u00e9, \u00c9b", "letter": "b"}
{"text": "b b b b b b", "letter": "b"}
{"text": "Berlin\nBonn\tBari Basel Bern a", "letter": "b"}
{"text": "it's a bee-line \u212a \u0130stanbul \ufffd\ufffdbat", "letter": "i"}
{"text": "\u212aelvin king, \u017fix", "letter": "k"}
EOF
  TEXTS=texts "$GRPO" repl <"$bench/peers/trl_grpo.lua" >scored 2>err
  python3 -B "$bench/peers/trl_grpo.py" --score scored >out 2>>err
  python3 -B "$bench/peers/trl_grpo.py" --score "$run/logs/rollouts.jsonl" >>out 2>>err
  result "trl_grpo.py and .lua score texts alike" "$([ "$(cat out)" = "6 texts, 0 with another reward
16 texts, 0 with another reward" ] || show out err)"
  sed -i 's/"reward": 0,/"reward": 0.5,/' scored
  python3 -B "$bench/peers/trl_grpo.py" --score scored >out 2>err; status=$?
  result "trl_grpo.py sees another reward" "$([ $status = 1 ] && grep -q '^6 texts, 1 with another reward' out || show out err)"
  cat >steps.csv <<'EOF'
model,mode,side,seed,step,reward,kl,entropy,length,grad_norm,clip_ratio
m,lora,grpo,1,1,0.1,0,2,5,1,0
m,lora,grpo,2,1,0.3,0,2,5,2,0
m,lora,trl,1,1,0.2,0,2,5,3,0
m,lora,trl,2,1,0.4,0,2,5,4,0
EOF
  python3 -B "$bench/peers/trl_table.py" steps.csv --window 1 >out 2>err
  result "trl_table.py: ranges, and the share of the six ways to name four runs" "$(grep -q 'reward .*0.1..0.3 / 0.2..0.4   apart 0 of 1, p 0.67' out &&
    grep -q 'grad_norm .*1..2 / 3..4   apart 1 of 1, p 0.33' out || show out err)"
else
  skip "bench/peers" "python3 is not installed"
fi

finish

#!/usr/bin/env bash
# Tools and environments through the program: the same bytes however a run is cut or killed, what check and replay show,
# the examples.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# A supervised stage that teaches "c.": a call, which the tool answers with a letter; then an environment as well.
cat >exp.lua <<'LUA'
local grpo = require "grpo"
local function kill_at(name, step)
  if tonumber(os.getenv(name)) == step then os.execute("kill -9 $PPID") end
end
return grpo.experiment {
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 48, initializer_range = 0.2 },
    tokenizer = grpo.tokenizer.chars("abc.!?0123456789"),
  },
  data = {
    train = grpo.data.generate(function(rng) return { prompt = rng() < 0.5 and "a" or "b" } end, { seed = 1, n = 500 }),
    eval = grpo.data.generate(function() return { prompt = "a" } end, { seed = 2, n = 8 }),
    target = function(row) return { "c.", "7", row.prompt } end, max_prompt_tokens = 4,
  },
  tools = { pick = function(_, c) return math.floor(c.rng() * 10) end },
  environment = function(_, rng)
    local left = 2 + math.floor(rng() * 2)
    local said = coroutine.yield(tostring(left))
    for _ = 2, left do said = coroutine.yield("?", said:find "b" and 0.5 or 0) end
    return said:find "a" and 1 or 0
  end,
  turns = { max = 5, format = { stop = { "." }, write = function(result) return result end,
    read = function(text) return text:find("c%.$") and { { name = "pick", arguments = {} } } or nil end } },
  sampling = { group_size = 4, max_new_tokens = 24, stop = { "!", "b" } },
  checkpoint = { every = 2 },
  train = { reuse_rollout = grpo.args.reuse == "yes" and true or false },
  stages = {
    { kind = "sft", train = { steps = 4, prompts_per_step = 8, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 6, prompts_per_step = 4, kl = 0.05, iterations = 2, lr = 1e-3,
      advantage = { turn_weight = 0.5 }, kl_cov = { ratio = 0.1 }, entropy = grpo.schedule.adaptive_entropy { target = 2.5, delta = 0.01 } } },
  },
  hooks = {
    on_rollout = function(_, tr) kill_at("KILL_ROLLOUT", tr.step_count + 1) end,
    on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
  },
}
LUA

"$GRPO" run exp.lua --quiet --dir whole >out 2>err; status=$?
result "a run with a tool and an environment ends well" "$([ $status = 0 ] || show err)"
result "there were calls, answers and observations" "$(
  for role in assistant tool environment; do grep -q "\"role\": \"$role\"" whole/exp-001/completions.jsonl || echo "no $role"; done
  grep -q '"tools/call_frequency": 0\.[0-9]*[1-9]' whole/exp-001/metrics.jsonl || echo "no calls counted"
  grep -q '"ratio_max_deviation": 0' whole/exp-001/metrics.jsonl || echo "ratio"
  grep '"kind": "grpo"' whole/exp-001/metrics.jsonl | grep -v '"ratio_max_deviation": 0[,.}]')"

same() { result "$1" "$(different whole/exp-001 "$2")"; }
"$GRPO" run exp.lua --quiet --dir one --threads 1 train.micro_batch_tokens=1 >/dev/null 2>&1;      same "--threads 1, micro_batch_tokens = 1: the same bytes" one/exp-001
"$GRPO" run exp.lua --quiet --dir two --threads 2 train.micro_batch_tokens=100000 >/dev/null 2>&1; same "--threads 2, micro_batch_tokens = 100000: the same bytes" two/exp-001
"$GRPO" run exp.lua --quiet --dir kept --arg reuse=yes >/dev/null 2>&1;                            same "train.reuse_rollout: the same bytes" kept/exp-001

killed "kill -9 in the middle of a step" kill1 KILL_ROLLOUT=7
killed "kill -9 after a checkpoint" kill2 KILL_CHECKPOINT=8

"$GRPO" replay whole/exp-001 9 --regenerate --count 1 >out 2>err; status=$?
result "replay makes conversations again, the same ones" "$([ $status = 0 ] && grep -q '^16 of 16 completions are the same again' out || show out err)"
result "replay shows who said what" "$(grep -qE '^ +(assistant|tool|environment)> ' out || show out)"
echo 'return function(_, _, c) return #c.parts + c.environment.reward end' >parts.lua
"$GRPO" replay whole/exp-001 9 --reward parts.lua >out 2>err; status=$?
result "replay scores them again by their parts" "$([ $status = 0 ] && grep -q '^16 completions scored again' out || show out err)"

"$GRPO" eval whole/exp-001 >out 2>err; status=$?
result "eval plays with tools and environment" "$([ $status = 0 ] || show out err)"
cp -r whole/exp-001 staged && unsummed staged # whose stages alone have tools and an environment
echo 'local path = "staged/config.json"; local c = grpo.json.decode(io.open(path):read("a")); c.options.tools, c.options.environment = nil, nil
  local f = io.open(path, "w"); f:write(grpo.json.encode(c)); f:close()' | "$GRPO" repl >/dev/null
for model in whole/exp-001 whole/exp-001/latest staged; do
  "$GRPO" generate $model a --max-new-tokens 4 >out 2>err
  result "generate says that nothing answers: $model" "$([ "$(cat err)" = "note: the run answered this model by its tools and environment; here nothing does, and calls stay text" ] || echo "said: $(cat err)")"
done

# ---- the examples: they learn -------------------------------------------------------------------------------------------
cd "$root" || exit 1
metric() { # FILE NAME FROM TO : the mean of a metric over rows FROM to TO
  grep -oE "\"$2\": [-0-9.e]+" "$1" | awk -v from="$3" -v to="$4" 'NR >= from && NR <= to { s += $2; n++ } END { print s / n }'
}
"$GRPO" run examples/game.lua --quiet --dir "$work/runs" --arg steps=60 eval.samples=40 >"$work/out" 2>"$work/err"
log=$work/runs/game-001/metrics.jsonl
result "examples/game.lua learns to find the number" "$(
  awk -v a="$(metric "$log" reward 1 10)" -v b="$(metric "$log" reward 51 60)" \
    'BEGIN { if (!(b > a + 0.08)) print "reward went from " a " to " b }'; [ -e "$log" ] || show "$work/err")"
"$GRPO" run examples/calculator.lua --quiet --dir "$work/runs" --arg sft=120 --arg steps=25 eval.samples=20 >"$work/out" 2>"$work/err"
log=$work/runs/calculator-001/metrics.jsonl
result "examples/calculator.lua learns to call its tool" "$(
  awk -v a="$(metric "$log" tools/call_frequency 1 5)" -v b="$(metric "$log" tools/call_frequency 21 25)" \
    'BEGIN { if (!(b > a + 0.1)) print "calls went from " a " to " b }'; [ -e "$log" ] || show "$work/err")"
"$GRPO" run examples/tictactoe.lua --quiet --dir "$work/runs" --arg games=20 --arg steps=4 eval.samples=4 >"$work/out" 2>"$work/err"
result "examples/tictactoe.lua plays against itself, and its turns have advantages" "$(
  [ "$(grep -c '"entropy_coef"' "$work/runs/tictactoe-001/metrics.jsonl")" = 4 ] || show "$work/err"
  grep -q '"reward": -1, "role": "assistant", "state": "[.XO]*[XO]"' "$work/runs/tictactoe-001/completions.jsonl" || echo "no turn has a reward and a state")"
finish

# Sourced by tests/cli/run.sh and tools/check-crash: an experiment that can be killed anywhere, and comparisons of runs.
# shellcheck shell=bash

# A supervised stage, then GRPO with a KL, a schedule, tr.state, files of hooks and held-out rows.  Environment: KILL_ROLLOUT=N and
# KILL_CHECKPOINT=N kill the process in step N, after rewards, or after the checkpoint of step N; SLOW=SECONDS waits each step.
# write_experiment FILE [MODEL] : MODEL is the Lua table of another model
write_experiment() {
  local model=${2:-}
  [ -n "$model" ] || model='{
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  }'
  { cat | sed "s|MODEL|$(tr '\n' ' ' <<<"$model")|"; } >"$1" <<'LUA'
local grpo = require "grpo"
local schedule = require "grpo.schedule"
local function problem(rng)
  local a, b = math.floor(rng() * 10), math.floor(rng() * 10)
  return { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) }
end
local function kill_at(name, step)
  if tonumber(os.getenv(name)) == step then os.execute("kill -9 $PPID") end
end
return grpo.experiment {
  model = MODEL,
  data = {
    train = grpo.data.generate(problem, { seed = 1, n = 500 }), eval = grpo.data.generate(problem, { seed = 2, n = 20 }),
    target = function(row) return row.answer end, max_prompt_tokens = 8,
  },
  sampling = { group_size = 4, max_new_tokens = 6 },
  rewards = {
    { name = "right", fn = function(text, row) return text == row.answer end },
    { name = "noise", weight = schedule.linear { from = 0.2, to = 0.3 }, fn = function(_, _, c) return c.rng() + math.random() + (c.state.count or 0) / 100 end },
  },
  eval = { group_size = 2 },
  checkpoint = { every = 2 },
  stages = {
    { kind = "sft", train = { steps = 4, prompts_per_step = 8, lr = tonumber(grpo.args.rate or 3e-3) } },
    { kind = "grpo", train = { steps = 10, prompts_per_step = 4, kl = 0.05, iterations = 2,
      lr = schedule.cosine { peak = tonumber(grpo.args.rate or 1e-3), warmup = 2 } } },
  },
  hooks = {
    on_start = function(tr) tr.state.count = tr.state.count or 0 end,
    on_rollout = function(_, tr) kill_at("KILL_ROLLOUT", tr.step_count + 1) end,
    on_step = function(_, tr)
      tr.state.count = tr.state.count + 1
      tr:append("steps.txt", ("%d %d\n"):format(tr.step_count, tr.state.count))
      if os.getenv("SLOW") then io.popen("sleep " .. os.getenv("SLOW")):close() end -- unlike os.execute, takes signals
    end,
    on_eval = function(report, tr) tr:append("evals.txt", ("%s %d\n"):format(report.label, tr.step_count)) end,
    on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
  },
}
LUA
}

# timeless FILE... : logs without what may differ: times, rates, memory, and the sum over these.
timeless() {
  sed -E 's/"(time\/[a-z_]+|tokens_per_second\/[a-z]+|step_time|seconds|memory\/peak_bytes|crc32c)": ("[^"]*"|[^,}]*),? ?//g; s/, }$/}/' "$@"
}

# different A B : what differs between two runs that should be equal; nothing when they are
different() {
  local log
  for log in metrics completions eval; do
    if ! cmp -s <(timeless "$1/$log.jsonl") <(timeless "$2/$log.jsonl"); then
      echo "$log.jsonl differs"
      diff <(timeless "$1/$log.jsonl") <(timeless "$2/$log.jsonl") | cut -c1-400 | head -n 4
    fi
  done
  diff -r "$1/checkpoints" "$2/checkpoints"
  if [ -e "$1/logs" ] || [ -e "$2/logs" ]; then diff -r "$1/logs" "$2/logs"; fi
}

# wait_for_step RUN N : until the run has recorded step N (at most some seconds)
wait_for_step() {
  for _ in $(seq 200); do
    [ -e "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge "$2" ] && return
    sleep 0.02
  done
}

# killed NAME DIRECTORY VARIABLE=VALUE... : a run that dies (KILL_AFTER=SECONDS: then) and is resumed ends as whole/exp-001
# did; of another experiment than exp.lua: exp=NAME
killed() {
  local name=$1 dir=$2 exp=${exp:-exp} pid status; shift 2
  env "$@" "$GRPO" run "$exp.lua" --quiet --dir "$dir" >/dev/null 2>err & pid=$!
  for word; do
    case $word in
      KILL_AFTER=*) # counted from when there is something to resume, however slow the program is
        until [ -e "$dir/$exp-001/run.json" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
        sleep "${word#*=}"; kill -9 $pid 2>/dev/null ;;
    esac
  done
  wait $pid 2>/dev/null; status=$?
  if [ $status != 137 ]; then
    result "$name" "exit status $status, want 137 (killed): $(cat err)"
    return
  fi
  "$GRPO" run "$exp.lua" --quiet --dir "$dir" --resume >/dev/null 2>err
  status=$?
  result "$name, then --resume: the same bytes" "$([ $status = 0 ] || show err; different "whole/$exp-001" "$dir/$exp-001")"
}

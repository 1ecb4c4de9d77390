#!/usr/bin/env bash
# Thirty options of a TRL script are given as they are, and then only what the messages say is done until the experiment runs.
# Every message is held to tests/cases/foreign_names/session.txt.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

cat >trl.lua <<'LUA'
local grpo = require "grpo"
local rows = {}
for a = 0, 9 do
  for b = 0, 9 do rows[#rows + 1] = { prompt = a .. "+" .. b .. "=", answer = tostring(a + b) } end
end

-- Options as "section.option" are put into their sections.
local function experiment(t)
  for _, pair in ipairs(t.advice) do
    local at, last = t, pair[1]:match("[^.]+$")
    for part in pair[1]:gmatch("([^.]+)%.") do
      at[part] = at[part] or {}
      at = at[part]
    end
    at[last] = pair[2]
  end
  t.advice = nil
  return t
end

return grpo.experiment(experiment {
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data = { train = grpo.data.list(rows) },
  rewards = { correct = function(text, row) return text == row.answer end },
  train = {
    output_dir = "sums",
    learning_rate = 5e-3,
    lr_scheduler_type = "cosine",
    warmup_ratio = 0.1,
    per_device_train_batch_size = 8,
    gradient_accumulation_steps = 2,
    num_generations = 4,
    max_prompt_length = 8,
    max_completion_length = 4,
    max_steps = 6,
    num_iterations = 1,
    beta = 0.04,
    epsilon = 0.2,
    epsilon_high = 0.28,
    loss_type = "dapo",
    scale_rewards = false,
    mask_truncated_completions = true,
    temperature = 0.9,
    top_k = 0,
    bf16 = true,
    gradient_checkpointing = true,
    optim = "paged_adamw_8bit",
    adam_beta2 = 0.99,
    max_grad_norm = 0.5,
    logging_steps = 2,
    save_strategy = "steps",
    save_steps = 3,
    save_total_limit = 1,
    report_to = "tensorboard",
    use_vllm = true,
    vllm_gpu_memory_utilization = 0.3,
    seed = 42,
  },
  advice = {
  },
})
LUA
given=$(awk '/^  train = {/ { inside = 1; next } /^  },/ { inside = 0 } inside' trl.lua | wc -l)

# One message after the other: the line that it names goes, and what it says to write comes.
: >session; problem=''
for step in $(seq 60); do
  "$GRPO" run trl.lua --quiet >out 2>err && break
  message=$(head -n 1 err)
  echo "${message#grpo: }" >>session
  line=$(grep -oE '^grpo: trl\.lua:[0-9]+' err | grep -oE '[0-9]+$')
  name=$(grep -oE '^grpo: trl\.lua:[0-9]+: [a-z_.0-9]+' err | grep -oE '[a-z_0-9]+$')
  if [ -z "$line" ] || ! sed -n "${line}p" trl.lua | grep -qE "^ +$name = "; then
    problem="step $step: the line that is named does not have $name: $message"; break
  fi
  option='' value=''
  if [[ $message =~ \;\ write\ ([a-z_.0-9]+)\ =\ (\"[^\"]*\"|[^ ,]*[^ ,.]) ]]; then
    option=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
  elif ! grep -q '; remove it' err; then
    problem="step $step: nothing is said to do: $message"; break
  fi
  sed -i "${line}d" trl.lua
  if [ "$option" ]; then
    sed -i "/^    { \"$option\", /d" trl.lua # a later word on the same option
    sed -i "/^  advice = {/a\\    { \"$option\", $value }," trl.lua
  fi
done
result "the messages alone lead to a run" "${problem:-$([ -d runs/sums-001 ] || show err)}"
result "each of the $given names but max_grad_norm, which is the same here, had one message" \
  "$([ "$given" = $(($(wc -l <session) + 1)) ] || show session)"
result "the messages are those of the recorded session" "$(diff session "$root/tests/cases/foreign_names/session.txt")"
state=$(grep -oE '"state": "[a-z]+"' runs/sums-001/run.json)
result "the run is finished" "$([ "$state" = '"state": "finished"' ] || echo "$state"; [ "$(wc -l <runs/sums-001/metrics.jsonl)" = 6 ] || echo steps)"
cat >check.lua <<'LUA'
local config = grpo.json.decode(io.open("runs/sums-001/config.json"):read("a"))
local want = {
  ["train.lr"] = "cosine:peak=0.005,warmup_ratio=0.1", ["train.prompts_per_step"] = 4,
  ["sampling.group_size"] = 4, ["data.max_prompt_tokens"] = 8, ["sampling.max_new_tokens"] = 4,
  ["train.steps"] = 6, ["train.kl"] = 0.04, ["train.clip"] = 0.2, ["train.clip_high"] = 0.28,
  ["train.loss"] = "dapo", ["train.advantage.scale"] = "none", ["train.mask_truncated"] = true,
  ["sampling.temperature"] = 0.9, compute = "bf16", ["model.gradient_checkpointing"] = true,
  ["train.optimizer.name"] = "adamw_8bit", ["train.optimizer.beta2"] = 0.99,
  ["train.max_grad_norm"] = 0.5, ["log.every"] = 2, ["checkpoint.every"] = 3,
  ["checkpoint.keep"] = 1, seed = 42, name = "sums",
}
for path, value in grpo.sorted_pairs(want) do
  local found = config.options[path] or {}
  if found.value ~= value or found.origin ~= "script" then print(path, found.value, value) end
end
LUA
result "it has the values of the TRL script" "$("$GRPO" repl <check.lua 2>&1)"
finish

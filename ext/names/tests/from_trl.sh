#!/usr/bin/env bash
# Forty options of a TRL script are given as they are, and what the one message says is pasted: then the experiment runs.
# The message is held to ext/names/tests/cases/session.txt.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

cat >trl.lua <<'LUA'
local grpo = require "grpo"
local rows = {}
for a = 0, 9 do
  for b = 0, 9 do rows[#rows + 1] = { prompt = a .. "+" .. b .. "=", answer = tostring(a + b) } end
end

return grpo.experiment {
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
    run_name = "sums-trl",
    weight_decay = 0.01,
    adam_beta1 = 0.9,
    adam_epsilon = 1e-8,
    eval_strategy = "no",
    remove_unused_columns = false,
    dataloader_num_workers = 4,
    log_completions = true,
    push_to_hub = false,
    top_p = 1.0,
  },
}
LUA
# Each line of `train` that another program wrote goes; sections of the block come before it, and lines of the block for a
# section that is there come into that.
cat >paste.lua <<'LUA'
local script, block = io.open("trl.lua"):read("a"), io.open("err"):read("a")
local sections, inside, into = {}, {}, nil
for line in block:gmatch("[^\n]+") do
  into = line:match("^and in your section (%w+):$") or into
  if line:find("^and remove") then break end
  if line:find("^  ") then
    local list = inside[into or ""] or sections
    if into and not inside[into] then inside[into] = {} list = inside[into] end
    list[#list + 1] = line
  end
end
script = script:gsub("\n  train = {\n.-\n  },\n", function(old)
  return "\n" .. table.concat(sections, "\n") .. "\n  train = {\n" .. old:match("    max_grad_norm[^\n]*\n") .. "  },\n"
end)
for name, lines in pairs(inside) do
  script = script:gsub("(\n  " .. name .. " = {)", function(head) return head .. "\n" .. table.concat(lines, "\n") .. "\n" end)
end
io.open("trl.lua", "w"):write(script)
LUA
"$GRPO" run trl.lua --quiet >out 2>err
result "the message names the script's line of the first name" "$(head -n 1 err | grep -qE '^grpo: trl\.lua:16: 41 options are not known by these names; write in their place:$' || show err)"
result "the message is the recorded one" "$(diff err "$root/ext/names/tests/cases/session.txt")"
check "the block is pasted" "$GRPO" repl <paste.lua
check "the second run succeeds" "$GRPO" run trl.lua --quiet
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
  ["train.max_grad_norm"] = 0.5, ["log.every"] = 2, ["log.completions"] = 2,
  ["train.optimizer.weight_decay"] = 0.01, ["train.optimizer.eps"] = 1e-8, ["checkpoint.every"] = 3,
  ["checkpoint.keep"] = 1, seed = 42, name = "sums",
}
for path, value in grpo.sorted_pairs(want) do
  local found = config.options[path] or {}
  if found.value ~= value or found.origin ~= "script" then print(path, found.value, value) end
end
LUA
result "it has the values of the TRL script" "$("$GRPO" repl <check.lua 2>&1)"
finish

#!/usr/bin/env bash
# experiments/recipes: each runs on a small model of the same form, with the settings that its header names.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
recipes=$root/experiments/recipes

# A Llama of 2 layers with a chat template, and rows of GSM8K's form.
cat >small.lua <<'LUA'
local grpo = require "grpo"
local text = {}
for c = 32, 126 do text[#text + 1] = string.char(c) end
local tokenizer = grpo.tokenizer.chars(table.concat(text) .. "\n")
grpo.model.new({ model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
  num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 1024 },
  { seed = 1, tokenizer = tokenizer }):save("small")
tokenizer:save("small")
LUA
"$GRPO" repl <small.lua >out 2>err || cat out err
printf '%s' "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}" >small/chat_template.jinja
mkdir rows
for i in 1 2 3 4 5 6 7 8; do
  printf '{"question": "What is %d+%d?", "answer": "It is <<%d+%d=%d>>%d.\\n#### %d"}\n' $i $i $i $i $((i + i)) $((i + i)) $((i + i))
done | tee rows/train.jsonl >rows/test.jsonl

# recipe NAME SCRIPT ARGUMENT... : it runs into the directory NAME
recipe() {
  local name=$1 script=$2; shift 2
  rm -f err
  if timeout 120 "$GRPO" run "$recipes/$script.lua" --quiet --dir "$name" "$@" </dev/null >out 2>err; then result "$name"; else result "$name" "$(show err)"; fi
}
# settings RUN [PATH VALUE]... : what the run's config.json holds
settings() {
  local run=$1; shift
  RUN=$run WANTED=$* "$GRPO" repl <<'LUA'
local grpo = require "grpo"
local file = assert(io.open(os.getenv("RUN") .. "/config.json"))
local config = grpo.json.decode(file:read("a"))
local words = {}
for word in os.getenv("WANTED"):gmatch("%S+") do words[#words + 1] = word end
for i = 1, #words, 2 do
  local entry = config.options[words[i]]
  local value = entry and entry.value
  local same = tostring(value) == words[i + 1] or tonumber(value) and tonumber(value) == tonumber(words[i + 1])
  if not same then print(words[i] .. " is " .. tostring(value) .. ", want " .. words[i + 1]) end
end
LUA
}
short=(sampling.max_new_tokens=6 data.max_prompt_tokens=600 eval.samples=2)

# The notebook runs with all of its settings but the lengths, which the small model's context bounds.
published=(compute bf16 model.quantize nf4 model.lora.rank 8 model.lora.alpha 32 model.lora.dropout 0.05
  data.too_long truncate_left sampling.temperature 0.7 sampling.top_p 0.9 sampling.renormalize false
  train.loss bnpo train.epochs 1 train.kl 0.02 train.clip 0.2 train.max_grad_norm 1 train.optimizer.name adamw
  train.optimizer.beta1 0.9 train.optimizer.beta2 0.999 train.optimizer.weight_decay 0.01 checkpoint.every_epochs 1 seed 42)
at_most=(data.max_prompt_tokens=500 sampling.max_new_tokens=6 eval.max_new_tokens=4)
recipe notebook notebook --arg model=small --arg data=rows "${at_most[@]}"
result "the notebook's settings" "$(settings notebook/notebook-001 "${published[@]}" sampling.group_size 4 \
  train.prompts_per_step 8 train.iterations 1 log.every 10 eval.every 250 2>&1)"
result "the notebook evaluates before and after, and shows its closing samples" "$(
  [ "$(grep -o '"label": "[a-z ]*"' notebook/notebook-001/eval.jsonl | tr '\n' ' ')" = '"label": "before" "label": "after grpo" ' ] ||
    show notebook/notebook-001/eval.jsonl
  for line in '^8. Question: What is 8+8?' '^Prediction: ' '^Gold: 16'; do grep -q "$line" out err || show out err; done)"
recipe "notebook, faster" notebook --arg faster=1 --arg rows=5 --arg model=small --arg data=rows "${at_most[@]}"
result "the notebook's faster settings" "$(settings "notebook, faster/notebook-001" "${published[@]}" sampling.group_size 2 \
  train.prompts_per_step 16 train.iterations 4 log.every 2 eval.every 62 2>&1)"
cat >lengths.lua <<'LUA'
-- What the recipe itself says, of lengths and of the schedule, without a run.
local grpo = require "grpo"
for faster, want in pairs { ["0"] = { 512, 256, 128 }, ["1"] = { 512, 128, 128 } } do
  for name in pairs(grpo.args) do grpo.args[name] = nil end
  grpo.args.faster, grpo.args.model, grpo.args.data = faster, "small", "rows"
  local c = assert(loadfile(os.getenv "RECIPE"))().config
  local has = { c.data.max_prompt_tokens, c.sampling.max_new_tokens, c.eval.max_new_tokens }
  for i = 1, 3 do if has[i] ~= want[i] then print(faster, i, has[i], want[i]) end end
  local lr = c.train.lr
  for update, value in pairs { [0] = 0, [250] = 1e-4, [500] = 2e-4, [717] = 1e-4, [934] = 0 } do
    local got = lr { update = update, updates = 934 }
    if math.abs(got - value) > 1e-12 then print(faster, update, got, value) end
  end
  for i, entry in ipairs(c.reward_entries) do if (entry.weight or 1) ~= 1 then print(i, entry.weight) end end
end
LUA
result "the notebook's lengths, learning rates and weights" "$(
  RECIPE=$recipes/notebook.lua LUA_PATH="$root/experiments/?.lua;;" "$GRPO" repl <lengths.lua 2>&1)"

recipe guide guide --arg model=small --arg data=rows "${short[@]}" train.steps=1
result "the guide's settings" "$(settings guide/guide-basic-001 model.lora.rank 16 model.lora.alpha 32 model.lora.dropout 0.05 \
  sampling.group_size 8 train.optimizer.name adamw_8bit train.optimizer.beta2 0.99 train.optimizer.weight_decay 0.1 \
  train.max_grad_norm 0.1 train.prompts_per_step 4 checkpoint.every 100 2>&1)"
result "the guide's rewards" "$(for name in incremental layout correct length style; do
  grep -q "\"rewards/$name/mean\"" guide/guide-basic-001/metrics.jsonl || echo "no $name"; done)"
recipe stages guide --arg example=stages --arg model=small --arg data=rows "${short[@]}" train.steps=1
result "form first, then answers" "$(
  sed -n 1p stages/guide-stages-001/metrics.jsonl >first; sed -n 2p stages/guide-stages-001/metrics.jsonl >second
  { grep -q '"rewards/incremental/mean"' first && ! grep -q '"rewards/correct/mean"' first &&
    grep -q '"rewards/correct/mean"' second && ! grep -q '"rewards/incremental/mean"' second; } || show first second)"
recipe demo demo --arg supervised=4 --arg steps=2
result "the demo teaches, then rewards" "$([ "$(grep -o '"kind": "[a-z]*"' demo/demo-001/metrics.jsonl | sort | uniq -c | tr -s ' \n' ' ')" = ' 2 "kind": "grpo" 4 "kind": "sft" ' ] ||
  show demo/demo-001/metrics.jsonl)"
recipe "demo of a model" demo --arg model=demo/demo-001 --arg supervised=0 --arg steps=1

# Every letter is a token of the small model, so that its prompts are longer than the experiment's bound.
letters=(--arg model=small --arg steps=1 data.max_prompt_tokens=900 sampling.max_new_tokens=6 eval.samples=2)
recipe smollm2 ../smollm2 "${letters[@]}"
result "tool calls: a LoRA, and the loss of plain text before and after" "$(settings smollm2/smollm2-001 model.lora.rank 16 model.lora.alpha 32 2>&1
  [ "$(grep -cE '^(before|after grpo),[0-9.]+,[0-9.]+$' smollm2/smollm2-001/logs/plain.csv)" = 2 ] || show smollm2/smollm2-001/logs/plain.csv)"
recipe "smollm2, all weights" ../smollm2 --arg full=1 "${letters[@]}"

# No more than few samples and steps; all other numbers are the preset's.
few=(--arg size=tiny --arg reference=random --arg pretrain=2 --arg batch_size=2)
recipe characters characters "${few[@]}" --arg steps=2
result "the settings of characters, grpo" "$(settings characters/shakespeare-grpo-001 sampling.group_size 4 sampling.max_new_tokens 70 \
  data.max_prompt_tokens 1 2>&1)"
result "its KL rises by four samples of two windows of 70 characters of 800,000, to 0.001" "$(
  grep '"kind": "grpo"' characters/*/metrics.jsonl | grep -o '"beta": [-0-9.e]*' | cut -d' ' -f2 |
    awk '{ if (($1 - 0.001 * 560 * (NR - 1) / 800000) ^ 2 > 1e-20) print NR ": " $1 } END { if (NR != 2) print NR " steps" }')"
recipe taught characters "${few[@]}" --arg program=taught --arg steps=1 --arg K=3
result "rewards of characters taught before have a part of the log-probability" \
  "$(grep -q '"rewards/partial/mean"' taught/*/metrics.jsonl || tail -n 1 taught/*/metrics.jsonl)"
recipe ppo characters --arg size=tiny --arg program=ppo --arg reference=random --arg batch_size=4 --arg steps=1
result "the settings of characters, ppo" "$(settings ppo/shakespeare-ppo-001 sampling.group_size 1 sampling.max_new_tokens 32 2>&1
  grep -q '"loss/value_avg"' ppo/*/metrics.jsonl || tail -n 1 ppo/*/metrics.jsonl)"
recipe latent characters --arg size=tiny --arg program=latent --arg steps=2

timeout 120 "$GRPO" run "$recipes/characters.lua" --quiet --dir part "${few[@]}" --arg steps=2 --steps 3 </dev/null >out 2>err
timeout 120 "$GRPO" run --resume="$(echo part/*)" --quiet </dev/null >>out 2>>err
result "a recipe goes on elsewhere from its saved sources, with the same bits" "$(different characters/shakespeare-grpo-001 part/shakespeare-grpo-001)"

# A recipe passes its own check, on data of GSM8K's size and form.
cat >big.lua <<'LUA'
for name, n in pairs { train = 7473, test = 20 } do
  local file <close> = assert(io.open("big/" .. name .. ".jsonl", "w"))
  for i = 1, n do
    file:write(('{"question": "Tom has %d apples of the %s tree and gets %d. How many has he?", '):format(i, name, i + 1),
      ('"answer": "He has %d apples at first, and then another %d, which he adds to his own: %d + %d = %d.\\n#### %d"}\n')
        :format(i, i + 1, i, i + 1, 2 * i + 1, 2 * i + 1))
  end
end
LUA
mkdir big; "$GRPO" repl <big.lua
for arguments in "notebook --arg model=small --arg data=big data.max_prompt_tokens=500" \
  "guide --arg model=small --arg data=big data.max_prompt_tokens=600 sampling.max_new_tokens=64" demo \
  "characters --arg size=tiny --arg reference=random" "characters --arg size=tiny --arg reference=random --arg program=taught" \
  "characters --arg size=tiny --arg reference=random --arg program=ppo" \
  "characters --arg size=tiny --arg program=latent"; do
  # shellcheck disable=SC2086
  set -- $arguments
  timeout 120 "$GRPO" check "$recipes/$1.lua" "${@:2}" </dev/null >out 2>err; status=$?
  result "grpo check passes: $arguments" "$([ $status = 0 ] || { echo "status $status"; grep '^finding' out; cat err; })"
done

for arguments in "guide --arg example=both" "guide --arg size=2" "demo --arg steps=x" "characters --arg program=sft" "../smollm2 --arg modle=x"; do
  # shellcheck disable=SC2086
  set -- $arguments
  timeout 60 "$GRPO" run "$recipes/$1.lua" --dir bad "${@:2}" </dev/null >out 2>err; status=$?
  result "refused: $arguments" "$({ [ $status = 2 ] && grep -q '^grpo: --arg ' err && [ "$(wc -l <err)" = 1 ]; } || show err)"
done
finish

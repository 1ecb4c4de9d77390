#!/usr/bin/env bash
# A run as a file of settings in YAML has the bits of the same settings in JSON.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

for a in 0 1 2 3 4 5 6 7 8 9; do
  for b in 0 1 2 3 4 5 6 7 8 9; do echo "{\"a\": $a, \"b\": $b, \"solution\": \"$((a + b))\"}"; done
done >sums.jsonl
echo 'return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end,
  atmost = function(o) return function(text) return #text <= o[1] + (o.more or 0) end end }' >mine.lua
cat >sums.yaml <<'YAML'
# the same run
seed: 3
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1,
    num_attention_heads: 2, max_position_embeddings: 64}
  tokenizer: {kind: chars, text: "0123456789+="}
data:
  train: {path: sums.jsonl, columns: {answer: solution}, shuffle: 1, take: 90}
  eval: {path: sums.jsonl, columns: {answer: solution}, shuffle: 1, skip: 90}
  prompt: "{a}+{b}="
  target: "{solution}"
  max_prompt_tokens: 8
sampling: {group_size: 4, max_new_tokens: 4}
rewards:
  correct: {fn: text.equals, weight: 2.0}
  mine.digits: linear:from=1,to=0
  short: {fn: mine.atmost, options: {1: 1, more: 1}, weight: 0.25}
eval:
  metric: text.equals
stages:
  - kind: sft
    train: {steps: 6, prompts_per_step: 8, lr: "cosine:peak=3e-3,warmup=2"}
  - kind: grpo
    train: {steps: 3, prompts_per_step: 4, lr: 1e-3}
YAML
if ! "$GRPO" --version | grep -q 'YAML: libyaml'; then
  "$GRPO" run sums.yaml >out 2>&1; status=$?
  result "without libyaml: one line" "$([ $status = 2 ] && [ "$(wc -l <out)" = 1 ] && grep -q libyaml out || show out)"
  finish
  exit
fi

# the same settings in JSON are those of tests/cli/settings.sh
sed -n '/^cat >sums.json/,/^JSON$/p' "$root/tests/cli/settings.sh" >json.bash
. ./json.bash
same_weights() { cmp "$1/latest/model.safetensors" "$2/latest/model.safetensors" 2>&1; }
check "settings in JSON run" "$GRPO" run sums.json --quiet --dir json
check "settings in YAML run" "$GRPO" run sums.yaml --quiet --dir yaml
result "YAML: the same bits" "$(same_weights json/sums-001 yaml/sums-001)"
check "YAML: stops" "$GRPO" run sums.yaml --quiet --dir yaml2 --steps 4
check "YAML: continues" "$GRPO" run --resume=yaml2/sums-001 --quiet
result "YAML: the same bits after a resume" "$(same_weights json/sums-001 yaml2/sums-001)"
{ sed '/^stages/,$d' sums.yaml; echo 'train: {steps: 2, prompts_per_step: 4}'; } >base.yaml
echo '{"extends": "base.yaml", "name": "derived"}' >derived.json
check "JSON extends YAML" "$GRPO" run derived.json --quiet --dir derived

# ---- the demo ----------------------------------------------------------------------------------------------------------------
(cd "$root" && "$GRPO" run experiments/recipes/demo.lua --quiet --dir "$work/demo" --arg supervised=4 --arg steps=2) </dev/null >out 2>err
(cd "$root" && "$GRPO" run ext/yaml/experiments/recipes/demo.yaml --quiet --dir "$work/demo" --as same stages.1.train.steps=4 stages.2.train.steps=2) </dev/null >>out 2>>err
result "the demo as a file of settings: the same bits" "$({ same_weights demo/demo-001 demo/same; } || show err)"

# ---- faults ------------------------------------------------------------------------------------------------------------------
printf 'seed: 1\nseed: 2\n' >bad.yaml; "$GRPO" run bad.yaml >out 2>err; status=$?
result "refused: a key twice" "$([ $status = 3 ] && grep -qx "grpo: bad.yaml:2:1: the key 'seed' stands twice in one mapping" err || show err)"
sed 's/group_size: 4/group_size: \&g 4/' sums.yaml >bad.yaml; "$GRPO" run bad.yaml >out 2>err; status=$?
result "refused: an anchor" "$([ $status = 3 ] && grep -qE '^grpo: bad.yaml:13:[0-9]+: anchors' err || show err)"
finish

#!/usr/bin/env bash
# train.optimizer.name: runs of every optimizer have the same bytes however they are run, killed and resumed.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# matrices of more than 4,096 numbers, which have moments in 8 bits, and vectors, which have not
model='{
  config = { model_type = "llama", hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
    num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 32 },
  tokenizer = grpo.tokenizer.chars("0123456789+="),
}'
write_experiment exp.lua "$model"
"$GRPO" run exp.lua --quiet --dir whole --steps 6 >/dev/null 2>err || cat err
plain=$(stat -c %s whole/exp-001/latest/optimizer.safetensors)

for name in adamw_8bit lion; do
  sed "s/^return grpo.experiment {\$/&\n  train = { optimizer = { name = \"$name\", weight_decay = 0.01 } },/" exp.lua >$name.lua
  "$GRPO" run $name.lua --quiet --dir whole >/dev/null 2>err || cat err
  result "$name: it is another computation than AdamW's" "$(
    cmp -s <(timeless whole/exp-001/metrics.jsonl) <(timeless whole/$name-001/metrics.jsonl | head -n 6) && echo the same)"
  "$GRPO" run $name.lua --quiet --dir one --threads 1 train.micro_batch_tokens=64 >/dev/null 2>&1
  result "$name, one thread and small micro-batches: the same bytes" "$(different whole/$name-001 one/$name-001)"
  exp=$name killed "$name, kill -9 in the middle of a step" k$name KILL_ROLLOUT=9
  "$GRPO" run $name.lua --quiet --dir other --steps 6 >/dev/null 2>&1
  state=other/$name-001/latest/optimizer.safetensors
  result "$name: its state is smaller" "$([ "$(stat -c %s $state)" -lt $((plain * 6 / 10)) ] || stat -c '%s %n' $state)"
  "$GRPO" run $name.lua --quiet --dir other --resume=other/$name-001 --force train.optimizer.name=adamw >/dev/null 2>err; status=$?
  result "$name: another optimizer cannot continue from its state, and says so" "$(
    { [ $status != 0 ] && grep -q "holds the state of the optimizer $name, but train.optimizer.name is adamw" err; } || show err)"
done

"$GRPO" check exp.lua train.optimizer.name=adamw_8bit >eight 2>err || grep "^grpo: " err
"$GRPO" check exp.lua >full 2>err || grep "^grpo: " err
result "check estimates the state's memory" "$(
  { grep -q optimizer full && ! cmp -s <(grep -E "optimizer" full) <(grep -E "optimizer" eight); } || cat full eight)"
finish

#!/usr/bin/env bash
# kind = "dpo" and kind = "reward" from the outside: the same bytes however they run, kills and resumes, refusals, other commands.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

for a in 0 1 2 3 4 5 6 7 8 9; do
  for b in 0 1 2; do
    printf '{"prompt": "%d+%d=", "chosen": "%d", "rejected": "%d00", "margin": 0.%d}\n' $a $b $((a + b)) $(((a + b + 3) % 10)) $b
  done
done >pairs.jsonl
sed -E 's/"chosen": ("[^"]*"), "rejected": ("[^"]*"), .*/"completion": \1, "label": true}/' pairs.jsonl >labels.jsonl
sed -E 's/"chosen": ("[^"]*"), "rejected": ("[^"]*"), .*/"completion": \2, "label": false}/' pairs.jsonl >>labels.jsonl

# write FILE KIND MODEL DATA TRAIN
write() {
  cat >"$1" <<LUA
local grpo = require "grpo"
local function kill_at(name, step)
  if tonumber(os.getenv(name)) == step then os.execute("kill -9 \$PPID") end
end
return grpo.experiment {
  model = $3,
  data = { train = grpo.data.jsonl("$4"), eval = grpo.data.jsonl("$4"), max_prompt_tokens = 8 },
  sampling = { max_new_tokens = 6 },
  train = { steps = 8, prompts_per_step = 6, lr = 3e-3, $5 },
  eval = { every = 4 }, checkpoint = { every = 2 },
  stages = { { kind = "$2" } },
  hooks = {
    on_step = function(_, tr) kill_at("KILL_STEP", tr.step_count) end,
    on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
  },
}
LUA
}
tiny='{ config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 2,
  max_position_embeddings = 32 }, tokenizer = grpo.tokenizer.chars("0123456789+=") }'
write dpo.lua dpo "$tiny" pairs.jsonl 'dpo = { beta = 0.3, ld_alpha = 0.5, use_weighting = true }, sync_reference = { every = 3 }'
write kto.lua dpo "$tiny" labels.jsonl 'dpo = { loss_type = "kto" }'
write reward.lua reward "$tiny" pairs.jsonl 'reward = { center_rewards_coefficient = 0.01 }'

write online.lua online_dpo "$tiny" pairs.jsonl 'dpo = { loss_type = "ipo", ld_alpha = 0.5 }'
sed -i 's/max_new_tokens = 6 }/max_new_tokens = 6, group_size = 3 }, rewards = { short = function(text) return -#text end }/' online.lua

same() { result "$1" "$(different "whole/$3-001" "$2/$3-001")"; }
for exp in dpo kto reward online; do
  "$GRPO" run $exp.lua --dir whole >out 2>err; status=$?
  result "$exp: a run ends with status 0" "$([ $status = 0 ] || show err)"
  "$GRPO" run $exp.lua --quiet --dir one --threads 1 train.micro_batch_tokens=1 >/dev/null 2>&1
  same "$exp: one thread, micro_batch_tokens = 1: the same bytes" one $exp
  "$GRPO" run $exp.lua --quiet --dir two --threads 2 train.micro_batch_tokens=4096 model.gradient_checkpointing=true >/dev/null 2>&1
  same "$exp: two threads, micro_batch_tokens = 4096, checkpointing: the same bytes" two $exp
  killed "$exp: kill -9 in a step" kill-$exp KILL_STEP=5
done
exp=dpo killed "dpo: kill -9 after a checkpoint" kill2 KILL_CHECKPOINT=4
"$GRPO" eval whole/dpo-001 >out 2>err; status=$?
result "grpo eval measures held-out pairs" "$([ $status = 0 ] && grep -qE '^eval/rewards/accuracies +[0-9.]+' out || show out err)"
"$GRPO" eval whole/dpo-001 whole/dpo-001 >out 2>err; status=$?
result "two of them have nothing row by row to be compared" "$([ $status = 0 ] && [ ! -s out ] && grep -q 'nothing is compared' err || show out err)"

# ---- an adapter ------------------------------------------------------------------------------------------------------------------
echo "local grpo = require 'grpo'; local m = $tiny; m.config.vocab_size = #m.tokenizer
grpo.model.new(m.config, { tokenizer = m.tokenizer }):save('base')" | tr '\n' ' ' >base.lua
"$GRPO" repl <base.lua >/dev/null 2>err || show err
write lora.lua dpo '{ path = "base", lora = { rank = 4 } }' pairs.jsonl 'dpo = { loss_type = { "sigmoid", "sft" } }'
"$GRPO" run lora.lua --dir whole >out 2>err; status=$?
result "an adapter is trained against its base" "$([ $status = 0 ] || show err)"
exp=lora killed "an adapter: kill -9 in a step" kill3 KILL_STEP=5
"$GRPO" check lora.lua >out 2>err </dev/null; status=$?
result "grpo check measures it: the reference takes no memory" "$( grep -qE '^dpo +[0-9]+ MiB' out && grep -qE '^dpo.*reference 0' out || show out err)"

# ---- a reward model --------------------------------------------------------------------------------------------------------------
"$GRPO" generate whole/reward-001 '1+1=' >out 2>err; status=$?
result "a reward model generates nothing" "$([ $status != 0 ] && [ "$(grep -c '' err)" = 1 ] && grep -q 'grpo.reward_model loads it' err || show out err)"
cat >judged.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { path = "base" }, data = { train = grpo.data.jsonl("pairs.jsonl"), max_prompt_tokens = 8 }, sampling = { max_new_tokens = 4, group_size = 2 },
  rewards = { judge = grpo.reward_model("whole/reward-001") }, train = { steps = 1, prompts_per_step = 2 },
}
LUA
"$GRPO" run judged.lua --quiet --dir whole >out 2>err; status=$?
result "it judges completions of a run" "$([ $status = 0 ] && grep -q '"rewards/judge/mean": ' whole/judged-001/metrics.jsonl || show out err)"

# ---- pairs of a run's own completions --------------------------------------------------------------------------------------------
experiment sampled.lua 'train = { steps = 4, prompts_per_step = 4 }' '{ name = "short", fn = function(text) return -#text end }'
sed -i 's/max_new_tokens = 6 }/max_new_tokens = 6, stop = "1" }/' sampled.lua
"$GRPO" run sampled.lua --quiet --dir whole >/dev/null 2>err || show err
"$GRPO" pairs whole/sampled-001 >pairs.jsonl 2>err; status=$?
result "grpo pairs prints pairs" "$([ $status = 0 ] && [ "$(grep -c '"chosen": "[^"]*", "margin": [1-9]' pairs.jsonl)" -gt 2 ] && grep -q '^[0-9]* groups with a difference$' err || show pairs.jsonl err)"
result "the shorter text is chosen" "$(sed -E 's/.*"chosen": "([^"]*)".*"rejected": "([^"]*)".*/\1 \2/' pairs.jsonl |
  awk 'length($1) >= length($2) { print }')"
"$GRPO" run dpo.lua --quiet --dir own train.steps=2 >out 2>err; status=$?
result "a run learns from them" "$([ $status = 0 ] || show err)"
"$GRPO" pairs whole/sampled-001 --labels >labels.jsonl 2>err && "$GRPO" run kto.lua --quiet --dir own train.steps=2 >out 2>>err; status=$?
result "grpo pairs --labels: so does KTO" "$([ $status = 0 ] && grep -q '"label": true' labels.jsonl || show err)"
result "--from and --margin leave pairs out" "$([ "$("$GRPO" pairs whole/sampled-001 --from 3 --margin 2 2>/dev/null | wc -l)" -lt "$(grep -c '' pairs.jsonl)" ] ||
  show pairs.jsonl)"
"$GRPO" pairs nothing >out 2>err; status=$?
result "grpo pairs: no such run" "$([ $status = 3 ] && grep -q 'no such run' err || show err)"

# ---- refusals --------------------------------------------------------------------------------------------------------------------
# refused NAME PATTERN ROW WORDS...
refused() {
  local name=$1 pattern=$2 status; echo "$3" >pairs.jsonl; shift 3
  "$GRPO" run dpo.lua --quiet --dir none "$@" >out 2>err; status=$?
  result "refused: $name" "$([ $status = 2 ] && [ "$(grep -c '' err)" = 1 ] && grep -qE "$pattern" err && [ ! -e none ] || { echo "status $status"; show err; })"
}
refused "no chosen text" 'data.pair: a row has no chosen text \(it has prompt, rejected\) \(row 1 of data.train\)' '{"prompt": "1+1=", "rejected": "3"}'
{ for i in 1 2 3 4; do echo "{\"prompt\": \"1+$i=\", \"chosen\": \"$((i + 1))\", \"rejected\": \"9\"}"; done
  echo '{"prompt": "1+5=", "rejected": "9"}'; echo '{"prompt": "1+6=", "chosen": "7", "rejected": "7"}'; } >pairs.jsonl
if "$GRPO" help check | grep -q -- --link; then # the extension that reads all rows is there
  for exp in dpo reward; do
    "$GRPO" check $exp.lua >out 2>err </dev/null; status=$?
    result "$exp: grpo check finds rows that a run would meet later" "$([ $status = 1 ] &&
      grep -q 'data.train: data.pair fails on 2 rows; the first is row 5.*a row has no chosen text' out || show out err)"
  done
fi
refused "equal texts" 'chosen and rejected are the same text.*\(row 1 of data.train\)' '{"prompt": "1+1=", "chosen": "2", "rejected": "2"}'
refused "an unknown loss" "train.dpo.loss_type: got 'sigmod'.*did you mean 'sigmoid'" '{"prompt": "1+1=", "chosen": "2", "rejected": "3"}' train.dpo.loss_type=sigmod
refused "a text that is too long" 'the chosen text of a row has 9 tokens, the limit is 6.*\(row 1 of data.train\)' \
  '{"prompt": "1+1=", "chosen": "12345678", "rejected": "3"}' data.too_long=error
finish

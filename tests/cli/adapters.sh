#!/usr/bin/env bash
# Runs that train an adapter: what they keep, going on after a kill, references, merging.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# ---- a base model ----------------------------------------------------------------------------------------------------------
write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir made --steps 4 >/dev/null 2>&1
mkdir base
for f in config.json generation_config.json model.safetensors special_tokens_map.json tokenizer.json tokenizer_config.json; do
  cp made/exp-001/latest/$f base/
done
before=$(cat base/* | cksum)

# ---- what is trained and kept --------------------------------------------------------------------------------------------------
# lora: an adapter from the start, a supervised stage first; its dropout is on
write_experiment lora.lua '{ path = "base", lora = { rank = 2, alpha = 8, dropout = 0.1 } }'
"$GRPO" run lora.lua --dir whole >/dev/null 2>err || cat err
result "what is trained is said at the start" "$(grep -qE '^trainable: [0-9,]+ of [0-9,]+ parameters \([0-9.]+ %\)$' err || head -n 3 err)"
result "and in run.json" "$(grep -qE '"trainable": [0-9]+' whole/lora-001/run.json || show whole/lora-001/run.json)"
result "the base model is as it was" "$([ "$(cat base/* | cksum)" = "$before" ] || echo changed)"
latest=whole/lora-001/latest
result "a checkpoint holds the adapter, and not the base" "$(
  { [ -e $latest/adapter_model.safetensors ] && [ ! -e $latest/model.safetensors ]; } || ls $latest)"
result "the adapter names its base by its path" "$(grep -q '"base_model_name_or_path": "base"' $latest/adapter_config.json || show $latest/adapter_config.json)"
result "config.json says that dropout switches the check of the ratio off" "$(grep -q 'check that the ratio is 1' whole/lora-001/config.json || echo no)"

# ---- the same bytes --------------------------------------------------------------------------------------------------------------
"$GRPO" run lora.lua --quiet --dir again --threads 1 >/dev/null 2>&1
result "run again on one thread: the same bytes" "$(different whole/lora-001 again/lora-001)"
"$GRPO" run lora.lua --quiet --dir steps --steps 7 >/dev/null 2>&1
result "the reference of the second stage, a trained adapter, is kept" "$(ls steps/lora-001/latest/reference/adapter_model.safetensors 2>&1 >/dev/null)"
"$GRPO" run lora.lua --quiet --dir steps --resume >/dev/null 2>err
result "--resume: the same bytes" "$(cat err; different whole/lora-001 steps/lora-001)"
exp=lora killed "kill -9 in the first stage" kill1 KILL_CHECKPOINT=2
exp=lora killed "kill -9 in the middle of a step" kill2 KILL_ROLLOUT=9
result "run.json says what was trained after a kill in the first second too" "$(grep -qE '"trainable": [0-9]+' kill2/lora-001/run.json || show kill2/lora-001/run.json)"

# only: GRPO from the start, against the base itself
write_experiment only.lua '{ path = "base", lora = { rank = 2 } }'
sed -i '/kind = "sft"/d' only.lua
"$GRPO" run only.lua --quiet --dir whole >/dev/null 2>err || cat err
result "the ratio is exactly 1 where sampling and training meet" "$(every '"ratio_max_deviation": 0,' whole/only-001/metrics.jsonl)"
result "the KL is measured against the base: 0 before the first step" "$(
  head -n 1 whole/only-001/metrics.jsonl | grep -qE '"kl": -?0[,.e]' || head -n 1 whole/only-001/metrics.jsonl)"
exp="only" killed "a fresh adapter, kill -9 in the middle of a step" kill3 KILL_ROLLOUT=5
exp="only" killed "a fresh adapter, kill -9 after the last checkpoint" kill6 KILL_CHECKPOINT=10
result "a reference that is the base is not written" "$([ -d whole/only-001/latest/ ] || echo no run; find whole/only-001 -name reference)"

# more: the adapter of `only` is trained on
write_experiment more.lua '{ path = "whole/only-001" }'
sed -i '/kind = "sft"/d' more.lua
"$GRPO" run more.lua --quiet --dir whole >/dev/null 2>err || cat err
result "an adapter is trained on, with its state as the reference" "$(
  head -n 1 whole/more-001/metrics.jsonl | grep -qE '"kl": -?0[,.e]' || head -n 1 whole/more-001/metrics.jsonl)"
result "its checkpoints name the same base" "$(grep -q '"base_model_name_or_path": "base"' whole/more-001/latest/adapter_config.json || show whole/more-001/latest/adapter_config.json)"
"$GRPO" run more.lua --quiet --dir small --steps 1 model.quantize=nf4 >/dev/null 2>err
result "a run's adapter is trained on over weights in 4 bits" "$(cat err)"
"$GRPO" run more.lua --quiet --dir small --steps 1 'model.lora={}' >/dev/null 2>err
result "and brings its own rank: model.lora beside it is refused" "$(
  grep -q 'model.lora: whole/only-001 is an adapter, with settings of its own' err || show err)"
exp="more" killed "an adapter that is trained on, kill -9" kill4 KILL_ROLLOUT=5
"$GRPO" run more.lua --quiet --dir sync --steps 4 'train.sync_reference={}' train.sync_reference.every=2 >/dev/null 2>err || cat err
result "its reference can move" "$(ls sync/more-001/latest/reference/adapter_model.safetensors 2>&1 >/dev/null)"

# ---- generate, eval, export --------------------------------------------------------------------------------------------------------
asked() { "$GRPO" generate "$@" '3+4=' --completions 4 --seed 5 --max-new-tokens 6 --json 2>&1; }
with=$(asked whole/only-001)
result "generate takes the run with its adapter" "$(grep -q '"ids"' <<<"$with" || echo "$with")"
result "a merged model says the same" "$("$GRPO" export whole/only-001 merged --merge --dtype f32 2>&1 >/dev/null
  diff <(sed 's/"logprobs": [^]]*//' <<<"$with") <(asked merged | sed 's/"logprobs": [^]]*//'))"
result "and not what the base says" "$([ "$(asked merged | cksum)" != "$(asked base | cksum)" ] || asked base)"
"$GRPO" export whole/only-001 given --format adapter >/dev/null 2>err || cat err
result "an exported adapter says the same" "$(diff <(echo "$with") <(asked given))"
cp -r given elsewhere && sed -i 's|"base_model_name_or_path": "base"|"base_model_name_or_path": "../base"|' elsewhere/adapter_config.json
result "a base beside the adapter is found" "$(diff <(echo "$with") <(asked elsewhere))"
result "--base takes another" "$(sed -i 's|"../base"|"nowhere"|' elsewhere/adapter_config.json; diff <(echo "$with") <(asked elsewhere --base base))"
"$GRPO" eval whole/only-001 --json >out 2>err
result "eval takes the run" "$(grep -q '"eval/accuracy"' out || show err)"
result "eval agrees with the run's last evaluation" "$(
  diff <(tail -n 1 whole/only-001/eval.jsonl | grep -oE '"eval/(accuracy|mean_length)": [0-9.e-]*') <(grep -oE '"eval/(accuracy|mean_length)": [0-9.e-]*' out))"
"$GRPO" eval "$(ls -d whole/lora-001/checkpoints/* | head -n 1)" --json >out 2>err
result "eval takes a checkpoint" "$(grep -q '"eval/accuracy"' out || show err)"
"$GRPO" eval only.lua model.path=given model.lora=null --json >out 2>err
result "eval takes an adapter for a script" "$(grep -q '"eval/accuracy"' out || show err)"
# ---- a tokenizer with more tokens than the model -------------------------------------------------------------------------------------
write_experiment grow.lua '{ path = "base", tokenizer = grpo.tokenizer.chars("0123456789+=abc"), lora = { rank = 2 } }'
"$GRPO" run grow.lua --dir whole --steps 7 >/dev/null 2>err || cat err
result "the embedding grows, and the log says so" "$(grep -q 'the embedding got 3 new rows' err && grep -q 'new rows' whole/grow-001/run.log || head -n 3 err)"
"$GRPO" run --quiet --resume=whole/grow-001 >/dev/null 2>err
result "such a run is resumed" "$(cat err)"
result "its model generates" "$(asked whole/grow-001 | grep -q '"ids"' || asked whole/grow-001)"
result "its merged model too" "$("$GRPO" export whole/grow-001 grown --merge 2>&1 >/dev/null; asked grown | grep -q '"ids"' || asked grown)"
cp -r base wide && cp grown/tokenizer.json wide/
"$GRPO" generate wide 1a --max-new-tokens 3 --json >out 2>err
result "a model whose tokenizer has more tokens generates from them" "$(grep -q '"ids"' out || show err)"
"$GRPO" export wide widened >/dev/null 2>err
result "and is exported with rows for them" "$(
  grep -q "$(grep -o '"vocab_size": [0-9]*' grown/config.json)" widened/config.json || show err widened/config.json)"

# ---- a base in four bits -----------------------------------------------------------------------------------------------------------------
write_experiment four.lua '{ path = "base", quantize = "nf4", lora = { rank = 2 } }'
"$GRPO" run four.lua --quiet --dir whole >/dev/null 2>err || cat err
result "with NF4 the ratio is exactly 1 too" "$(
  grep '"kind": "grpo"' whole/four-001/metrics.jsonl >steps; every '"ratio_max_deviation": 0,' steps)"
exp=four killed "an adapter on a base in four bits, kill -9" kill5 KILL_ROLLOUT=9
"$GRPO" export whole/four-001 four --merge --quantize nf4 >/dev/null 2>err || cat err
result "a model merged in four bits is read back" "$(grep -q '"bnb_4bit_quant_type": "nf4"' four/config.json && asked four | grep -q '"ids"' || asked four)"

finish

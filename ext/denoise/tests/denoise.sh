#!/usr/bin/env bash
# kind = "denoise" from the outside: the same bits however it is run, kills and resumes, an adapter, the other commands.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

for _ in $(seq 60); do printf 'the quick brown fox jumps over the lazy dog. '; done >text

# write FILE MODEL
write() {
  cat >"$1" <<LUA
local grpo = require "grpo"
local function kill_at(name, step)
  if tonumber(os.getenv(name)) == step then os.execute("kill -9 \$PPID") end
end
local shape = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 2,
  max_position_embeddings = 40 }
return grpo.experiment {
  model = $2,
  data = { train = grpo.data.text("text", { window = 40, stride = 7 }), eval = grpo.data.text("text", { window = 40, stride = 60 }),
    max_prompt_tokens = 40 },
  train = { steps = 12, prompts_per_step = 8, lr = 3e-3, denoise = { random = 0.1, keep = 0.1 } },
  eval = { every = 4 }, checkpoint = { every = 2, best = "eval/masked_loss" },
  stages = { { kind = "denoise" } },
  hooks = {
    on_step = function(_, tr) kill_at("KILL_STEP", tr.step_count) end,
    on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
  },
}
LUA
}

write exp.lua '{ config = shape, tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz. ") }'
"$GRPO" run exp.lua --dir whole >out 2>err; status=$?
run=whole/exp-001
result "a run ends with status 0" "$([ $status = 0 ] || show err)"
result "it says what it measures, and shows samples" "$(grep -qE 'loss [0-9.]+ nats on masked tokens' err && grep -q '  sample 1: ' err || show err)"
result "samples are in the log" "$(grep -q 'sample 1: ' $run/run.log || show $run/run.log)"
result "the loss on masked tokens falls" "$(grep -o '"eval/masked_loss": [0-9.]*' $run/eval.jsonl |
  awk '{ l[NR] = $2 } END { exit !(NR == 4 && l[4] < l[1] - 0.2) }' || show $run/eval.jsonl)"
result "the checkpoint says what it is" "$(grep -qE '"mask_token_id": 30' $run/latest/config.json && grep -q '<|mask|>' $run/latest/tokenizer_config.json ||
  cat $run/latest/config.json)"

same() { result "$1" "$(different "whole/$3-001" "$2/$3-001")"; }
"$GRPO" run exp.lua --quiet --dir one --threads 1 train.micro_batch_tokens=1 >/dev/null 2>&1;    same "one thread, micro_batch_tokens = 1: the same bytes" one exp
"$GRPO" run exp.lua --quiet --dir two --threads 2 train.micro_batch_tokens=4096 >/dev/null 2>&1; same "two threads, micro_batch_tokens = 4096: the same bytes" two exp
"$GRPO" run exp.lua --quiet --dir less model.gradient_checkpointing=true >/dev/null 2>&1;        same "gradient checkpointing: the same bytes" less exp
killed "kill -9 in a step" kill1 KILL_STEP=7
killed "kill -9 after a checkpoint" kill2 KILL_CHECKPOINT=8
sed 's/^return grpo.experiment {$/&\n  compute = "bf16",/' exp.lua >half.lua
"$GRPO" run half.lua --quiet --dir whole >/dev/null 2>err; status=$?
result "compute = \"bf16\"" "$([ $status = 0 ] || show err)"
exp=half killed "bf16, kill -9 in a step" kill3 KILL_STEP=7

# ---- an adapter on a model that reads on, which has no mask token ----------------------------------------------------------------
cat >base.lua <<'LUA'
local grpo = require "grpo"
local tok = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz. ")
grpo.model.new({ model_type = "llama", vocab_size = #tok, hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
  num_attention_heads = 2, max_position_embeddings = 40 }, { seed = 3, tokenizer = tok }):save("base")
LUA
"$GRPO" repl <base.lua >/dev/null 2>&1
write lora.lua '{ path = "base", lora = { rank = 4, dropout = 0.1, targets = { "q_proj", "v_proj", "embed_tokens" } } }'
"$GRPO" run lora.lua --dir whole >/dev/null 2>err; status=$?
result "an adapter is trained, the vocabulary has grown by the mask" "$([ $status = 0 ] && grep -q 'has 31 tokens and the model 30' err || show err)"
exp=lora killed "an adapter, kill -9 in a step" kill4 KILL_STEP=7

# ---- other commands ------------------------------------------------------------------------------------------------------------------
"$GRPO" eval $run >out 2>err; status=$?
result "grpo eval" "$([ $status = 0 ] && grep -qE '^eval/below_unigram +[0-9.-]+$' out || show out err)"
result "grpo eval of it again gives the run's number" "$(
  a=$(sed -nE 's/^eval\/masked_loss +//p' out); b=$(tail -n 1 $run/eval.jsonl | grep -oE '"eval/masked_loss": [0-9.]+' | grep -oE '[0-9.]+$')
  awk -v a="$a" -v b="$b" 'BEGIN { exit !(a - b < 1e-3 && b - a < 1e-3) }' || echo "$a $b")"
"$GRPO" generate $run the --max-new-tokens 4 >out 2>err; status=$?
result "grpo generate notes that it was not trained to read on" "$([ $status = 0 ] && grep -q '^note: this model was trained to fill in masks' err || show err)"
"$GRPO" export $run exported >out 2>err; status=$?
result "grpo export keeps the mask token" "$([ $status = 0 ] && grep -q mask_token_id exported/config.json || show err)"

# ---- the experiments that have masked training -----------------------------------------------------------------------------------
shakespeare() { timeout 120 "$GRPO" run "$root/experiments/shakespeare.lua" --arg size=tiny --arg mode=denoise "$@" </dev/null; }
problem=$(shakespeare --dir shown --arg steps=60 --arg sample_every=30 2>err >out || cat err)
result "experiments/shakespeare.lua shows texts, and its held-out loss falls" "$problem$(grep -q '^--- a text after step 60:' err || cat err
  grep -o '"eval/masked_loss": [0-9.]*' shown/*/eval.jsonl |
    awk '{ l[NR] = $2 } END { exit !(NR > 2 && l[NR] < l[1] - 0.3) }' || show shown/*/eval.jsonl)"
for ratio in 0 -1; do
  shakespeare --dir bad --arg steps=1 --arg mask_ratio=$ratio >out 2>err; status=$?
  result "mask_ratio=$ratio is refused" "$([ $status = 2 ] && grep -q "^grpo: .*mask_ratio=$ratio: want more than 0" err || show err)"
done
characters=("$root/experiments/recipes/characters.lua" --arg size=tiny --arg program=denoise)
problem=$(timeout 120 "$GRPO" run "${characters[@]}" --quiet --dir recipe --arg steps=2 </dev/null 2>&1 >out) && problem=
result "the recipe characters runs" "$problem"
timeout 120 "$GRPO" check "${characters[@]}" </dev/null >out 2>err; status=$?
result "grpo check passes the recipe" "$([ $status = 0 ] || show out err)"
"$GRPO" help check | grep -q -- --link && # the extension that times a step is there
  result "and times a step that fills in masks" "$(grep -qE '^denoise +[0-9]+ +[0-9.]+ ' out || show out err)"
finish

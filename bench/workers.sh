#!/usr/bin/env bash
# bench/workers.sh [STEPS] : what a worker beside the trainer costs: bytes on the wire and CPU seconds of both processes, one thread
# each, for 20 million weights that are all trained, with three learning rates, and for an adapter on them; both also with a staleness.
set -eu
cd "$(dirname "$0")/.."
steps=${1:-6} grpo=$PWD/grpo work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GRPO_WORKER_TOKEN=a-token-for-measuring
cat >"$work/exp.lua" <<'LUA'
local grpo = require "grpo"
local function problem(rng) return { prompt = ("Count from %d: "):format(math.floor(rng() * 1000)) } end
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 512, intermediate_size = 1536, num_hidden_layers = 6, num_attention_heads = 8,
    max_position_embeddings = 128 }, tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.generate(problem, { seed = 1, n = 500 }), max_prompt_tokens = 24 },
  sampling = { group_size = 8, max_new_tokens = 64 },
  rewards = { { name = "digits", fn = function(text) return select(2, text:gsub("%d", "")) / 64 end } },
  train = { steps = 4, prompts_per_step = 8, optimizer = { weight_decay = 0.01 } },
}
LUA
cd "$work"

cpu() { awk '{ print $1 + $2 }' "$1"; } # user and system seconds
number() { sed -n "s/.*$2.*/\\1/p" "$1"; }

# measure NAME WORD... : a run alone, and one with a worker
measure() {
  local name=$1; shift
  /usr/bin/time -f '%U %S' -o alone.time "$grpo" run exp.lua --quiet --dir alone --threads 1 train.steps="$steps" "$@" >alone.dir
  /usr/bin/time -f '%U %S' -o with.time "$grpo" run exp.lua --dir with --threads 1 train.steps="$steps" workers.listen=127.0.0.1:7099 "$@" >with.dir 2>log &
  /usr/bin/time -f '%U %S' -o worker.time "$grpo" worker --connect 127.0.0.1:7099 --threads 1 --wait 30 2>worker.log
  wait
  cmp "$(cat alone.dir)/completions.jsonl" "$(cat with.dir)/completions.jsonl"
  printf '%-28s %8s %8s %8s   %s\n' "$name" "$(cpu alone.time)" "$(cpu with.time)" "$(cpu worker.time)" "$(grep 'workers sampled' log | paste -sd' ')"
}

printf '%-28s %8s %8s %8s   %s\n' '' alone trainer worker 'CPU seconds'
for rate in 1e-6 1e-5 1e-4; do measure "all weights, lr $rate" train.lr=$rate; done
base=$(cat alone.dir)
adapter=(model.path="$base" model.config=null model.tokenizer=null 'model.lora={"rank":8}')
measure "an adapter of rank 8" train.lr=1e-4 "${adapter[@]}"
for k in 1 2; do
  measure "all weights, staleness $k" train.lr=1e-5 workers.staleness=$k 'train.sampler_correction={}'
  measure "an adapter, staleness $k" train.lr=1e-4 workers.staleness=$k 'train.sampler_correction={}' "${adapter[@]}"
done

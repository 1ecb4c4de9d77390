#!/usr/bin/env bash
# Models and adapters as GGUF files, from the command line.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

asked() { "$GRPO" generate "$@" '3+4=' --completions 4 --seed 5 --max-new-tokens 6 --json 2>&1; }
without_logprobs() { sed 's/"logprobs": [^]]*//'; }

"$GRPO" repl <<'LUA'
grpo.model.new({ model_type = "llama", vocab_size = 258, hidden_size = 32, intermediate_size = 64,
  num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 64 },
  { tokenizer = grpo.tokenizer.bytes() }):save("base")
LUA
cat >adapter.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { path = "base", lora = { rank = 2, alpha = 8,
    targets = { "q_proj", "k_proj", "v_proj", "o_proj" } } },
  sampling = { group_size = 4, max_new_tokens = 6 },
  data = { max_prompt_tokens = 8, train = grpo.data.list { { prompt = "3+4=" } } },
  rewards = { { name = "length", fn = function(text) return select(2, text:gsub("%l", "")) end } },
  train = { steps = 2, prompts_per_step = 1, lr = 1e-2 },
}
LUA
"$GRPO" run adapter.lua --quiet --dir made >/dev/null 2>err || cat err
run=made/adapter-001

"$GRPO" export $run given.gguf --format adapter >out 2>err
result "an adapter is exported for llama.cpp as one file, whole, under its name" "$(
  { [ "$(cat out)" = given.gguf ] && [ "$(head -c 4 given.gguf)" = GGUF ] &&
    [ ! -e .tmp-given.gguf ] && grep -qa 'adapter.lora.alpha' given.gguf &&
    grep -qaE 'blk\.0\.[a-z_]+\.weight\.lora_b' given.gguf; } || show out err)"
"$GRPO" export $run merged --merge --dtype f32 >/dev/null 2>err || cat err
"$GRPO" export $run one.gguf --merge --dtype f32 >/dev/null 2>err || cat err
result "a merged model in one GGUF file says what its directory says" "$(
  asked merged | grep -q '"ids"' || asked merged
  diff <(asked merged | without_logprobs) <(asked one.gguf | without_logprobs))"
"$GRPO" export $run small.gguf --merge --quantize q8_0 >/dev/null 2>err || cat err
result "and in 8 bits generates" "$(asked small.gguf | grep -q '"ids"' || asked small.gguf)"
"$GRPO" export base model.gguf >out 2>err
result "a model is exported by its ending" "$([ "$(head -c 4 model.gguf)" = GGUF ] || show out err)"

# refused NAME MESSAGE ARGUMENT... : export ends with exit status 2 and this line
refused() {
  local name=$1 message=$2 status; shift 2
  "$GRPO" export "$@" >out 2>err; status=$?
  result "refused: $name" "$({ [ $status = 2 ] && grep -qE -- "^grpo: $message" err; } ||
    { echo "exit $status"; cat err; })"
}
refused "an unknown format" "export: --format: 'onnx' is not hf, adapter or gguf; " \
  base x --format onnx
refused "a type that a directory cannot hold" "--quantize q4_0: --format hf cannot hold it; use nf4 \
\(int8 is for loading only, q8_0, q4_0, mxfp4 are for --format gguf\)" base x --quantize q4_0
refused "a type that the file cannot hold" \
  "--quantize nf4: --format gguf cannot hold it; use q8_0 or q4_0" base x.gguf --quantize nf4
"$GRPO" repl <<'LUA'
grpo.model.new({ model_type = "gpt2_mla", vocab_size = 258, n_embd = 32, n_layer = 2, n_head = 4,
  n_positions = 96, q_lora_rank = 12, kv_lora_rank = 16, qk_nope_head_dim = 8,
  qk_rope_head_dim = 4, v_head_dim = 8 }, { tokenizer = grpo.tokenizer.bytes() }):save("latent")
LUA
"$GRPO" export latent out.gguf >out 2>err && echo "it was written" >>err
result "latent attention is refused by name" "$(
  grep -q "^grpo: out.gguf: writing 'gpt2_mla' models as GGUF" err || show err)"

"$GRPO" export base teacher.gguf --quantize q8_0 >/dev/null 2>err || show err
cat >student.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
    max_position_embeddings = 64, vocab_size = 258 }, tokenizer = grpo.tokenizer.bytes() },
  reference = "teacher.gguf", sampling = { max_new_tokens = 6 },
  data = { max_prompt_tokens = 8, train = grpo.data.list { { prompt = "3+4=" } } },
  stages = { { kind = "distill", train = { steps = 2 } } },
}
LUA
"$GRPO" run student.lua --quiet --as student >out 2>err; status=$?
result "a file is a teacher" "$({ [ $status = 0 ] && grep -qE '"kl": 0\.[0-9]*[1-9]' runs/student/metrics.jsonl; } || show err)"
finish

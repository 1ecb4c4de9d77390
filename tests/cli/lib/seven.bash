# Sourced by tests of models: one that has learned to answer everything with a digit, and a cache of the Hub for the test alone.
# shellcheck shell=bash
unset HF_HOME HUGGINGFACE_HUB_CACHE HF_ENDPOINT HF_TOKEN HF_TOKEN_PATH HUGGING_FACE_HUB_TOKEN HF_HUB_OFFLINE TRANSFORMERS_OFFLINE \
  XDG_CACHE_HOME http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
# shellcheck disable=SC2154  # of tiny.bash
export HF_HUB_CACHE=$work/cache

# is NAME EXPECTED ACTUAL
is() { result "$1" "$([ "$2" = "$3" ] || printf 'want %q\ngot  %q' "$2" "$3"; )"; }
# says NAME STATUS PATTERN COMMAND... : this exit status, and the last line on stderr matches
says() {
  local name=$1 want=$2 pattern=$3 status; shift 3
  "$@" >out 2>err </dev/null; status=$?
  if [ $status = "$want" ] && tail -n 1 err | grep -qE "$pattern"; then result "$name"; else
    result "$name" "status $status, want $want with $pattern
$(cat err)"; fi
}

# learn DIGIT DIR
learn() {
  cat >learn.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 2, max_position_embeddings = 96 }, tokenizer = grpo.tokenizer.chars("0123456789+=[]ua \n") },
  data = { train = grpo.data.list { { prompt = "[u]1+1=\n[a]" }, { prompt = "1+1=" } },
    target = function() return grpo.args.digit end, max_prompt_tokens = 12 },
  sampling = { max_new_tokens = 4 },
  stages = { { kind = "sft", train = { steps = 60, prompts_per_step = 4, lr = 1e-2 } } },
}
LUA
  "$GRPO" run --quiet learn.lua --arg digit="$1" --dir "runs-$1" >/dev/null 2>err || cat err
  cp -r "runs-$1/learn-001/latest/" "$2" && rm -f "$2/optimizer.safetensors" "$2"/{manifest,trainer}.json "$2/state.bin"
  printf '%s' "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}
{% endfor %}{% if add_generation_prompt %}[a]{% endif %}" >"$2/chat_template.jinja"
}

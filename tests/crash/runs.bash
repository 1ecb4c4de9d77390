# Sourced by tools/check-crash and tools/check-ranks-kill, in a directory of their own: the experiments of tiny.lua, and comparisons.
# shellcheck shell=bash disable=SC2154
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

cp "$root/tests/crash/tiny.lua" .
for _ in 1 2 3; do printf '12+34=46 0=0 99+1=100 '; done | tr -d ' ' >text
reward='return { digits = function(text) return select(2, text:gsub("%d", "")) / 4 end }'
"$GRPO" repl >out 2>&1 <<'LUA' || { cat out; exit 1; }
local tokenizer = grpo.tokenizer.chars("0123456789+=")
grpo.model.new({ model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
  max_position_embeddings = 24, eos_token_id = tokenizer.eos }, { seed = 5, tokenizer = tokenizer }):save("base")
grpo.model.new({ model_type = "qwen3_5_text", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
  num_key_value_heads = 1, head_dim = 8, partial_rotary_factor = 0.5, full_attention_interval = 2, linear_num_key_heads = 1,
  linear_num_value_heads = 2, linear_key_head_dim = 6, linear_value_head_dim = 6, max_position_embeddings = 24,
  eos_token_id = tokenizer.eos, initializer_range = 0.3 }, { seed = 5, tokenizer = tokenizer }):save("deltanet")
LUA

# picture RUN : all that must be equal: names, links, bytes, logs and run.json without times
picture() {
  (
    cd "$1" || exit
    find . -mindepth 1 ! -name '*.log' ! -name control.sock -printf '%y %p %l\n' | sort
    find checkpoints source logs config.json inputs.json -type f -exec cksum {} + | sort -k 3
    timeless metrics*.jsonl completions*.jsonl eval*.jsonl
    cat events.jsonl 2>/dev/null
    grep -vE '"(started|heartbeat|finished|pid|host|crc32c|size)"' run.json
  )
}

# problem KIND DIR : what is not as it should be after the end of a run; the run's parent holds nothing else
problem() {
  local now
  now=$(picture "$2/$1-001" 2>&1)
  [ "$now" = "$(<"$1.picture")" ] || diff "$1.picture" - <<<"$now" | cut -c1-300 | head -n 6
  [ "$(echo "$2"/* "$2"/.[!.]*)" = "$2/$1-001 $2/.lock" ] || ls -A "$2"
}

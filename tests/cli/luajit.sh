#!/usr/bin/env bash
# grpo/ffi.lua in LuaJIT: its own tests, Ctrl-C, the example, the page.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
build=$(dirname "$(readlink -f "$GRPO")")
if ! command -v luajit >/dev/null || [ -n "${RUN:-}" ] || ldd "$GRPO" | grep -qE 'lib(a|t)san'; then
  echo "ok 1 - LuaJIT # SKIP luajit is not installed, or a build with a sanitizer or for another machine"
  echo 1..1
  exit 0
fi
cd "$root" || exit 1
export LUA_PATH="$build/luajit/?.lua;;"

mkdir -p "$work/files"
timeout 300 luajit tests/luajit/ffi_test.lua "$work/files" >"$work/out" 2>&1
grep -v '^1\.\.' "$work/out" | sed -E 's/^(not )?ok [0-9]+ - /\1ok - ffi: /'
number=$((number + $(grep -cE '^(not )?ok' "$work/out")))
grep -q '^not ok' "$work/out" && bad=1
result "they end" "$(tail -n 1 "$work/out" | grep -qE '^1\.\.[0-9]+$' || show "$work/out")"

result "examples/embed/love.lua learns what game.c learns" \
  "$(diff <(timeout 300 luajit examples/embed/love.lua 30 2>&1) <(timeout 300 "$build/embed-hosts/game" 30 2>/dev/null))"

cat >"$work/long.lua" <<'LUA'
local grpo = require "grpo.ffi"
local context = grpo.context { threads = 1 }
local config = { model_type = "llama", hidden_size = 16, intermediate_size = 32, num_hidden_layers = 1, num_attention_heads = 2,
  max_position_embeddings = 32 }
local model = context:model { config = config, tokenizer = context:chars "ab" }
local trainer = model:trainer { max_prompt_tokens = 1, max_new_tokens = 8 }
print "begins" io.flush()
while true do trainer:step { prompts = { "a", "b" }, reward = function() return 1 end } end
LUA
luajit "$work/long.lua" >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 100); do grep -q begins "$work/out" && break; sleep 0.05; done
sleep 0.2
kill -INT $pid
wait $pid
status=$?
result "Ctrl-C raises LuaJIT's own error" "$([ $status = 1 ] && grep -q 'interrupted!' "$work/err" || echo "exit $status: $(cat "$work/err")")"

result "the declarations are those of grpo.h" "$(tools/abi --cdef | grep -vxFf "$build/luajit/grpo/ffi.lua")"
finish

#!/usr/bin/env bash
# libgrpo as a host finds it: what the libraries show, the header alone, the hosts of examples/embed, the same bits as
# the program.  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash
build=$(dirname "${GRPO:-./grpo}")
[ -e "$build/libgrpo.so.1" ] || build=$(dirname "$(readlink -f ./grpo)")
hosts=$build/embed-hosts
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

result "libgrpo.so shows names that begin with grpo_, the Lua module's, and nothing else" \
  "$(nm -D --defined-only "$build/libgrpo.so.1" | awk '$2 != "A" && $3 !~ /^(luaopen_)?grpo/ { print $3 }')"
result "libgrpo.a shows names that begin with grpo_, the Lua module's, and nothing else" \
  "$(nm -g --defined-only "$build/libgrpo.a" | awk 'NF == 3 && $3 !~ /^(luaopen_)?grpo/ { print $3 }')"
declared() { grep -v '^ \*' include/grpo.h | grep -oE '\b(luaopen_grpo|grpo_[a-z_]+)\(' | tr -d '(' | LC_ALL=C sort -u; }
result "every function of grpo.h is there, and none that it does not declare" \
  "$(diff <(declared) <(nm -D --defined-only "$build/libgrpo.so.1" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | LC_ALL=C sort -u))"
result "every function of grpo.h is called by a test" \
  "$(for name in $(declared); do grep -qE "\b$name[(,]" tests/api/*.[ch] examples/embed/*.c* || echo "$name"; done)"
result "the library has a soname" \
  "$(readelf -d "$build/libgrpo.so.1" | grep -q 'SONAME.*libgrpo.so.1' || echo none)"

# The header alone, in every dialect that it promises.
echo '#include "grpo.h"' >"$tmp/alone.c"
for dialect in "${CC:-cc} -std=c11" "${CC:-cc} -std=c17" "${CXX:-c++} -x c++ -std=c++17" "${CXX:-c++} -x c++ -std=c++20"; do
  # shellcheck disable=SC2086
  result "grpo.h alone: ${dialect#* }" "$($dialect -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$tmp/alone.c" 2>&1)"
done

result "the C host has less than 60 lines" "$(there examples/embed/train.c; awk 'END { if (NR >= 60) print NR }' examples/embed/train.c)"

# The page about it: its code is that of the hosts, and it names them all.
all=$(cat examples/embed/*) wrong="" block="" inside=""
while IFS= read -r line; do
  case $line in
    '```'?*) inside=1 block="" ;;
    '```') [ -n "$inside" ] && [[ "$all" != *"$block"* ]] && wrong+=$block; inside="" ;;
    *) [ -n "$inside" ] && block+=$line$'\n' ;;
  esac
done <docs/embedding.md
result "the code in docs/embedding.md is that of examples/embed" "$wrong"
result "docs/embedding.md names every host" \
  "$(for f in examples/embed/*; do grep -qF "(../$f)" docs/embedding.md || echo "$f"; done)"

# last_line COMMAND... : of its output; what it says on stderr is a failure
last_line() { timeout 300 "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || echo "exit $?"; cat "$tmp/err"; tail -n 1 "$tmp/out"; }

is() { result "$1" "$([ "$2" = "$3" ] || printf 'got: %s\nwant: %s\n' "$2" "$3")"; }
ran=$(last_line "$hosts/train" 30)
is "C, C++ and Python train the same bits" "$(last_line "$hosts/train_cpp" 30)" "$ran"
if command -v python3 >/dev/null && [ "${build##*/}" = release ]; then
  is "the Python host" "$(last_line python3 examples/embed/train.py 30 "$build/libgrpo.so.1")" "$ran"
fi
# The cells of the notebook over this library: tools/check-wheel runs it in Jupyter.
if command -v python3 >/dev/null && [ "${build##*/}" = release ]; then
  mkdir "$tmp/package" && cp -r python/grpo "$tmp/package/" && cp "$build/libgrpo.so.1" "$tmp/package/grpo/"
  python3 python/signatures.py include/grpo.abi >"$tmp/package/grpo/_abi.py"
  (cd "$tmp" && PYTHONPATH=package timeout 300 python3 -c 'import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]))' "$OLDPWD/examples/python/letters.ipynb") >"$tmp/out" 2>&1
  result "the notebook learns" "$(grep -qx 'a -> aaaaaaaa' "$tmp/out" || show "$tmp/out")"
fi
result "what they train is learned" "$(awk '{ if (!NF || $NF < 0.8) print "got: " $0 }' <<<"$ran")"
is "samples made elsewhere" "$(last_line "$hosts/outside" 60 | cut -d';' -f1)" "3 of 3 answers win"
is "steps in parts between frames" "$(timeout 300 "$hosts/game" 30 2>"$tmp/err" | tail -n 1)" "$ran"
is "two trainers in two threads" "$(last_line "$hosts/threads" 3)" "3 steps in each thread: the same bits"
"${GRPO:-./grpo}" repl >"$tmp/out" 2>&1 <<LUA
require("grpo").tokenizer.chars("abcdefgh"):save("$tmp/judge")
LUA
cp tests/cases/classifier/llama/config.json tests/cases/classifier/llama/model.safetensors "$tmp/judge/"
result "a reward model" "$(last_line "$hosts/judge" "$tmp/judge" ab cab | grep -vE '^-?[0-9]+\.[0-9]{4}  cab$')"
"${GRPO:-./grpo}" repl >"$tmp/out" 2>&1 <<LUA
local grpo = require "grpo"
grpo.model.new({ model_type = "llama", hidden_size = 16, intermediate_size = 24, num_hidden_layers = 1, num_attention_heads = 2,
  max_position_embeddings = 600 }, { tokenizer = grpo.tokenizer.bytes(), seed = 1 }):save("$tmp/talks")
LUA
result "a conversation" "$(timeout 300 "$hosts/chat" "$tmp/talks" 'a "question"' chatml >"$tmp/out" 2>&1 || cat "$tmp/out")"
is "a model without a chat template" "$(last_line "$hosts/chat" "$tmp/talks" hi | cut -c -51)" \
  "$(printf 'exit 1\nchat: chat: the tokenizer has no chat template; set')"
"${GRPO:-./grpo}" repl >"$tmp/out" 2>&1 <<LUA
local grpo = require "grpo"
local m = grpo.model.new({ model_type = "llama", hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
  num_attention_heads = 4, max_position_embeddings = 64, initializer_range = 0.15 }, { tokenizer = grpo.tokenizer.bytes(), seed = 1 })
local ok = pcall(m.save, m, "$tmp/base.gguf", { format = "gguf" })
print(ok and "gguf" or "none")
LUA
if [ "$(tail -n 1 "$tmp/out")" = gguf ]; then
  timeout 300 "$hosts/llama_files" "$tmp/base.gguf" "$tmp/adapter.gguf" hello 40 >"$tmp/out" 2>&1
  result "a host with llama.cpp's files learns and writes an adapter" "$(
    there "$tmp/adapter.gguf"
    awk '/reward/ { last = $NF; if (!n++) first = $NF } END { if (!(last > first + 1)) print first, last }' "$tmp/out"
    tail -n 1 "$tmp/out" | grep -vE '^104 101 108 108 111 ->( [0-9]+)+$')"
fi
is "a run that asks its host" "$(last_line "$hosts/run_parts" 40 | cut -c -8)" "step 40:"
is "a whole run" "$(last_line "$hosts/run" 3)" "stopped after 3 steps"
result "nano_rl.cpp learns from demonstrations and then from rewards" "$(timeout 300 "$hosts/nano_rl" 200 150 2>&1 </dev/null |
  awk '/supervised/ { before = $5 } /after GRPO/ { after = $3 } END { if (!(after > before + 10)) print before, after }')"

# The same experiment through the program and through the library, its reward in Lua: equal checkpoints.
cat >"$tmp/same.lua" <<'LUA'
local grpo = require "grpo"
local rows = {}
for letter in ("abcdefgh"):gmatch "." do rows[#rows + 1] = { prompt = letter } end
return grpo.experiment {
  model = { tokenizer = grpo.tokenizer.chars "abcdefgh", config = { model_type = "llama", hidden_size = 32,
    intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 32 } },
  data = { train = grpo.data.list(rows), max_prompt_tokens = 1 },
  sampling = { max_new_tokens = 8 },
  rewards = { function(text, row) return select(2, text:gsub(row.prompt, "")) / 8 end },
  train = { lr = 1e-2, steps = 3 },
}
LUA
cat >"$tmp/host.c" <<'C'
#include <grpo.h>
#include <stdio.h>
int main(int argc, char **argv) {
  grpo_context *c;
  grpo_run *r;
  grpo_run_options o;
  (void)argc;
  if (grpo_context_new(0, &c) || grpo_run_options_init(&o, sizeof o)) return 1;
  o.path = argv[1];
  o.directory = argv[2];
  if (grpo_run_new(c, &o, &r)) return 2;
  if (grpo_run_execute(r)) return puts(grpo_message(c)), 3;
  grpo_run_free(r);
  grpo_context_free(c);
  return 0;
}
C
if [ "${build##*/}" = release ]; then # with the archive: it must do without the shared library
  # shellcheck disable=SC2046  # pkg-config gives words
  "${CC:-cc}" -Iinclude -o "$tmp/host" "$tmp/host.c" "$build/libgrpo.a" $(pkg-config --libs lua5.4 libpcre2-8 libcjson) \
    -lm -ldl -pthread 2>"$tmp/err" ||
    result "a host links with libgrpo.a" "$(head -n 5 "$tmp/err")"
  "$tmp/host" "$tmp/same.lua" "$tmp/runs" && "${GRPO:-./grpo}" run "$tmp/same.lua" --dir "$tmp/runs" --quiet >/dev/null 2>&1
  result "the program and the library write the same weights" \
    "$(cmp "$tmp"/runs/same-001/latest/model.safetensors "$tmp"/runs/same-002/latest/model.safetensors 2>&1)"
fi
finish

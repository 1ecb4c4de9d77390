# Sourced by tests of grpo.so: $lua and $module (the directory of grpo.so), or one skipped test and the end.
# shellcheck shell=bash
: "${GRPO:=$PWD/grpo}"
lua=$(command -v lua5.4) module=$(dirname "$GRPO")/lua preload='' sanitize=''
skip_all() { echo "ok 1 - $1 # SKIP $2"; echo 1..1; exit 0; }
[ -n "$lua" ] || skip_all "grpo.so in a stock Lua" "lua5.4 is not installed"
[ -z "${RUN:-}" ] || skip_all "grpo.so in a stock Lua" "built for another machine"
[ -e "$module/grpo.so" ] || skip_all "grpo.so in a stock Lua" "not built: make lua-module"
# a sanitizer must be there before the interpreter starts
for sanitizer in asan tsan; do
  name=$(ldd "$module/grpo.so" | grep -oE "lib$sanitizer[^ ]*" | head -n 1)
  if [ -n "$name" ]; then
    preload=$(${CC:-cc} -print-file-name="lib$sanitizer.so")
    [ $sanitizer = asan ] && sanitize=-fsanitize=address || sanitize=-fsanitize=thread
  fi
done
stock() { LD_PRELOAD=$preload LUA_CPATH="$module/?.so;;" "$lua" "$@"; }

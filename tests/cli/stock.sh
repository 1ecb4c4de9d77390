#!/usr/bin/env bash
# grpo.so in a stock Lua: what it is linked with, what it does to a host, two states at once, the example.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/stock.bash
. "$root/tests/cli/lib/stock.bash"
cd "$root" || exit 1

result "grpo.so is linked with no Lua, no BLAS, no line editing" \
  "$(readelf -d "$module/grpo.so" | grep NEEDED | grep -E 'liblua|blas|libedit|readline')"
result "grpo.so shows its two entries and nothing else" \
  "$(nm -D --defined-only "$module/grpo.so" | awk '{ print $3 }' | grep -vxE 'luaopen_grpo|luaopen_grpo_core|__?(gcov|asan|odr)_.*')"

guest=$(stock tests/stock/guest.lua 2>&1)
echo "$guest" | grep -vE '^1\.\.' | sed -E "s/^(not )?ok [0-9]+ - /\1ok - a host: /"
number=$((number + $(grep -cE '^(not )?ok' <<<"$guest")))
grep -q '^not ok' <<<"$guest" && bad=1
result "the host's tests end" "$(tail -n 1 <<<"$guest" | grep -qE '^1\.\.[0-9]+$' || echo "its end: $(tail -n 1 <<<"$guest")")"

stock examples/embed/stock.lua >"$work/out" 2>"$work/err"
result "examples/embed/stock.lua trains" "$(awk '$1 == "reward" { ok = $6 > $2 + 0.3 } END { exit !ok }' "$work/out" ||
  cat "$work/out" "$work/err")"
stock -e 'require "grpo.core"; local s = require "grpo.schedule"; print(type(s.cosine))' >"$work/out" 2>&1
result "grpo.core may come first" "$(grep -x function "$work/out" >/dev/null || show "$work/out")"
GRPO_CPU=abacus stock -e 'require "grpo"' >"$work/out" 2>&1
result "a wrong GRPO_CPU is said" "$(grep -q 'GRPO_CPU=abacus: unknown' "$work/out" || show "$work/out")"
"$GRPO" repl >"$work/out" 2>&1 <<LUA
package.cpath = "$module/?.so"
package.loaded["grpo"] = nil
local grpo, where = require "grpo"
print(package.searchpath("grpo", package.cpath) ~= nil, grpo.tensor { 1 }:sum():item(), where)
LUA
result "the program keeps to its own modules where a grpo.so is about" \
  "$(grep -q '^true.*1.0.*lua/grpo/init.lua' "$work/out" || show "$work/out")"

# ---- two states, two threads, opened and closed again -------------------------------------------------------------------------
if ! pkg-config --exists lua5.4; then
  number=$((number + 1))
  echo "ok $number - two Lua states in two threads # SKIP no liblua5.4 to link a host with"
else
  # shellcheck disable=SC2046
  ${CC:-cc} -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -g $sanitize $(pkg-config --cflags lua5.4) tests/stock/two_states.c -o "$work/two" \
    $(pkg-config --libs lua5.4) -pthread 2>"$work/err"
  once=$("$work/two" "$module" 1 2>>"$work/err")
  again=$("$work/two" "$module" 4 2>>"$work/err")
  result "two Lua states in two threads give the same each time they are opened" \
    "$([ -n "$once" ] && [ "$once" = "$again" ] || { echo "$once, $again"; cat "$work/err"; })"
  if [ -n "$sanitize" ]; then
    result "no sanitizer finds anything" "$(cat "$work/err")"
  elif command -v valgrind >/dev/null; then
    # OpenBLAS, which GRPO_CPU=blas loads, stays loaded
    env -u GRPO_CPU valgrind -q --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all --error-exitcode=9 "$work/two" "$module" 2 \
      >"$work/out" 2>"$work/err"
    result "closing leaves nothing (valgrind)" "$([ $? = 0 ] || show "$work/err")"
  else
    number=$((number + 1))
    echo "ok $number - closing leaves nothing # SKIP valgrind is not installed"
  fi
fi

# ---- busted and luarocks ----------------------------------------------------------------------------------------------------------
if command -v busted >/dev/null && [ -z "$preload" ]; then
  stock "$(command -v busted)" --lua="$lua" -p '_test' --helper=tests/stock/busted.lua -o TAP rewards >"$work/out" 2>&1
  result "reward tests run under busted" \
    "$([ "$(grep -c '^ok' "$work/out")" -gt 40 ] && ! grep -A 8 '^not ok' "$work/out" || tail -n 20 "$work/out")"
else
  number=$((number + 1))
  echo "ok $number - reward tests run under busted # SKIP busted is not installed, or a build with a sanitizer"
fi
if command -v luarocks >/dev/null && [ "$(basename "$(dirname "$GRPO")")" = release ]; then
  unset MAKEFLAGS MFLAGS MAKELEVEL BUILD MODE
  result "luarocks lint" "$(luarocks lint grpo-scm-1.rockspec 2>&1)"
  HOME=$work luarocks --lua-version 5.4 --tree "$work/tree" make grpo-scm-1.rockspec >"$work/out" 2>&1
  LUA_CPATH="$work/tree/lib/lua/5.4/?.so" "$lua" examples/embed/stock.lua >"$work/answer" 2>&1
  result "luarocks make installs a module that trains" "$(grep '^reward' "$work/answer" >/dev/null || show "$work/out" "$work/answer")"
else
  number=$((number + 1))
  echo "ok $number - luarocks make # SKIP luarocks is not installed, or not the release build"
fi
finish

#!/usr/bin/env bash
# make install and uninstall: what is put where, that it works from there without the source tree, that nothing is left.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
if [ -n "${RUN:-}" ]; then
  echo "ok 1 - make install # SKIP built for another machine"
  echo 1..1
  exit 0
fi
build=$(dirname "$(readlink -f "$GRPO")")
unset MAKEFLAGS MFLAGS MAKELEVEL MODE PREFIX DESTDIR BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR PKGCONFIGDIR LUA_CMOD LUAJIT_LMOD LUA_PATH
mode=$(basename "$build")
case $mode in debug | asan | tsan | cov) ;; *) mode=release ;; esac
run_make() { make -s -C "$root" MODE=$mode BUILD="${build#"$root"/}" EXT="$(cat "$build/extensions")" "$@"; }
# neither a sanitizer's build nor one that counts what it reaches
is_plain() { ! ldd "$GRPO" | grep -qE 'lib(a|t)san' && ! grep -q __gcov_ "$GRPO"; }

# ---- without the optional libraries ---------------------------------------------------------------------------------------------------
problem=''
read -ra flags < <(pkg-config --cflags lua5.4 libpcre2-8 libcjson)
for file in $(cd "$root" && grep -rlE 'GRPO_HAVE_[A-Z]+' --include='*.c' src ext | LC_ALL=C sort); do
  for without in $(grep -ohE 'GRPO_HAVE_[A-Z]+' "$root/$file" | sort -u) all; do
    have=()
    for name in $(grep -ohE 'GRPO_HAVE_[A-Z]+' "$root/$file" | sort -u); do
      [ $without = all ] || [ $without = "$name" ] || have+=("-D$name")
    done
    problem+=$(cd "$root" && "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -Isrc -Iext -Iinclude "${flags[@]}" -pthread "${have[@]}" \
      '-DGRPO_VERSION="0"' '-DGRPO_COMMIT="0"' -c -o /dev/null "$file" 2>&1 | sed "s/^/without $without: /")
  done
done
result "each source compiles without each optional library, and without all" "$problem"

packages() { sed -n 's/^DEBIAN *:= *build-essential //p' "$root/Makefile"; sed 's/^[A-Z]*=[^ ]* //' "$root"/ext/*/libraries; }
result "debian/control names the packages of the Makefile and of ext/*/libraries" "$(
  for package in $(packages); do grep -qE "[ :]$package(,|\$)" "$root/debian/control" || echo "$package"; done)"

# ---- staged, as packages are made ---------------------------------------------------------------------------------------------------
mkdir -p stage/usr/bin
echo mine >stage/usr/bin/other
run_make install PREFIX=/usr DESTDIR="$work/stage" >out 2>&1
result "make install PREFIX=/usr DESTDIR=..." "$([ $? = 0 ] || show out)"
missing=''
for file in bin/grpo lib/lua/5.4/grpo.so share/grpo/lua/grpo/meta/grpo.lua share/grpo/rewards/gsm8k.lua \
  share/grpo/experiments/gsm8k.lua share/grpo/examples/custom_reward.lua share/grpo/configs/train/gsm8k.json \
  share/doc/grpo/LICENSE share/doc/grpo/options.md share/man/man1/grpo.1 share/man/man5/grpo-experiment.5 \
  share/bash-completion/completions/grpo share/zsh/site-functions/_grpo share/fish/vendor_completions.d/grpo.fish; do
  [ -s "stage/usr/$file" ] || missing+="$file "
done
result "program, module, annotations, examples, pages and completions are there" "$missing"
result "nothing is outside the prefix" "$([ -d stage/usr ] || echo nothing; find stage -type f -not -path 'stage/usr/*')"
result "no installed text names the staging directory or the source tree" \
  "$(grep -rlIF -e "$work" -e "$root/" stage)"
debug() { readelf -S --wide "$@" 2>/dev/null | grep -c '\.debug_info'; }
built="$(find stage/usr -name grpo -path '*/bin/*' -o -name 'grpo.so' -o -name 'libgrpo*' -type f)"
# shellcheck disable=SC2086
result "what is installed has no debug information" "$([ "$(debug $built)" = 0 ] || readelf -S --wide $built | grep debug_info)"
result "nothing is compiled for this machine only" "$(grep -nE 'march=native|mtune=native' "$root/Makefile")"
find stage | sort >once
run_make install PREFIX=/usr DESTDIR="$work/stage" >out 2>&1
result "installing twice is installing once" "$(find stage | sort | diff once -)"
run_make install PREFIX=/usr DESTDIR="$work/stage" STRIP= >out 2>&1
result "unless STRIP is empty" "$(cmp "$GRPO" stage/usr/bin/grpo)"
run_make uninstall PREFIX=/usr DESTDIR="$work/stage" >out 2>&1
result "make uninstall leaves nothing, and what is not ours" \
  "$([ "$(find stage | sort)" = "$(printf '%s\n' stage stage/usr stage/usr/bin stage/usr/bin/other)" ] || find stage)"
run_make uninstall PREFIX=/usr DESTDIR="$work/stage" >out 2>&1
result "a second uninstall says that there is nothing" "$([ $? != 0 ] && grep -q 'nothing is installed there' out || show out)"

# ---- used from where it was put, the source tree out of sight where the system allows that -------------------------------------------
prefix=$work/prefix
run_make install PREFIX="$prefix" >out 2>&1
hidden() { "$@"; }
if unshare -rm true 2>/dev/null; then
  # shellcheck disable=SC2016
  hidden() { unshare -rm bash -c 'mount -t tmpfs none "$0" && exec "$@"' "$root" "$@"; }
fi
mkdir elsewhere
cd elsewhere || exit 1
unset GRPO_LUA
hidden "$prefix/bin/grpo" run examples/custom_reward.lua --quiet --steps 2 >../out 2>../err
result "an installed program runs an installed example" "$(grep -q '^runs/' ../out || show ../out ../err)"
hidden "$prefix/bin/grpo" check experiments/gsm8k.lua --arg model=nowhere >../out 2>&1
result "and finds the experiments" "$(grep -q 'nowhere' ../out && ! grep -qE 'cannot open experiments|no such file' ../out || show ../out)"
echo 'local grpo = require "grpo"
local gsm8k = require "rewards.gsm8k"
print(require("grpo.base.install_dir").directory(), gsm8k.correct("#### 3", { answer = "3" }))' >share.lua
hidden "$prefix/bin/grpo" repl <share.lua >../out 2>&1
result "its share directory is the installed one" "$(grep -qF "$prefix/share/grpo" ../out || show ../out)"
if command -v lua5.4 >/dev/null && is_plain; then
  LUA_CPATH="$prefix/lib/lua/5.4/?.so" hidden lua5.4 share.lua >../out 2>&1
  result "the module finds it too" "$(grep -qF "$prefix/share/grpo" ../out || show ../out)"
else
  number=$((number + 1))
  echo "ok $number - the module finds it too # SKIP no lua5.4, or a build with a sanitizer"
fi

# ---- the library, when there is one ---------------------------------------------------------------------------------------------------
if [ -e "$prefix/lib/pkgconfig/grpo.pc" ] && is_plain; then
  cat >host.c <<'C'
#include <grpo.h>
int main(void) { return grpo_version() == 0; }
C
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  ${CC:-cc} -std=c11 -Wall -Werror host.c -o host $(pkg-config --cflags --libs grpo) >../out 2>&1
  result "pkg-config's flags compile a host" "$([ -x host ] || show ../out)"
  LD_LIBRARY_PATH=$prefix/lib hidden ./host >../out 2>&1
  result "which runs with the installed library" "$([ $? = 0 ] || show ../out)"
  # shellcheck disable=SC2046
  ${CC:-cc} -std=c11 host.c -o static-host $(pkg-config --cflags grpo) "$prefix/lib/libgrpo.a" $(pkg-config --libs lua5.4 libpcre2-8 libcjson) -lm -ldl -pthread >../out 2>&1
  if command -v luajit >/dev/null; then
    LUA_PATH="$prefix/share/lua/5.1/?.lua" hidden luajit -e 'print(require("grpo.ffi").version)' >../out 2>&1
    result "LuaJIT's module finds it" "$(grep -q '^[0-9.]*$' ../out || show ../out)"
  fi
  result "the static library, too" "$(./static-host || show ../out)"
else
  number=$((number + 1))
  echo "ok $number - pkg-config's flags compile a host # SKIP no library in this build, or one of a sanitizer or for coverage"
fi
cd .. || exit 1
run_make uninstall PREFIX="$prefix" >out 2>&1
result "uninstalling leaves nothing" "$(absent "$(dirname "$prefix")" "$prefix")"
finish

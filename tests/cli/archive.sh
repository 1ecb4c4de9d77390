#!/usr/bin/env bash
# What packagers do: sources without git, flags of their own.  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash
root=$PWD
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL MODE BUILD CPPFLAGS CFLAGS

if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
  head=$(git rev-parse HEAD | cut -c 1-12)
  result "a checkout knows its commit" "$([ "$(tools/source-commit)" = "$head" ] || tools/source-commit)"
  mkdir "$work/archive"
  git archive HEAD .gitattributes Makefile tools src/base | tar xf - -C "$work/archive"
  result "so does an archive of it" "$([ "$("$work/archive/tools/source-commit")" = "$head" ] || "$work/archive/tools/source-commit")"
  make -s -C "$work/archive" V=1 -n build/release/obj/base/version.o >"$work/out" 2>&1
  result "and what is built from that" "$(grep -q -- "-DGRPO_COMMIT='\"$head\"'" "$work/out" || show "$work/out")"
  mkdir -p "$work/other/sub/tools"
  cp tools/source-commit tools/commit "$work/other/sub/tools/"
  result "a copy without git does not" "$([ "$("$work/other/sub/tools/source-commit")" = unknown ] || "$work/other/sub/tools/source-commit")"
  git -c init.defaultBranch=main init -q "$work/other" && git -C "$work/other" -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
  result "nor does it take the commit of a repository around it" \
    "$([ "$("$work/other/sub/tools/source-commit")" = unknown ] || "$work/other/sub/tools/source-commit")"
fi

# compiled TARGET MARK VARIABLE=VALUE : the commands for the target have the mark
compiled() { make -s -C "$root" V=1 -n BUILD="$work/build" "$3" "$work/build/$1" 2>&1 | grep -q -- " $2 " || echo "$1 is compiled without $3"; }
for target in obj/base/version.o obj/script/lua_edit.o double/base/err.o tests/testing.o bench/obj/rates.o embed-hosts/minimal; do
  [ "$target" != embed-hosts/minimal ] || target=embed-hosts/$(basename "$(ls examples/embed/*.c | head -n 1)" .c)
  result "CPPFLAGS reach $target" "$(compiled "$target" -DMARK=1 CPPFLAGS=-DMARK=1)"
done
result "and CFLAGS" "$(compiled obj/base/version.o -DMARK=2 CFLAGS=-DMARK=2)"
finish

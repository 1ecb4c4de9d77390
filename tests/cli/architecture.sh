#!/usr/bin/env bash
# ARCHITECTURE.md names every source file, and no file that is not there.  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash

# Paths named below the headings "### DIRECTORY", in lines "- `name`: ...", where `x.[ch]` is two files.
named() {
  awk '/^### / { dir = $2 } /^## / { dir = "" }
       dir && /^- `/ {
         split($0, part, "`"); name = part[2]
         if (sub(/\.\[ch\]$/, "", name)) { print dir "/" name ".c"; print dir "/" name ".h" } else print dir "/" name
       }' ARCHITECTURE.md | LC_ALL=C sort
}
present() { find src lua \( -name '*.[ch]' -o -name '*.lua' \) | LC_ALL=C sort; }

result "every source file has its line in ARCHITECTURE.md" "$(comm -13 <(named) <(present))"
result "ARCHITECTURE.md names no file that is not there" "$(comm -23 <(named) <(present))"
result "no file is named twice" "$(named | uniq -d)"
# shellcheck disable=SC2016
result "every line says what the file is" "$(grep -nE '^- `[^`]+`:?[[:space:]]*$' ARCHITECTURE.md)"
finish

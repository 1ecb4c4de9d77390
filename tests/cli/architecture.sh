#!/usr/bin/env bash
# ARCHITECTURE.md has a line for every folder of src and lua, and names none that is not there.  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash

# Folders in rows "| `src/FOLDER` | ..." of the layers and in lines "- `FOLDER`: ..." below "## Folders".
named() {
  awk '/^## / { inside = $2 == "Folders" }
       inside && /^- `/ || /^\| `src\// { split($0, part, "`"); print part[2] }' ARCHITECTURE.md | LC_ALL=C sort
}
# Folders that hold source files.
present() { find src lua -type f \( -name '*.[ch]' -o -name '*.lua' \) | sed 's|/[^/]*$||' | LC_ALL=C sort -u; }

result "every folder has its line in ARCHITECTURE.md" "$(comm -13 <(named) <(present))"
result "ARCHITECTURE.md names no folder that is not there" "$(comm -23 <(named) <(present))"
result "no folder is named twice" "$(named | uniq -d)"
# shellcheck disable=SC2016
result "every line says what the folder is" "$(none '^(- `[^`]+`:?[[:space:]]*$|\| `src/[^`]+` \|[[:space:]]*\|)' ARCHITECTURE.md)"
result "ARCHITECTURE.md has at most 200 lines" "$(there ARCHITECTURE.md; awk 'END { if (NR > 200) print NR " lines" }' ARCHITECTURE.md)"
finish

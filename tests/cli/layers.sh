#!/usr/bin/env bash
# Who may include what, one test a rule (see ARCHITECTURE.md).  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash

# sources DIR... : the C files below them
sources() { find "$@" \( -name '*.c' -o -name '*.h' -o -name '*.def' \) 2>/dev/null | LC_ALL=C sort; }

# includes PATTERN FILE... : include lines whose "..." or <...> matches
includes() {
  local pattern=$1; shift
  [ $# = 0 ] || grep -nHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]${pattern}[>\"]" "$@"
}

layers='base|os|formats|kern|grad|text|model|checkpoint|rl|script|api'

# may LAYER ALLOWED... : its own includes name a layer of the list (grpo.h is for the top two)
may() {
  local layer=$1 allowed; shift
  allowed=$(IFS='|'; echo "$*")
  # shellcheck disable=SC2046  # no file here has a space in its name
  result "$layer includes only ${*/%/\/}" \
    "$(grep -nHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*(\"|<($layers)/)" $(sources "src/$layer") /dev/null |
       grep -vE "include[[:space:]]*[\"<]($allowed)/" |
       { [ "$layer" = api ] || [ "$layer" = script ] && grep -v '"grpo.h"' || cat; })"
}

# only NAME PATTERN FILES : only those files include it (FILES: an extended regular expression)
only() {
  # shellcheck disable=SC2046
  result "only $1" "$(includes "$2" $(sources src) | grep -vE "^($3):")"
}

may base       base
may os         base os
may formats    base os formats
may kern       base kern
may grad       base kern grad
may text       base os formats text
may model      base os formats kern grad text model
may checkpoint base os formats kern grad text model checkpoint
may rl         base os formats kern grad text model checkpoint rl
may script     base os formats kern grad text model checkpoint rl script
may api        base os formats kern grad text model checkpoint rl script api

# ---- extensions use the core, and never the reverse; none uses another --------------------------
result "the core includes no extension" "$(grep -rnE '#[[:space:]]*include[[:space:]]*"(\.\./)*ext/' src include /dev/null
  for e in ext/*/; do grep -rnF "#include \"$(basename "$e")/" src include; done)"
# modules DIR : the Lua modules below DIR/lua
modules() { find "$1/lua" -name '*.lua' 2>/dev/null | sed -E 's|.*/lua/||; s|(/init)?\.lua$||; s|/|.|g'; }
# requires MODULES FILE... : lines that require one of them
requires() {
  local list=$1; shift
  [ -z "$list" ] || grep -rnE "require *\(? *[\"'](${list//$'\n'/|})[\"']" --include='*.lua' "$@"
}
result "the Lua of the core requires no extension" "$(for e in ext/*/; do requires "$(modules "$e")" lua rewards; done)"
for e in ext/*/; do
  e=${e%/} name=$(basename "$e")
  result "$name says what it is and what it costs" "$([ -s "$e/README.md" ] && grep -q '^## What it costs' "$e/README.md" || echo "$e/README.md")"
  result "$name uses no other extension" "$(for o in ext/*/; do
    [ "${o%/}" = "$e" ] || { requires "$(modules "$o")" "$e"; grep -rnF "#include \"$(basename "$o")/" "$e" --include='*.[ch]'; }
  done)"
done

# strays HEADER... : functions whose name lacks the last word of the header's name.  What binding.h
# includes is the vocabulary of all bindings, and script_ is the layer's own prefix.
strays() {
  local h stem word
  for h in "$@"; do
    stem=$(basename "$h" .h) word=
    grep -q "\"script/$stem.h\"" src/script/binding.h && continue
    word=${stem##*_}
    sed -nE 's/^[A-Za-z_][A-Za-z_0-9 ]*[ *]([a-z_0-9]+)\(.*/\1/p' "$h" |
      grep -vE "${word%s}|^script_|^__attribute__$" | sed "s|^|$h: |"
  done
}
# environment.h is the one exception; take it off the list when its functions are renamed.
result "the functions of src/script tell their file" \
  "$(strays src/script/*.h | grep -v '^src/script/environment\.h: push_\(module\|copy\)$')"

only "src/script, src/main.c and src/module.c include Lua" '(lua5.4/)?(lua|lauxlib|lualib|luaconf)\.h' 'src/script/[^:]*|src/(main|module)\.c'
only "src/base/regex.c includes PCRE2" 'pcre2(posix)?\.h' 'src/base/regex\.c'
only "src/formats/json.c includes cJSON" '(cjson/)?cJSON\.h' 'src/formats/json\.c'
only "no file includes BLAS" '([a-z0-9_-]+/)?(cblas|openblas_config|f77blas|lapacke)[^">]*\.h' none
only "src/base/pool.c includes threads' futexes" 'linux/futex\.h' 'src/base/pool\.c'
only "extensions include MPI" 'mpi\.h' none
finish

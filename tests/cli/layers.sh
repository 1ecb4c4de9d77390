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
only "src/script, src/main.c and src/module.c include Lua" '(lua5.4/)?(lua|lauxlib|lualib|luaconf)\.h' 'src/script/[^:]*|src/(main|module)\.c'
only "src/base/regex.c includes PCRE2" 'pcre2(posix)?\.h' 'src/base/regex\.c'
only "src/kern/blas.c includes BLAS" '([a-z0-9_-]+/)?(cblas|openblas_config|f77blas|lapacke)[^">]*\.h' 'src/kern/blas\.c'
only "src/base/pool.c includes threads' futexes" 'linux/futex\.h' 'src/base/pool\.c'
only "src/mpi_module.c includes MPI" 'mpi\.h' 'src/mpi_module\.c'
finish

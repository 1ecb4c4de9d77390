#!/usr/bin/env bash
# What keeps a run's bits from depending on the machine (docs/portable.md).  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash
build=$(dirname "$(readlink -f "${GRPO:-./grpo}")")

# Functions of libm whose results C libraries round differently.  Those of src/base (exponential.h, trigonometry.h, erf.h)
# are used in their place.  sqrt, floor, fmod, ldexp and others are not here, because their results are exact.
rounded='(a?(sin|cos|tan)h?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p)?|pow|erfc?|[lt]?gamma|hypot|cbrt|fma|j[01n]|y[01n]|c(exp|log|pow|sqrt|abs|arg))'
tmp=$(mktemp) && trap 'rm -f "$tmp"' EXIT
find "$build/obj" -name '*.o' >"$tmp"
result "no object takes a function from libm whose rounding is libm's" \
  "$(there "$tmp"; while read -r object; do nm -u "$object" | awk -v o="$object" '{ print o, $2 }'; done <"$tmp" |
    grep -E " $rounded[fl]?$")"
result "Lua's operator ^ finds the program's pow before that of libm" \
  "$(nm "$build/grpo" | grep -q ' T pow$' || echo "pow is not in $build/grpo")"
finish

#!/usr/bin/env bash
# What keeps a run's bits from depending on the machine (docs/portable.md), and four runs whose sums are in the repository.
# tools/check-portable does the same on other machines.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/portable/runs.bash
. "$root/tests/portable/runs.bash"
build=$(dirname "$(readlink -f "$GRPO")")

# Functions of libm whose results C libraries round differently.  Those of src/base (exponential.h, trigonometry.h, erf.h)
# are used in their place.  sqrt, floor, fmod, ldexp and others are not here, because their results are exact.
rounded='(a?(sin|cos|tan)h?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p)?|pow|erfc?|[lt]?gamma|hypot|cbrt|fma|j[01n]|y[01n]|c(exp|log|pow|sqrt|abs|arg))'
mapfile -t objects < <(find "$build/obj" -name '*.o')
result "no object takes a function from libm whose rounding is libm's" \
  "$([ "${#objects[@]}" -gt 0 ] || echo "no objects in $build/obj"
    nm -Au "${objects[@]}" 2>&1 | grep -E " U $rounded[fl]?$")"
result "Lua's operator ^ finds the program's pow before that of libm" \
  "$(nm "$GRPO" | grep -q ' T pow$' || echo "pow is not in $GRPO")"
result "no object fuses a multiplication and an addition, but tables that are to do so" "$(multiplies_and_adds objdump "${objects[@]}")"

threads=1
for class in portable-avx512 portable-avx2 portable-neon generic; do
  GRPO_CPU=$class "$GRPO" --version >/dev/null 2>&1 || continue
  mkdir $class && cd $class || exit 1
  THREADS=$threads GRPO_CPU=$class portable_runs "$GRPO" >sums
  result "$class, $threads threads: the sums of tests/portable/sums" "$(diff "$root/tests/portable/sums" sums)"
  cd .. || exit 1
  threads=$((threads + 1))
done
finish

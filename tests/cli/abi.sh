#!/usr/bin/env bash
# Programs that were compiled with grpo.h continue to run: include/grpo.abi holds what they depend on.  TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

result "grpo.h has what include/grpo.abi lists, and nothing else" "$(there include/grpo.abi; tools/abi --check 2>&1)"
result "the version in grpo.h is that of the Makefile and of the packages" "$(
  of_header=$(awk '/^#define GRPO_VERSION_(MAJOR|MINOR|PATCH) / { v = v "." $3 } END { print substr(v, 2) }' include/grpo.h)
  grep -qx "VERSION *:= *$of_header" Makefile || echo "grpo.h: $of_header"
  head -n 1 debian/changelog | grep -qF "grpo ($of_header" || echo "debian/changelog: $(head -n 1 debian/changelog)")"

# changed NAME SED WORD : a header changed by SED is refused with WORD
changed() {
  rm -rf "$tmp/tree" && mkdir -p "$tmp/tree/tools" && cp -r include "$tmp/tree/" && cp tools/abi "$tmp/tree/tools/"
  sed -i "$2" "$tmp/tree/include/grpo.h"
  cmp -s include/grpo.h "$tmp/tree/include/grpo.h" && result "$1" "the header did not change" && return
  result "$1" "$("$tmp/tree/tools/abi" --check 2>&1 | grep -qF "$3" || echo "not found")"
}
changed "a field that is added is found" 's/^} grpo_prompt;/  int32_t more;\n&/' "grpo_prompt 24"
changed "a struct that grew needs a new number" 's/^} grpo_sampling;/  int64_t more;\n&/' "increase GRPO_ABI_ADDITIONS"
changed "fields that changed places are found" 's/double top_p, min_p;/double min_p, top_p;/' "GRPO_ABI_VERSION must increase"
changed "another type of the same size is found" 's/  uint64_t seed;  /  int64_t seed;  /' "grpo_model_options.seed"
changed "another argument is found" 's/grpo_context_free(grpo_context \*c)/grpo_context_free(void *c)/' "grpo_context_free(grpo_context"
changed "a function after a #define of two lines, too" 's/uint32_t grpo_abi_version(void)/int grpo_abi_version(void)/' "function uint32_t grpo_abi_version"
changed "another value of a constant is found" 's/GRPO_ELIMIT = 7,/GRPO_ELIMIT = 17,/' "GRPO_ELIMIT 7"
changed "a new number needs a row" 's/\(define GRPO_ABI_ADDITIONS\) .*/\1 1000/' "has the number 1.1000"
sed -i 's/^} grpo_sampling;/  int64_t more;\n&/; s/\(define GRPO_ABI_ADDITIONS\) .*/\1 1000/' "$tmp/tree/include/grpo.h"
result "what is new is added under the new number" "$("$tmp/tree/tools/abi" --add; "$tmp/tree/tools/abi" --check)"
sed -i 's/^} grpo_sampling;/  int64_t and_more;\n&/' "$tmp/tree/include/grpo.h"
result "one number stands for one header" \
  "$("$tmp/tree/tools/abi" --add 2>&1 | grep -qF "increase GRPO_ABI_ADDITIONS" || echo "not refused")"
finish

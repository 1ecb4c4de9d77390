/* fuzz.h - a fuzz target is one function, in tests/fuzz/fuzz_NAME.c or, in Lua, in
 * tests/fuzz/lua/NAME.lua, with seeds in tests/fuzz/seeds/NAME/.  It works under libFuzzer (clang
 * -fsanitize=fuzzer) and, with main.c, under any compiler; both mutate inputs with mutate.c.
 * Inputs are in memory of exactly `size` bytes.  An input that failed once is a seed from then on.
 */
#ifndef GRPO_TESTS_FUZZ_H
#define GRPO_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Returns 0; a property that does not hold ends the process: FUZZ_CHECK. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond) ((cond) ? (void)0 : abort())

#endif

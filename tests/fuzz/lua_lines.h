/* lua_lines.h - lines of Lua that run count as coverage for libFuzzer. */
#ifndef GRPO_TESTS_FUZZ_LUA_LINES_H
#define GRPO_TESTS_FUZZ_LUA_LINES_H

#include <lua.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { COUNTERS = 1 << 14 };
__attribute__((used, section("__libfuzzer_extra_counters"))) static uint8_t counter[COUNTERS];

static void count_line(lua_State *L, lua_Debug *ar) {
  if (!lua_getinfo(L, "S", ar)) return;
  size_t h = (size_t)ar->currentline * 2654435761u;
  for (const char *s = ar->short_src + strlen(ar->short_src); s > ar->short_src; s--)
    h = (h ^ (unsigned char)s[-1]) * 16777619u;
  counter[(h >> 7) & (COUNTERS - 1)]++;
}

/* Does nothing without libFuzzer: tools/check-fuzz sets the variable for it. */
static inline void count_lines(lua_State *L) {
  if (getenv("GRPO_FUZZ_LINES")) lua_sethook(L, count_line, LUA_MASKLINE, 0);
}

#endif

/* limits.h - calls into Lua: protected, and under budgets. */
#ifndef GRPO_SCRIPT_LIMITS_H
#define GRPO_SCRIPT_LIMITS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/script.h"

#define LIMITS_TYPE "grpo.Limits" /* what core.limits gives */

typedef struct Limits {
  uint64_t instructions; /* VM instructions; 0: unlimited */
  size_t memory;         /* bytes the call may hold at once; 0: unlimited */
  double seconds;        /* wall-clock backstop; 0: none */
} Limits;

/* As lua_pcall with the function and nargs arguments on top.  True: the results are there.
 * False: one error object, with traceback, in their place. */
bool call_protected(lua_State *L, int nargs, int nresults);
/* The same under budgets.  The error has code "ELIMIT" when a budget ran out and fatal = true when
 * that was the wall clock.  `name` names the code in messages: "reward 'correct'". */
bool call_limited(lua_State *L, const Limits *limits, const char *name, int nargs, int nresults);
/* Limits out of a table {instructions=, memory=, seconds=} at index (nil: none). */
void check_limits(lua_State *L, int index, Limits *out);
/* Inside C functions that scripts call: work that the instruction hook cannot see.  Cheap. */
void charge_work(lua_State *L, uint64_t instructions);
bool is_limited(lua_State *L); /* is limited code running? */

/* ---- for guarded library functions (guard.h) ---- */
void arm_thread(lua_State *L, Script *s, lua_State *co); /* a coroutine obeys the running budget */
bool budget_spent(lua_State *L);                         /* must the running limited call die? */
/* Before C code that allocates n bytes outside Lua's own collector-aware paths: makes the memory
 * decision independent of garbage.  Raises "not enough memory" when the quota is too small. */
void make_room(lua_State *L, size_t n);

#endif

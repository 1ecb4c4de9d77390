/* limits.h - calls into Lua: protected, or with limits on instructions, memory and time. */
#ifndef GRPO_SCRIPT_LIMITS_H
#define GRPO_SCRIPT_LIMITS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMITS_TYPE "grpo.Limits" /* the result of core.limits */

typedef struct Limits {
  uint64_t instructions; /* of Lua's virtual machine; 0: unlimited */
  size_t memory;         /* bytes that the call may hold at once; 0: unlimited */
  double seconds;        /* wall-clock time, as a last resort; 0: unlimited */
  bool signals;          /* a signal that asks the run to end ends the call; it is not taken */
} Limits;

/* Calls as lua_pcall does, with the function and nargs arguments on top.  Returns true with the
 * results on the stack, or false with one error object, which has a traceback. */
bool call_protected(lua_State *L, int nargs, int nresults);
/* Calls within limits.  The error has code "ELIMIT" if a limit was reached, and fatal = true if
 * that was the wall-clock time or a signal.  `name` names the code in messages: "reward
 * 'correct'". */
bool call_limited(lua_State *L, const Limits *limits, const char *name, int nargs, int nresults);
/* Reads limits from a table {instructions=, memory=, seconds=, signals=} at index; nil: none. */
void check_limits(lua_State *L, int index, Limits *out);

#endif

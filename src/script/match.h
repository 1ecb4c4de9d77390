/* match.h - string.find, match, gmatch and gsub in bounded time. */
#ifndef GRPO_SCRIPT_MATCH_H
#define GRPO_SCRIPT_MATCH_H

#include <lauxlib.h>

extern const luaL_Reg bounded_matchers[]; /* ends with {NULL, NULL} */

#endif

/* budget.h - what the running limited call (limits.h) has used, and what it may still use.
 *
 * C functions that scripts call report work here that the instruction hook cannot see.  Outside
 * limited calls all of this does nothing.
 */
#ifndef GRPO_SCRIPT_BUDGET_H
#define GRPO_SCRIPT_BUDGET_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Budget Budget; /* script_impl.h */

/* ---- for C functions that scripts call ---- */

bool is_limited(lua_State *L); /* is limited code running? */
/* The work costs this many instructions; raises if the budget has fewer.  Cheap. */
void charge_work(lua_State *L, uint64_t instructions);
/* The work takes as long as this many instructions and has been charged for, or must be free:
 * raises if the time is over. */
void spend_time(lua_State *L, uint64_t instructions);
/* So much time has passed in work that has a limit of its own: it does not count. */
void excuse_time(lua_State *L, double seconds);
/* C code calls this before it allocates n bytes that the collector does not see coming, so that
 * garbage cannot decide whether they fit.  Raises if the quota is too small. */
void make_room(lua_State *L, size_t n);

/* ---- for guarded library functions (guard.h) ---- */

bool budget_spent(lua_State *L); /* must the running limited call end? */
/* A protected call has failed with this status and the error on top.  Must the running limited call
 * end?  It must, too, if no memory was left in its quota; the error then becomes one that says
 * so. */
bool budget_ended(lua_State *L, int status);
/* From now on the coroutine co runs, which obeys the running limits.  Returns the thread that ran
 * before, for the call after it. */
lua_State *enter_thread(lua_State *L, lua_State *co);
void leave_thread(lua_State *L, lua_State *before);

/* ---- for allocators (lua_vm.c, foreign_vm.c) ---- */

/* Is a block of nsize bytes, which needs `more` new ones, too much for the limited call? */
bool budget_refuses(Budget *b, size_t more, size_t nsize);
/* A block has been allocated or has grown to nsize bytes; kind: of a new object, LUA_TSTRING, or
 * another number. */
void budget_allocated(Budget *b, int kind, size_t nsize);
/* A block has been made smaller by `bytes`; own: it was allocated during this call. */
void budget_shrunk(Budget *b, bool own, size_t bytes);

/* ---- for limits.c ---- */

/* Begins to count on b->co. */
void budget_arm(Budget *b, size_t longest_argument);
/* Is the time over, or has Ctrl-C come?  Then the budget is spent. */
void budget_look(Budget *b);
/* Writes why a budget is spent; `spent` is a value of b->spent. */
void budget_describe(const Budget *b, const char *spent, char *text, size_t size);
/* The inner call has ended on thread L: what it made may be as long as this. */
void budget_longest(lua_State *L, Budget *b, size_t longest);

#endif

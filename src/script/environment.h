/* environment.h - the globals of the Lua half.
 *
 * The modules of the program run in an environment of their own: copies of Lua's functions and
 * library tables, which scripts, hooks and sessions do not reach.  `string.format = nil` in a hook
 * is the hook's affair.  Names that are not there are looked up in the globals, and new ones are
 * made there.
 */
#ifndef GRPO_SCRIPT_ENVIRONMENT_H
#define GRPO_SCRIPT_ENVIRONMENT_H

#include <lua.h>

/* Makes the environment of a state of our own, whose globals are as they shall stay for us.
 * require: its function of that name, of which upvalue 1 is Lua's own.  Methods of strings are then
 * Lua's own, whatever `string` holds; a name that Lua's library does not have is looked up in the
 * script's `string`, so that s:trim() finds string.trim. */
void environment_open(lua_State *L, lua_CFunction require);
/* Pops the environment of a host's state (foreign_vm.c). */
void environment_bind(lua_State *L);
/* The function on top, a chunk, runs in the environment, if there is one. */
void environment_enter(lua_State *L);
/* Pushes a value of the environment. */
void environment_push(lua_State *L, const char *name);
/* Pushes a module of the program: require(name). */
void push_module(lua_State *L, const char *name);

/* Tables that the environment has copies of, and a NULL. */
extern const char *const environment_libraries[];
/* Pushes a copy of the table at index, or an empty table if there is another value. */
void push_copy(lua_State *L, int index);

#endif

/* errors.h - the only way from a C failure to a Lua error, and the search for the user's line. */
#ifndef GRPO_SCRIPT_ERRORS_H
#define GRPO_SCRIPT_ERRORS_H

#include <lua.h>
#include <stdbool.h>

#include "base/err.h"

#define ERROR_TYPE "grpo.Error"

/* Their int is for callers that say `return raise_new(...)`. */
#define RAISES __attribute__((noreturn))

/* These four raise an error and never return.  raise_status raises the recorded failure
 * (err_message); raise_new records nothing and takes the message. */
RAISES int raise_status(lua_State *L, Status s);
RAISES int raise_new(lua_State *L, Status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* EARG: "bad argument #1 to 'match' (...)". */
RAISES int arg_error(lua_State *L, int arg, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* EARG: "bad argument #1 to 'match' (string expected, got nil)". */
RAISES int type_error(lua_State *L, int arg, const char *wanted);
/* Raises the recorded failure unless s is GRPO_OK. */
void want_ok(lua_State *L, Status s);

/* Pushes an error object; the message begins with the user's line. */
void push_error(lua_State *L, Status s, const char *message);
/* Pushes nil, message, code, which is how functions of core.fs report; returns 3. */
int push_failure(lua_State *L, Status s);
/* Returns true to Lua, or else the failure as push_failure does. */
int give_done(lua_State *L, Status s);
/* Pushes "script.lua:14", the level-th line of the user's code from the inside, or "?". */
void push_where(lua_State *L, int level);
/* Replaces the value on top by an error object, unless it is one; can add a traceback. */
void complete_error(lua_State *L, bool traceback);
/* Records what was raised, the value on top, as a failure of C with its message: of a function that
 * the engine has called. */
Status fail_raised(lua_State *L, const char *what);
/* The text of a string or of an error object; calls no metamethod.  It lives as long as the
 * value. */
const char *raw_message(lua_State *L, int index);
bool is_error_object(lua_State *L, int index);

#endif

/* errors.h - the one door from C failures to Lua errors, and the search for the user's line. */
#ifndef GRPO_SCRIPT_ERRORS_H
#define GRPO_SCRIPT_ERRORS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define ERROR_TYPE "grpo.Error"

/* Raises the recorded failure (err_message); never returns. */
int raise_status(lua_State *L, Status s);
/* fail() and raise_status() in one; never returns. */
int raise_new(lua_State *L, Status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* EARG: "bad argument #1 to 'match' (...)". */
int arg_error(lua_State *L, int arg, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int type_error(lua_State *L, int arg, const char *wanted);    /* "... (string expected, got nil)" */
void push_error(lua_State *L, Status s, const char *message); /* pushes the object, with position */
int push_failure(lua_State *L, Status s); /* for I/O: pushes nil, message, code; returns 3 */
void push_where(lua_State *L, int level); /* pushes "script.lua:14" or "?" (user's line) */
bool is_library_source(lua_State *L, const char *source); /* part of the Lua half? */
/* Turns the value on top into an error object (unless it is one); adds a traceback when asked. */
void complete_error(lua_State *L, bool traceback);
/* The text of a string or an error object, with no metamethod called; the value must stay. */
const char *raw_message(lua_State *L, int index);
bool is_error_object(lua_State *L, int index);

#endif

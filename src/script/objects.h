/* objects.h - memory that Lua owns, and types of objects. */
#ifndef GRPO_SCRIPT_OBJECTS_H
#define GRPO_SCRIPT_OBJECTS_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/intbuf.h"

void check_not_closed(lua_State *L); /* raises while the state is being closed */
/* Pushes a userdata of zeros; raises when there is no memory. */
void *push_scratch(lua_State *L, size_t count, size_t size);
/* lua_newuserdatauv for what has a finalizer: raises while the state is being closed, when Lua runs
 * no new finalizers. */
void *new_object(lua_State *L, size_t size, int values);
/* A type of objects: its metatable, with the methods as __index; both lists end with {NULL, NULL}. */
void make_type(lua_State *L, const char *type, const luaL_Reg *meta, const luaL_Reg *methods);
/* Makes the table on top the methods of a type whose __index is a function, for add_methods. */
void keep_methods(lua_State *L, const char *type);
/* Adds to the methods of a type that make_type or keep_methods has made. */
void add_methods(lua_State *L, const char *type, const luaL_Reg *methods);
/* The last thing done to the metatable of a type, on top: scripts see a copy without its finalizer,
 * which is the collector's alone to call. */
void seal_type(lua_State *L);
/* In a close of the object at index 1: does a C function that has called us, through a callback or a
 * metamethod, have it on its stack, and so perhaps what it holds in its hands?  It is then left to
 * the collector.  True in a coroutine, where nobody can tell. */
bool in_use(lua_State *L);
/* The userdata on top, of a type without methods, is freed by gc. */
void set_gc(lua_State *L, const char *type, lua_CFunction gc);
Buf *push_buf(lua_State *L);     /* pushes a userdata that frees the buffer when collected */
IntBuf *push_ints(lua_State *L); /* the same for ids */
/* Done with it: its memory serves the next push_buf or push_ints, so that a steady step takes none. */
void keep_buf(lua_State *L, Buf *b);
void keep_ints(lua_State *L, IntBuf *b);
/* What the next push_buf and push_ints will hold without taking memory. */
void reserve_bufs(lua_State *L, size_t bytes, size_t ints);

#endif

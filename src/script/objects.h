/* objects.h - memory that Lua owns, and the types of our userdata. */
#ifndef GRPO_SCRIPT_OBJECTS_H
#define GRPO_SCRIPT_OBJECTS_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/intbuf.h"

void check_not_closed(lua_State *L); /* raises while the state is being closed */
/* Pushes a userdata of count zeroed elements of `size` bytes; raises if there is no memory. */
void *push_scratch(lua_State *L, size_t count, size_t size);
/* Makes a userdata that has a finalizer, as lua_newuserdatauv does.  It raises while the state is
 * being closed, because Lua then runs no new finalizers. */
void *new_object(lua_State *L, size_t size, int values);
void *check_object(lua_State *L, int arg, const char *type); /* a userdata of that type */
/* Handles: userdata that own one thing of C by a pointer, which is NULL once it is closed.
 * new_handle pushes one that is closed; check_handle raises `closed` if it is; take_handle closes
 * it and returns what the caller then frees, or NULL. */
void *new_handle(lua_State *L, const char *type);
void *check_handle(lua_State *L, int arg, const char *type, const char *closed);
void *take_handle(lua_State *L, int arg, const char *type);
/* Makes a type: a metatable with the methods as __index.  Both lists end with {NULL, NULL}. */
void make_type(lua_State *L, const char *type, const luaL_Reg *meta, const luaL_Reg *methods);
/* Tells add_methods that the table on top holds the methods of a type whose __index is a
 * function. */
void keep_methods(lua_State *L, const char *type);
/* Adds methods to a type that another file has made with make_type or keep_methods. */
void add_methods(lua_State *L, const char *type, const luaL_Reg *methods);
/* The last step of making a type, whose metatable is on top.  getmetatable() then gives scripts a
 * copy without the finalizer, which only the collector may call. */
void seal_type(lua_State *L);
/* For the close of the object at index 1: does a C function that has called us, through a callback
 * or a metamethod, have the object on its stack?  It may then be using what the object holds, which
 * is therefore left to the collector.  Returns true in a coroutine, where we cannot know. */
bool in_use(lua_State *L);
/* Makes gc the finalizer of the userdata on top, whose type has no methods. */
void set_gc(lua_State *L, const char *type, lua_CFunction gc);
/* Each pushes a userdata that frees the buffer when it is collected. */
Buf *push_buf(lua_State *L);
IntBuf *push_ints(lua_State *L);
/* Pushes the bytes of a buffer as a string. */
void push_bytes(lua_State *L, const Buf *b);
/* Takes back the memory of such a buffer for the next push_buf or push_ints, so that a steady step
 * allocates none. */
void keep_buf(lua_State *L, Buf *b);
void keep_ints(lua_State *L, IntBuf *b);
/* Lets the next push_buf and push_ints hold that much without allocating. */
void reserve_bufs(lua_State *L, size_t bytes, size_t ints);

#endif

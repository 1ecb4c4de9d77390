/* args.h - what a C function expects from Lua: arguments, option tables, lists.
 *
 * Arguments are checked like luaL_check..., but the error is at the user's line.
 */
#ifndef GRPO_SCRIPT_ARGS_H
#define GRPO_SCRIPT_ARGS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intbuf.h"

const char *check_string(lua_State *L, int arg, size_t *len); /* strings only; len may be NULL */
lua_Integer check_integer(lua_State *L, int arg, lua_Integer min, lua_Integer max);
double check_number(lua_State *L, int arg);
void check_table(lua_State *L, int arg);
void check_function(lua_State *L, int arg);
void *check_object(lua_State *L, int arg, const char *type); /* userdata of that metatable */

/* Option tables.  `where` starts the messages: "sampling.temprature: unknown option, did you mean
 * 'temperature'?".  index may hold nil or nothing: then no option is set. */
void check_fields(lua_State *L, int index, const char *where,
                  const char *const *known /* NULL-ended */);
/* Each leaves *v alone and returns false when the field is nil; raises on a wrong type or range. */
bool field_number(lua_State *L, int index, const char *where, const char *name, double min,
                  double max, double *v);
bool field_int(lua_State *L, int index, const char *where, const char *name, lua_Integer min,
               lua_Integer max, int *v);
bool field_seed(lua_State *L, int index, const char *where, const char *name, uint64_t *v);
bool field_bool(lua_State *L, int index, const char *where, const char *name, bool *v);
/* Pushes the string when it is there (keep it on the stack while *v is used). */
bool field_string(lua_State *L, int index, const char *where, const char *name, const char **v);
/* Position in the NULL-ended list of choices. */
bool field_choice(lua_State *L, int index, const char *where, const char *name,
                  const char *const *choices, int *v);

/* optimizer.no_decay = { "bias", "norm" }: the kinds of parameters without weight decay. */
void field_no_decay(lua_State *L, int index, const char *where, bool *bias, bool *norm);

/* ---- fields of the table on top ---- */
void set_string(lua_State *L, const char *key, const char *value); /* NULL: nil */
void set_number(lua_State *L, const char *key, double value);

/* ---- lists ---- */
/* Appends the 0-based ids of the list at index; `what` names it in errors ("prompt"). */
void check_ids(lua_State *L, int index, const char *what, IntBuf *out);
void push_ids(lua_State *L, const int32_t *ids, size_t n); /* pushes a list */
void push_doubles(lua_State *L, const double *v, int n);
void push_floats(lua_State *L, const float *v, int n);

#endif

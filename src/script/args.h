/* args.h - reading what Lua passes to a C function: arguments, tables of options, lists.
 *
 * These checks work like luaL_check..., but the error they raise names the user's line.
 */
#ifndef GRPO_SCRIPT_ARGS_H
#define GRPO_SCRIPT_ARGS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intbuf.h"

/* Accepts strings only, not numbers; len may be NULL. */
const char *check_string(lua_State *L, int arg, size_t *len);
lua_Integer check_integer(lua_State *L, int arg, lua_Integer min, lua_Integer max);
double check_number(lua_State *L, int arg);
void check_table(lua_State *L, int arg);
void check_function(lua_State *L, int arg);

/* Tables of options.  `where` begins every message: "sampling.temprature: unknown option, did you
 * mean 'temperature'?".  If index holds nil or nothing, no option is set. */
void check_fields(lua_State *L, int index, const char *where,
                  const char *const *known /* NULL-ended */);
/* Each of these leaves *v alone and returns false if the field is nil.  It raises an error if the
 * field has the wrong type or is out of range. */
bool field_number(lua_State *L, int index, const char *where, const char *name, double min,
                  double max, double *v);
bool field_int(lua_State *L, int index, const char *where, const char *name, lua_Integer min,
               lua_Integer max, int *v);
bool field_seed(lua_State *L, int index, const char *where, const char *name, uint64_t *v);
bool field_bool(lua_State *L, int index, const char *where, const char *name, bool *v);
/* Pushes the string if the field is there; keep it on the stack while you use *v. */
bool field_string(lua_State *L, int index, const char *where, const char *name, const char **v);
/* *v becomes the position of the string in the NULL-ended list of choices. */
bool field_choice(lua_State *L, int index, const char *where, const char *name,
                  const char *const *choices, int *v);

/* optimizer.no_decay = { "bias", "norm" } lists the kinds of parameters without weight decay. */
void field_no_decay(lua_State *L, int index, const char *where, bool *bias, bool *norm);

/* ---- fields of the table on top ---- */
void set_string(lua_State *L, const char *key, const char *value); /* NULL sets nil */
void set_number(lua_State *L, const char *key, double value);
void set_integer(lua_State *L, const char *key, lua_Integer value);
void set_bool(lua_State *L, const char *key, bool value);

/* ---- results: each pushes one value and returns 1, which is how many there are ---- */
int give_string(lua_State *L, const char *value); /* NULL gives nil */
int give_number(lua_State *L, double value);
int give_integer(lua_State *L, lua_Integer value);
int give_boolean(lua_State *L, bool value);

/* ---- lists ---- */
/* Appends the 0-based token ids of the list at index; `what` names it in errors ("prompt"). */
void check_ids(lua_State *L, int index, const char *what, IntBuf *out);
/* Each of these pushes a list. */
void push_ids(lua_State *L, const int32_t *ids, size_t n);
void push_doubles(lua_State *L, const double *v, int n);
void push_floats(lua_State *L, const float *v, int n);

/* core.none stands for a number that is absent, as nil does outside lists. */
void push_none(lua_State *L);
/* Reads the value on top, entry i of the list `what`: a finite number, or NaN for none and nil. */
double number_or_none(lua_State *L, const char *what, lua_Integer i);
/* Pushes scratch memory with the n numbers of the list at index; none and nil are NaN. */
double *push_numbers(lua_State *L, int index, const char *what, int *n);

#endif

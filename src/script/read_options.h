/* read_options.h - reads a table of options into a C struct, by the struct's rows (base/options.h).
 *
 * The rest of a row's path after the set's section names the field: train.sapo.pos is pos in the
 * table sapo.  If the set has several sections (section NULL), the last part of the path names the
 * field.  If index holds no table, no option is set.  `where` replaces the section in messages
 * ("loss.clip: want a number from 0 to 1000, got -1").  A field that is nil leaves the struct
 * alone.
 */
#ifndef GRPO_SCRIPT_READ_OPTIONS_H
#define GRPO_SCRIPT_READ_OPTIONS_H

#include "base/options.h"
#include "grad/policy.h"
#include "script/binding.h"

/* Reads the rows that have one of the flags `only`; 0: all rows. */
void read_options(lua_State *L, int index, const char *where, const OptionSet *set, unsigned only,
                  void *to);
/* Refuses a field that is neither a row of these sets nor among `others`; both lists end with
 * NULL.  It looks at the table's own fields, not at those of a metatable. */
void check_option_fields(lua_State *L, int index, const char *where, const OptionSet *const *sets,
                         const char *const *others);
/* Reads the rows of losses and max_new_tokens.  If clip is given without clip_high, it is both. */
void read_loss_options(lua_State *L, int index, const char *where, unsigned only, LossOptions *o);
/* Returns the loss of that name; raises if there is none. */
LossKind check_loss_option(lua_State *L, const char *where, const char *name);
/* Pushes a row: { path=, type=, default=, min=, max=, choices=, live=, doc= }. */
void push_option(lua_State *L, const Option *o);

#endif

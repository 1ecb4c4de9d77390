/* read_options.h - a table of options read into a C struct by its rows (base/options.h).
 *
 * A field is found by the row's path behind the set's section: train.sapo.pos is pos in the table
 * sapo.  A set of several sections (section NULL) is read by the last part of each path.  index
 * holds a table, or nothing: no option is set.  `where` stands for the section in messages
 * ("loss.clip: want a number from 0 to 1000, got -1").  A field that is absent leaves the struct
 * alone.
 */
#ifndef GRPO_SCRIPT_READ_OPTIONS_H
#define GRPO_SCRIPT_READ_OPTIONS_H

#include "base/options.h"
#include "grad/policy.h"
#include "script/binding.h"

/* only: rows with one of these flags; 0: all rows. */
void read_options(lua_State *L, int index, const char *where, const OptionSet *set, unsigned only,
                  void *to);
/* Refuses a field that is neither a row of these sets nor among `others`; both end with NULL.  Only
 * the table's own fields are looked at, not those that a metatable hands it. */
void check_option_fields(lua_State *L, int index, const char *where, const OptionSet *const *sets,
                         const char *const *others);
/* The rows of losses, and max_new_tokens; clip_high follows a clip that is given alone. */
void read_loss_options(lua_State *L, int index, const char *where, unsigned only, LossOptions *o);
/* The loss of that name, for messages too. */
LossKind check_loss_kind(lua_State *L, const char *where, const char *name);
/* Pushes one row as Lua sees it: { path=, type=, default=, min=, max=, choices=, live=, doc= }. */
void push_option(lua_State *L, const Option *o);

#endif

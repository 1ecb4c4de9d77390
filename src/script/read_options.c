#include "script/read_options.h"

#include <math.h>
#include <string.h>

#include "base/nearest.h"

/* ---- names ------------------------------------------------------------------------- */

/* Returns the row's name in a table of the set: "clip", "sapo.pos". */
static const char *name_of(const OptionSet *set, const Option *o) {
  return set->section ? o->path + strlen(set->section) : option_name(o);
}

/* Returns the part of the row's name after `prefix` ("" or "sapo.") and its length; NULL: the row
 * has another prefix. */
static const char *part_of(const OptionSet *set, const Option *o, const char *prefix, size_t *n) {
  const char *name = name_of(set, o);
  const size_t skip = strlen(prefix);
  if (strncmp(name, prefix, skip) != 0) return NULL;
  *n = strcspn(name + skip, ".");
  return name + skip;
}

static bool is_row(const OptionSet *const *sets, const char *prefix, const char *key) {
  for (; *sets; sets++)
    for (int i = 0; i < (*sets)->count; i++) {
      size_t n;
      const char *part = part_of(*sets, &(*sets)->row[i], prefix, &n);
      if (part && strlen(key) == n && !memcmp(part, key, n)) return true;
    }
  return false;
}

static bool is_other(const char *const *others, const char *key) {
  for (; others && *others; others++)
    if (!strcmp(*others, key)) return true;
  return false;
}

/* Raises the error for a field of the table at index, with the list of names that it may have. */
static void refuse_fields(lua_State *L, int index, const char *where, const OptionSet *const *sets,
                          const char *prefix, const char *const *others) {
  size_t most = 1, n = 0;
  for (int k = 0; sets[k]; k++) most += (size_t)sets[k]->count;
  for (int k = 0; others && others[k]; k++) most++;
  const char **known = push_scratch(L, most, sizeof *known);
  for (; others && *others; others++) known[n++] = *others;
  luaL_checkstack(L, (int)most, where);
  for (; *sets; sets++)
    for (int i = 0; i < (*sets)->count; i++) {
      size_t len;
      const char *part = part_of(*sets, &(*sets)->row[i], prefix, &len);
      if (!part) continue;
      part = lua_pushlstring(L, part, len);
      if (n && !strcmp(known[n - 1], part)) continue;
      known[n++] = part;
    }
  check_fields(L, index, where, known);
}

static void check_level(lua_State *L, int index, const char *where, const OptionSet *const *sets,
                        const char *prefix, const char *const *others) {
  if (!lua_istable(L, index)) {
    check_fields(L, index, where, others); /* accepts nil and raises for other values */
    return;
  }
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (!is_row(sets, prefix, key) && !is_other(others, key))
      refuse_fields(L, index, where, sets, prefix, others);
  }
}

void check_option_fields(lua_State *L, int index, const char *where, const OptionSet *const *sets,
                         const char *const *others) {
  check_level(L, lua_absindex(L, index), where, sets, "", others);
}

/* ---- values ------------------------------------------------------------------------ */

static void read_word(lua_State *L, int index, const char *where, const char *name, const Option *o,
                      void *to) {
  enum { MOST = 16, BYTES = 256 };
  char words[BYTES];
  const char *list[MOST + 1] = {NULL};
  int n = 0, choice = 0;
  if (strlen(o->words) >= sizeof words) return; /* no row is that long */
  strcpy(words, o->words);
  for (char *word = words; word && n < MOST; n++) {
    char *bar = strchr(word, '|');
    if (bar) *bar++ = 0;
    list[n] = word;
    word = bar;
  }
  if (field_choice(L, index, where, name, list, &choice)) option_set(o, to, o->first + choice);
}

/* Reads the field `name` of the table at index. */
static void read_value(lua_State *L, int index, const char *where, const char *name,
                       const Option *o, void *to) {
  double x;
  int i;
  bool b;
  switch (o->type) {
  case OPTION_NUMBER:
    if (field_number(L, index, where, name, o->low, o->high, &x)) option_set(o, to, x);
    break;
  case OPTION_INT: {
    const lua_Integer most = o->high < INT32_MAX ? (lua_Integer)o->high : INT32_MAX;
    if (field_int(L, index, where, name, (lua_Integer)o->low, most, &i)) option_set(o, to, i);
    break;
  }
  case OPTION_BOOL:
    if (field_bool(L, index, where, name, &b)) option_set(o, to, b);
    break;
  case OPTION_CHOICE:
    read_word(L, index, where, name, o, to);
    break;
  case OPTION_SECTION:
    break;
  }
}

/* Reads a row that lies in a table inside the options: sapo.pos.  The first row of such a table
 * checks the table's fields, and begins the section if it is an optional one. */
static void read_nested(lua_State *L, int index, const char *where, const OptionSet *set,
                        const Option *o, bool first, void *to) {
  const char *name = name_of(set, o), *dot = strchr(name, '.');
  const OptionSet *const sets[] = {set, NULL};
  const char *section = lua_pushlstring(L, name, (size_t)(dot - name));
  const char *prefix = lua_pushfstring(L, "%s.", section);
  const char *inside = lua_pushfstring(L, "%s.%s", where, section);
  if (lua_istable(L, index) && lua_getfield(L, index, section) != LUA_TNIL) {
    const int table = lua_gettop(L);
    if (first) check_level(L, table, inside, sets, prefix, NULL);
    if (first && option_find(set, lua_pushfstring(L, "%s%s", set->section, section)))
      options_begin_section(set, lua_tostring(L, -1), to);
    read_value(L, table, inside, dot + 1, o, to);
  }
}

void read_options(lua_State *L, int index, const char *where, const OptionSet *set, unsigned only,
                  void *to) {
  const char *before = "";
  index = lua_absindex(L, index);
  luaL_checkstack(L, 12, where);
  for (int i = 0; i < set->count; i++) {
    const Option *o = &set->row[i];
    const char *name = name_of(set, o), *dot = strchr(name, '.');
    const int top = lua_gettop(L);
    if (only && !(o->flags & only)) continue;
    if (!dot) {
      read_value(L, index, where, name, o, to);
    } else {
      const size_t n = (size_t)(dot - name);
      read_nested(L, index, where, set, o, strncmp(before, name, n + 1) != 0, to);
      before = name;
    }
    lua_settop(L, top);
  }
}

/* ---- losses ------------------------------------------------------------------------ */

static bool has_field(lua_State *L, int index, const char *name) {
  const bool there = lua_istable(L, index) && lua_getfield(L, index, name) != LUA_TNIL;
  if (lua_istable(L, index)) lua_pop(L, 1);
  return there;
}

void read_loss_options(lua_State *L, int index, const char *where, unsigned only, LossOptions *o) {
  index = lua_absindex(L, index);
  read_options(L, index, where, &loss_option_set, only, o);
  field_int(L, index, where, "max_new_tokens", 1, INT32_MAX, &o->max_new_tokens);
  if (has_field(L, index, "clip") && !has_field(L, index, "clip_high")) o->clip_high = o->clip;
  loss_options_adapt(o);
}

LossKind check_loss_option(lua_State *L, const char *where, const char *name) {
  static const char *const names[] = {
#define LOSS(kind, ...) #kind,
#include "grad/losses.def"
  };
  LossKind kind = LOSS_grpo;
  const Status s = loss_kind_from_name(name, &kind);
  const char *near = s ? nearest_name(name, names, LOSS_COUNT) : NULL;
  if (near)
    raise_new(L, GRPO_EARG, "%s: '%.60s' is not known, did you mean '%s'?", where, name, near);
  want_ok(L, s);
  return kind;
}

/* ---- rows for Lua ------------------------------------------------------------------ */

static void push_number(lua_State *L, double v, bool whole) {
  if (whole && v == floor(v) && fabs(v) < 1e15)
    lua_pushinteger(L, (lua_Integer)v);
  else
    lua_pushnumber(L, v);
}

static void set_bound(lua_State *L, const char *name, double v) {
  if (isinf(v)) return;
  push_number(L, v, true);
  lua_setfield(L, -2, name);
}

/* Sets the list of choices, and the default if it is one of them. */
static void set_words(lua_State *L, const Option *o) {
  const char *at = o->words;
  lua_newtable(L);
  for (int i = 0; *at; i++) {
    const size_t n = strcspn(at, "|");
    lua_pushlstring(L, at, n);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, i + 1);
    if (o->first + i == o->initial)
      lua_setfield(L, -3, "default");
    else
      lua_pop(L, 1);
    at += n + (at[n] == '|');
  }
  lua_setfield(L, -2, "choices");
}

static void set_default(lua_State *L, const Option *o) {
  if (isnan(o->initial)) return;
  if (o->type == OPTION_BOOL)
    lua_pushboolean(L, o->initial == 1);
  else
    push_number(L, o->initial, o->type == OPTION_INT);
  lua_setfield(L, -2, "default");
}

void push_option(lua_State *L, const Option *o) {
  static const char *const types[] = {"number", "int", "boolean", "enum", "table"};
  const bool number = o->type == OPTION_NUMBER || o->type == OPTION_INT;
  lua_createtable(L, 0, 8);
  set_string(L, "path", o->path);
  set_string(L, "type", o->flags & OPTION_SCHEDULE ? "schedule" : types[o->type]);
  set_string(L, "doc", o->doc);
  if (o->type == OPTION_CHOICE)
    set_words(L, o);
  else
    set_default(L, o);
  if (number) set_bound(L, "min", o->low);
  if (number) set_bound(L, "max", o->high);
  set_bool(L, "live", (o->flags & OPTION_LIVE) != 0);
}

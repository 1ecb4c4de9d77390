/* limits.c - calls into Lua: protected, or with limits on instructions, memory and time.
 *
 * A limited call runs on a new Lua thread, whose instructions budget.c counts.  guard.c replaces
 * the library functions in which time could pass unseen.  The clock is looked at once more when
 * the call returns, because a C function may have waited.
 *
 * Memory: every block that Lua allocates carries the number of the limited call that was running.
 * A call holds the sum of its own blocks.  After a refused allocation Lua collects all garbage and
 * asks again, so the decision depends on what is reachable and not on when the collector ran.
 */
#include "script/limits.h"

#include <lauxlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "script/args.h"
#include "script/budget.h"
#include "script/errors.h"
#include "script/script_impl.h"

/* ---- the calls ---------------------------------------------------------------------- */

/* Pushes the error of a machine without memory. */
static void push_no_memory(lua_State *L) {
  script_of(L)->no_memory = true;
  push_error(L, GRPO_ENOMEM, "not enough memory for the script");
}

/* Message handler.  It takes the traceback where the error happened, outside the memory quota. */
static int on_error(lua_State *L) {
  Budget *b = script_of(L)->budget;
  char text[256];
  if (b) b->lifted = true;
  lua_settop(L, 1);
  if (b && b->refused && lua_type(L, 1) == LUA_TSTRING &&
      strstr(lua_tostring(L, 1), "not enough memory")) {
    budget_describe(b, "memory", text, sizeof text);
    push_error(L, GRPO_ELIMIT, text);
    lua_replace(L, 1);
  }
  complete_error(L, true);
  if (b) b->lifted = false;
  return 1;
}

bool call_protected(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  luaL_checkstack(L, 2, "call");
  lua_pushcfunction(L, on_error);
  lua_insert(L, base);
  int status = lua_pcall(L, nargs, nresults, base);
  lua_remove(L, base);
  if (status == LUA_OK) return true;
  Budget *b = script_of(L)->budget;
  if (b) b->lifted = false; /* on_error itself may have failed */
  if (!budget_ended(L, status) && status == LUA_ERRMEM) {
    lua_pop(L, 1);
    push_no_memory(L);
  }
  complete_error(L, false);
  return false;
}

static void begin(Script *s, Budget *b, const Limits *limits, const char *name) {
  const Budget *o = s->budget;
  *b = (Budget){.outer = s->budget, .name = name, .tag = ++s->tags};
  b->left = limits->instructions ? limits->instructions : UINT64_MAX;
  b->quota = limits->memory;
  b->signals = limits->signals || (o && o->signals);
  b->seconds = limits->seconds;
  if (limits->seconds > 0) b->deadline = clock_seconds() + limits->seconds;
  if (o && o->left < b->left) {
    b->left = o->left;
    b->inherited = true;
  }
  if (o && o->deadline > 0 && (b->deadline <= 0 || o->deadline < b->deadline)) {
    b->deadline = o->deadline;
    b->seconds = o->seconds;
  }
  b->given = b->left;
  s->budget = b;
}

/* Ends a limited call; the call around it pays for its instructions, too. */
static void end(lua_State *L, Script *s, const Budget *b) {
  Budget *o = s->budget = b->outer;
  s->used = b->given - b->left;
  if (!o) return;
  if (o->left != UINT64_MAX) o->left -= b->given - b->left;
  if (b->inherited && b->spent && *b->spent == 'i') o->spent = b->spent;
  o->held += b->held;
  o->grown += b->grown;
  budget_longest(L, o, b->longest);
}

static size_t string_length(lua_State *co, int index) {
  return lua_type(co, index) == LUA_TSTRING ? lua_rawlen(co, index) : 0;
}

/* Bytes of the longest string among the arguments on the stack of co and in the fields of those
 * that are tables, as a row is. */
static size_t longest_argument(lua_State *co) {
  size_t longest = 0;
  for (int i = lua_gettop(co); i > 0; i--) {
    longest = max_size(longest, string_length(co, i));
    if (!lua_istable(co, i)) continue;
    for (lua_pushnil(co); lua_next(co, i); lua_pop(co, 1))
      longest = max_size(longest, string_length(co, -1));
  }
  return longest;
}

/* Pushes the error of a spent budget whose own error object did not reach us.  Its position is the
 * function at index. */
static void push_spent(lua_State *L, const Budget *b, const char *spent, int index) {
  lua_Debug ar;
  char text[256];
  budget_describe(b, spent, text, sizeof text);
  lua_pushvalue(L, index);
  lua_getinfo(L, ">S", &ar);
  push_error(L, GRPO_ELIMIT, "");
  if (ar.linedefined > 0)
    lua_pushfstring(L, "%s:%d: %s", ar.short_src, ar.linedefined, text);
  else
    lua_pushstring(L, text);
  lua_setfield(L, -2, "message");
}

/* Pushes on L the error object of a failed call; what was raised is on top of co. */
static void finish_limited(lua_State *L, lua_State *co, int status, const Budget *b, int function) {
  const char *code = NULL;
  bool memory = status == LUA_ERRMEM && b->refused;
  lua_xmove(co, L, 1);
  if (b->spent && status == LUA_ERRRUN && is_error_object(L, -1)) {
    lua_getfield(L, -1, "code");
    code = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  if (memory || (b->spent && !(code && strcmp(code, "ELIMIT") == 0))) {
    lua_pop(L, 1);
    push_spent(L, b, memory ? "memory" : b->spent, function);
  } else if (status == LUA_ERRMEM) {
    lua_pop(L, 1);
    push_no_memory(L);
  }
  complete_error(L, false);
  if (b->spent && (*b->spent == 's' || *b->spent == 'c')) {
    set_bool(L, "fatal", true);
  }
}

bool call_limited(lua_State *L, const Limits *limits, const char *name, int nargs, int nresults) {
  Script *s = script_of(L);
  Budget b;
  int base = lua_gettop(L) - nargs;
  luaL_checkstack(L, 4, "call");
  lua_State *co = lua_newthread(L);
  lua_insert(L, base); /* ... co f args */
  if (!lua_checkstack(co, nargs + 6)) raise_new(L, GRPO_ELIMIT, "%s: too many arguments", name);
  lua_pushcfunction(co, on_error);
  lua_pushvalue(L, base + 1);
  lua_xmove(L, co, 1);
  lua_xmove(L, co, nargs); /* ... co f */
  if (!s->budget && s->enter_limited) s->enter_limited(L, s);
  begin(s, &b, limits, name);
  b.co = co;
  b.from = L;
  budget_arm(&b, longest_argument(co));
  const double allowed = progress_allow(b.seconds);
  int status = lua_pcall(co, nargs, nresults, 1);
  progress_allow(allowed);
  lua_sethook(co, NULL, 0, 0);
  budget_look(&b);
  end(L, s, &b);
  if (!s->budget && s->leave_limited) s->leave_limited(L, s);
  int n = lua_gettop(co) - 1;
  bool ok = status == LUA_OK && !b.spent;
  if (ok) {
    luaL_checkstack(L, n, name);
    lua_xmove(co, L, n);
  } else {
    lua_settop(co, 2); /* on_error, and what was raised */
    finish_limited(L, co, status, &b, base + 1);
  }
  lua_remove(L, base + 1);
  lua_remove(L, base);
  return ok;
}

void check_limits(lua_State *L, int index, Limits *out) {
  static const char *const known[] = {"instructions", "memory", "seconds", "signals", NULL};
  double instructions = 0, memory = 0;
  *out = (Limits){0};
  if (lua_isnoneornil(L, index)) return;
  const Limits *read_before = luaL_testudata(L, index, LIMITS_TYPE);
  if (read_before) {
    *out = *read_before;
    return;
  }
  check_fields(L, index, "limits", known);
  field_number(L, index, "limits", "instructions", 1, 1e18, &instructions);
  field_number(L, index, "limits", "memory", 1, 1e18, &memory);
  field_number(L, index, "limits", "seconds", 1e-3, 1e9, &out->seconds);
  field_bool(L, index, "limits", "signals", &out->signals);
  out->instructions = (uint64_t)instructions;
  out->memory = mem_fits(memory) ? (size_t)memory : MEM_MOST;
}

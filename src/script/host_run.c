#include "script/host_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/log.h"
#include "os/locale.h"
#include "script/binding.h"
#include "script/environment.h"
#include "script/host_call.h"

/* ---- reward callbacks ------------------------------------------------------------------- */

typedef struct RowRef {
  lua_State *L;
  int row; /* stack index of the dataset's row */
} RowRef;

/* (row, name) -> string or nil */
static int protected_row_field(lua_State *L) {
  const char *name = lua_touserdata(L, 2);
  if (!lua_istable(L, 1)) return 0;
  lua_getfield(L, 1, name);
  if (!lua_isstring(L, -1)) return 0;
  luaL_tolstring(L, -1, NULL);
  return 1;
}

const char *grpo_sample_field(const grpo_sample *s, const char *name) {
  const RowRef *ref = s && s->size >= sizeof *s ? s->row : NULL;
  if (!ref || !name || !lua_checkstack(ref->L, 8)) return NULL;
  const LocaleMark before = locale_enter();
  lua_State *L = ref->L;
  lua_pushcfunction(L, protected_row_field);
  lua_pushvalue(L, ref->row);
  lua_pushlightuserdata(L, (void *)(uintptr_t)name);
  const bool ok = lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
  locale_switch(before);
  return ok ? lua_tostring(L, -1) : NULL; /* it stays on the stack */
}

/* Pushes field NAME of the completion (argument 3), a list of n numbers, as an array of int32_t or
 * of float. */
static const void *push_list(lua_State *L, const char *name, size_t n, bool ids) {
  int32_t *id = push_scratch(L, n, sizeof *id);
  float *number = (float *)(void *)id;
  lua_getfield(L, 3, name);
  for (size_t i = 0; lua_istable(L, -1) && i < n; i++) {
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    if (ids)
      id[i] = (int32_t)lua_tointeger(L, -1);
    else
      number[i] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return id;
}

static int64_t integer_field(lua_State *L, const char *name) {
  lua_getfield(L, 3, name);
  const int64_t v = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return v;
}

/* (text, row, completion) -> number or nil; upvalue 1: the HostReward */
static int l_reward(lua_State *L) {
  const HostReward *r = lua_touserdata(L, lua_upvalueindex(1));
  RowRef row = {L, 2};
  double value = NAN;
  lua_settop(L, 3);
  luaL_checkstack(L, 64, "reward");
  grpo_sample s = {.size = sizeof s, .row = &row};
  s.text = luaL_checklstring(L, 1, &s.text_length);
  s.length = (size_t)integer_field(L, "length");
  s.ids = push_list(L, "ids", s.length, true);
  s.logprobs = push_list(L, "logprobs", s.length, false);
  lua_getfield(L, 3, "finish");
  s.finish = lua_tostring(L, -1);
  lua_getfield(L, 3, "prompt");
  s.prompt_text = lua_tostring(L, -1);
  s.prompt = integer_field(L, "prompt_index") - 1;
  s.index = integer_field(L, "index") - 1;
  s.step = integer_field(L, "step");
  const grpo_status st = r->fn(r->user, &s, &value);
  if (st != GRPO_OK)
    return raise_new(L, GRPO_ESCRIPT, "the host's callback returned %s", status_name((Status)st));
  if (isnan(value)) return 0;
  return give_number(L, value);
}

/* ---- the other callbacks ---------------------------------------------------------------- */

/* (step, metrics); upvalue 1 here and below: the Hosted */
static int l_step(lua_State *L) {
  const Hosted *h = lua_touserdata(L, lua_upvalueindex(1));
  const int64_t step = lua_tointeger(L, 1);
  size_t n = 0;
  if (!h->on_step) return 0;
  lua_settop(L, 2);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) n++;
  grpo_metric *items = push_scratch(L, n, sizeof *items);
  n = 0;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TNUMBER)
      items[n++] = (grpo_metric){lua_tostring(L, -2), lua_tonumber(L, -1)};
  qsort(items, n, sizeof *items, by_name);
  const grpo_metrics m = {sizeof m, n, items};
  const grpo_status st = h->on_step(h->step_user, step, &m);
  if (st == GRPO_OK) return 0;
  return raise_new(L, GRPO_ESCRIPT, "after step %lld the host's callback returned %s",
                   (long long)step, status_name((Status)st));
}

static int l_log(lua_State *L) {
  log_message(LOG_INFO, "%s", luaL_checkstring(L, 1));
  return 0;
}

static int l_stopping(lua_State *L) {
  const Hosted *h = lua_touserdata(L, lua_upvalueindex(1));
  return give_boolean(L, atomic_load(h->stop));
}

/* (steps, stopped, directory): how far the run has come when it ends, well or badly */
static int l_reached(lua_State *L) {
  Hosted *h = lua_touserdata(L, lua_upvalueindex(1));
  size_t n;
  const char *directory = luaL_checklstring(L, 3, &n);
  h->steps = luaL_checkinteger(L, 1);
  h->stopped = lua_toboolean(L, 2);
  buf_free(&h->directory);
  buf_put(&h->directory, directory, n);
  return 0;
}

/* ---- the run ---------------------------------------------------------------------------- */

static void set_function(lua_State *L, const char *name, lua_CFunction f, void *upvalue) {
  lua_pushlightuserdata(L, upvalue);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, name);
}

static void set_words(lua_State *L, const char *name, const char *const *words, size_t n) {
  lua_newtable(L);
  for (size_t i = 0; i < n; i++) {
    lua_pushstring(L, words[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, name);
}

static void set_rewards(lua_State *L, const Hosted *h) {
  lua_newtable(L);
  for (size_t i = 0; i < h->nrewards; i++) {
    const HostReward *r = &h->rewards[i];
    lua_newtable(L);
    set_string(L, "name", r->name);
    set_number(L, "weight", r->weight);
    set_function(L, "fn", l_reward, (void *)(uintptr_t)r);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "rewards");
}

/* (hosted): runs lua/grpo/commands/host_run.lua */
static int protected_call_run(lua_State *L) {
  Hosted *h = lua_touserdata(L, 1);
  const grpo_run_options *o = h->o;
  push_module(L, "grpo.commands.host_run");
  lua_getfield(L, -1, "run");
  lua_newtable(L);
  set_string(L, "path", o->path || !o->script ? o->path : "(script)");
  set_string(L, "script", o->script);
  set_string(L, "directory", o->directory);
  set_string(L, "resume", o->resume);
  set_integer(L, "max_steps", o->max_steps);
  set_integer(L, "threads", h->threads);
  set_words(L, "overrides", o->overrides, o->override_count);
  set_words(L, "args", o->args, o->arg_count);
  set_rewards(L, h);
  set_function(L, "step", l_step, h);
  set_function(L, "log", l_log, h);
  set_function(L, "stopping", l_stopping, h);
  set_function(L, "reached", l_reached, h);
  lua_call(L, 1, 0);
  return 0;
}

Status hosted_run(Hosted *h) {
  Script *script = NULL;
  try(host_call_open(&script));
  const Status s = host_call(script_state(script), protected_call_run, h);
  script_close(script);
  return s == GRPO_OK ? buf_status(&h->directory) : s;
}

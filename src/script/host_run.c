#include "script/host_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/log.h"
#include "os/locale.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/environment.h"
#include "script/foreign_vm.h"
#include "script/host_call.h"
#include "script/lua_json.h"

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
  const RowRef *ref = s && s->size >= offsetof(grpo_sample, sampled) ? s->row : NULL;
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

/* Pushes field NAME of the completion at `at`, a list of n numbers, as an array of int32_t or of
 * float. */
static const void *push_list(lua_State *L, int at, const char *name, size_t n, bool ids) {
  int32_t *id = push_scratch(L, n, sizeof *id);
  float *number = (float *)(void *)id;
  lua_getfield(L, at, name);
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

static int64_t integer_field(lua_State *L, int at, const char *name) {
  lua_getfield(L, at, name);
  const int64_t v = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return v;
}

/* Pushes a text field, which the completion keeps alive. */
static const char *text_field(lua_State *L, int at, const char *name, size_t *n) {
  lua_getfield(L, at, name);
  const char *text = lua_tolstring(L, -1, n);
  lua_pop(L, 1);
  return text;
}

/* Fills *s with the completion at `at`; what it points to stays on the stack. */
static void push_sample(lua_State *L, int at, const RowRef *row, grpo_sample *s) {
  luaL_checkstack(L, 16, "reward");
  *s = (grpo_sample){.size = sizeof *s, .row = row};
  s->text = text_field(L, at, "text", &s->text_length);
  s->length = (size_t)integer_field(L, at, "length");
  s->ids = push_list(L, at, "ids", s->length, true);
  s->logprobs = push_list(L, at, "logprobs", s->length, false);
  s->finish = text_field(L, at, "finish", NULL);
  s->prompt_text = text_field(L, at, "prompt", NULL);
  s->prompt = integer_field(L, at, "prompt_index") - 1;
  s->index = integer_field(L, at, "index") - 1;
  s->step = integer_field(L, at, "step");
}

static void want_callback_ok(lua_State *L, grpo_status s) {
  if (s == GRPO_OK) return;
  raise_new(L, GRPO_ESCRIPT, "the host's callback returned %s", status_name((Status)s));
}

/* Pushes a list of rewards; one that is NaN does not apply. */
static int give_rewards(lua_State *L, const double *value, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    if (isnan(value[i]))
      push_none(L);
    else
      lua_pushnumber(L, value[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* (text, row, completion) -> number or nil; upvalue 1 here and below: the HostFunction */
static int l_reward(lua_State *L) {
  const HostFunction *r = lua_touserdata(L, lua_upvalueindex(1));
  RowRef row = {L, 2};
  grpo_sample s;
  double value = NAN;
  lua_settop(L, 3);
  push_sample(L, 3, &row, &s);
  luaL_checkstack(L, 64, "reward");
  want_callback_ok(L, r->reward(r->user, &s, &value));
  if (isnan(value)) return 0;
  return give_number(L, value);
}

/* (texts, row, completions) -> list of numbers */
static int l_group(lua_State *L) {
  const HostFunction *r = lua_touserdata(L, lua_upvalueindex(1));
  RowRef row = {L, 2};
  lua_settop(L, 3);
  luaL_checktype(L, 3, LUA_TTABLE);
  const size_t n = lua_rawlen(L, 3);
  grpo_sample *s = push_scratch(L, n, sizeof *s);
  double *value = push_scratch(L, n, sizeof *value);
  for (size_t i = 0; i < n; i++) {
    value[i] = NAN;
    luaL_checkstack(L, 16, "reward");
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    push_sample(L, lua_gettop(L), &row, &s[i]);
  }
  luaL_checkstack(L, 64, "reward");
  want_callback_ok(L, r->group(r->user, s, n, value));
  return give_rewards(L, value, n);
}

/* (completion) -> list of numbers */
static int l_tokens(lua_State *L) {
  const HostFunction *r = lua_touserdata(L, lua_upvalueindex(1));
  RowRef row = {L, 2};
  grpo_sample s;
  lua_settop(L, 1);
  lua_getfield(L, 1, "row");
  push_sample(L, 1, &row, &s);
  double *value = push_scratch(L, s.length, sizeof *value);
  luaL_checkstack(L, 64, "reward");
  want_callback_ok(L, r->tokens(r->user, &s, value));
  for (size_t i = 0; i < s.length; i++)
    if (isnan(value[i])) value[i] = 0;
  return give_rewards(L, value, s.length);
}

/* ---- functions of the host that the script calls ----------------------------------------- */

grpo_status grpo_answer_json(grpo_answer *a, const char *json, size_t length) {
  if (!a || !json) return fail(GRPO_EARG, a ? "json is NULL" : "the handle is NULL");
  buf_clear(&a->json);
  buf_put(&a->json, json, length);
  return (grpo_status)buf_status(&a->json);
}

/* (...) -> what the host answers */
static int l_call(lua_State *L) {
  const HostFunction *f = lua_touserdata(L, lua_upvalueindex(1));
  const int n = lua_gettop(L);
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  Buf *in = push_buf(L), *out = push_buf(L);
  put_json(L, n + 1, in, 0);
  buf_putc(in, 0);
  want_ok(L, buf_status(in));
  grpo_answer answer = {*out};
  const grpo_status s = f->call(f->user, in->data, &answer);
  *out = answer.json; /* the userdata frees it */
  if (s != GRPO_OK)
    return raise_new(L, GRPO_ESCRIPT, "grpo.host.%s: the host's callback returned %s", f->name,
                     status_name((Status)s));
  if (!out->len) return 0;
  lua_pushfstring(L, "the answer of grpo.host.%s", f->name);
  push_json_text(L, out->data, out->len, lua_tostring(L, -1));
  return 1;
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

/* rewards: entries of the option of that name; functions: grpo.host */
static void set_functions(lua_State *L, const Hosted *h) {
  lua_Integer rewards = 0;
  lua_newtable(L);
  lua_newtable(L); /* functions rewards */
  for (size_t i = 0; i < h->nfunctions; i++) {
    const HostFunction *f = &h->functions[i];
    void *upvalue = (void *)(uintptr_t)f;
    if (f->call) {
      lua_pushvalue(L, -2);
      set_function(L, f->name, l_call, upvalue);
      lua_pop(L, 1);
      continue;
    }
    lua_newtable(L);
    set_string(L, "name", f->name);
    set_number(L, "weight", f->weight);
    if (f->reward) set_function(L, "fn", l_reward, upvalue);
    if (f->group) set_function(L, "group_fn", l_group, upvalue);
    if (f->tokens) set_function(L, "token_fn", l_tokens, upvalue);
    lua_rawseti(L, -2, ++rewards);
  }
  lua_setfield(L, -3, "rewards");
  lua_setfield(L, -2, "functions");
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
  set_functions(L, h);
  set_function(L, "step", l_step, h);
  set_function(L, "log", l_log, h);
  set_function(L, "stopping", l_stopping, h);
  set_function(L, "reached", l_reached, h);
  lua_call(L, 1, 0);
  return 0;
}

/* In a state of the host's, which then has grpo as `require "grpo"` gives it. */
static int protected_attach(lua_State *L) {
  script_attach(L, embedded_files, open_core);
  return 0;
}

static Status run_in_state(lua_State *L, Hosted *h) {
  if (!lua_checkstack(L, 40)) return fail(GRPO_ENOMEM, "not enough memory for the script");
  lua_pushcfunction(L, protected_attach);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    const char *why = lua_tostring(L, -1);
    const Status s = fail(GRPO_ESCRIPT, "grpo_run_options.lua: %s", why ? why : "?");
    lua_pop(L, 1);
    return s;
  }
  return host_call(L, protected_call_run, h);
}

Status hosted_run(Hosted *h) {
  Script *script = NULL;
  if (h->o->lua) {
    const Status s = run_in_state(h->o->lua, h);
    return s == GRPO_OK ? buf_status(&h->directory) : s;
  }
  try(host_call_open(&script));
  const Status s = host_call(script_state(script), protected_call_run, h);
  script_close(script);
  return s == GRPO_OK ? buf_status(&h->directory) : s;
}

/* lua_weights.c - core.weights: a model's weights as bytes, for a copy of it in another process
 * (model/stored.h, formats/float_delta.h).
 *
 *   list(m) -> { { name=, type=, bytes=, trained= }, ... }: parameters, the adapter's last
 *   sum(m, i) -> CRC-32C of the bytes of parameter i
 *   read(m, i, from, n) -> bytes      write(m, i, from, bytes)
 *   config(m) -> text of config.json, text of adapter_config.json or nil
 *   new(config, compute, types) -> a model whose weights are zero
 *   adapt(m, text): it gets an adapter, whose weights are zero
 *   trained(m) -> how many numbers are trained; get(m, from, n) -> bytes of them;
 *   set(m, from, bytes)               changed(m): call it when all is set
 *   version(m) -> a number that changes with the weights
 *   snapshot(m) -> a copy of the trained numbers
 *   snapshot:difference(m, from, n) -> what makes m's numbers of the copy's, which become the same
 *   snapshot:get(from, n) -> bytes of the copy
 *   snapshot:load(m): m's numbers become the copy's
 *   snapshot:restore(m): so do they, and m, of which the copy was taken, has version(m) of then
 *   apply(m, from, n, bytes): makes the numbers of another copy's
 * Indices of parameters count from 1, those of numbers and bytes from 0.
 */
#include <string.h>

#include "base/mem.h"
#include "checkpoint/peft.h"
#include "formats/float_delta.h"
#include "formats/json.h"
#include "model/config_check.h"
#include "model/config_read.h"
#include "model/config_write.h"
#include "model/lora.h"
#include "model/model_plan.h"
#include "model/stored.h"
#include "script/lua_model.h"

#define SNAPSHOT_TYPE "grpo.WeightSnapshot"

enum { MOST_PIECE = 64 << 20, MOST_PARAMS = 1 << 20 };

/* ---- parameters ---------------------------------------------------------------------------- */

static Param *check_param(lua_State *L) {
  Model *m = check_model(L, 1);
  return model_param(m, (int)check_integer(L, 2, 1, model_num_params(m)) - 1);
}

static int l_list(lua_State *L) {
  Model *m = check_model(L, 1);
  lua_createtable(L, model_num_params(m), 0);
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    lua_createtable(L, 0, 4);
    set_string(L, "name", p->name);
    set_string(L, "type", stored_type(p));
    set_integer(L, "bytes", (lua_Integer)stored_bytes(p));
    set_bool(L, "trained", model_trains(m, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_sum(lua_State *L) {
  uint32_t sum;
  want_ok(L, stored_sum(script_ctx(L), check_param(L), &sum));
  lua_pushinteger(L, sum);
  return 1;
}

static int l_read(lua_State *L) {
  const Param *p = check_param(L);
  const size_t from = (size_t)check_integer(L, 3, 0, LUA_MAXINTEGER);
  const size_t n = (size_t)check_integer(L, 4, 0, MOST_PIECE);
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, n);
  want_ok(L, stored_read(script_ctx(L), p, from, n, out));
  luaL_pushresultsize(&b, n);
  return 1;
}

static int l_write(lua_State *L) {
  size_t n;
  Param *p = check_param(L);
  const size_t from = (size_t)check_integer(L, 3, 0, LUA_MAXINTEGER);
  const char *bytes = check_string(L, 4, &n);
  want_ok(L, stored_write(p, from, n, bytes));
  return 0;
}

/* ---- a model -------------------------------------------------------------------------------- */

static int l_config(lua_State *L) {
  const Model *m = check_model(L, 1);
  Buf *b = push_buf(L);
  config_write(b, model_config(m));
  want_ok(L, buf_status(b));
  push_bytes(L, b);
  lua_pushstring(L, lora_attached(m) ? lora_of(m)->config : NULL);
  return 2;
}

/* Reads a configuration that another process has sent. */
static void check_config(lua_State *L, int index, Config *c) {
  static const char what[] = "the trainer's model";
  size_t n;
  Json *j;
  const char *text = check_string(L, index, &n);
  want_ok(L, json_parse(text, n, what, &j));
  Status s = config_read(c, j, what);
  json_free(j);
  if (s == GRPO_OK) s = config_check(c, what);
  want_ok(L, s);
}

static int l_new(lua_State *L) {
  static const char *const computes[] = {"f32", "bf16", NULL};
  Config c;
  lua_settop(L, 3);
  check_config(L, 1, &c);
  const Compute compute = luaL_checkoption(L, 2, NULL, computes) ? COMPUTE_BF16 : COMPUTE_F32;
  check_table(L, 3);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 3);
  if (n > MOST_PARAMS) arg_error(L, 3, "these are too many");
  const char **types = push_scratch(L, (size_t)n + 1, sizeof *types);
  for (lua_Integer i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    types[i] = check_string(L, -1, NULL);
    lua_pop(L, 1); /* the table holds it */
  }
  Pool *pool = script_pool(L);
  LuaModel *lm = push_lua_model(L);
  want_ok(L, stored_new(&lm->m, pool, &c, compute, (int)n, types));
  return 1;
}

static int l_adapt(lua_State *L) {
  size_t n;
  Model *m = check_model(L, 1);
  const char *text = check_string(L, 2, &n);
  want_ok(L, peft_attach(m, text, n, "the trainer's adapter"));
  want_ok(L, lora_allocate(m));
  return 0;
}

/* ---- trained numbers ------------------------------------------------------------------------ */

/* Arguments 2 and 3: from, n. */
static void check_numbers(lua_State *L, const Model *m, size_t *from, size_t *n) {
  const size_t all = stored_trained(m);
  *from = (size_t)check_integer(L, 2, 0, (lua_Integer)all);
  *n = (size_t)check_integer(L, 3, 0, (lua_Integer)(all - *from));
  if (*n > MOST_PIECE / sizeof(float)) arg_error(L, 3, "these are too many");
}

static int l_trained(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)stored_trained(check_model(L, 1)));
  return 1;
}

static int l_get(lua_State *L) {
  const Model *m = check_model(L, 1);
  size_t from, n;
  check_numbers(L, m, &from, &n);
  float *out = push_scratch(L, n + 1, sizeof *out);
  stored_get(m, from, n, out);
  lua_pushlstring(L, (const char *)out, n * sizeof *out);
  return 1;
}

static int l_set(lua_State *L) {
  Model *m = check_model(L, 1);
  const size_t all = stored_trained(m);
  const size_t from = (size_t)check_integer(L, 2, 0, (lua_Integer)all);
  size_t len;
  const char *bytes = check_string(L, 3, &len);
  const size_t n = len / sizeof(float);
  if (len % sizeof(float) || n > all - from)
    return raise_new(L, GRPO_EFORMAT, "weights: %zu bytes from number %zu of %zu", len, from, all);
  float *values = push_scratch(L, n + 1, sizeof *values);
  memcpy(values, bytes, len);
  stored_set(m, from, n, values);
  return 0;
}

static int l_apply(lua_State *L) {
  Model *m = check_model(L, 1);
  size_t from, n, len;
  check_numbers(L, m, &from, &n);
  const char *bytes = check_string(L, 4, &len);
  float *x = push_scratch(L, n + 1, sizeof *x);
  stored_get(m, from, n, x);
  want_ok(L, float_delta_apply(bytes, len, x, n));
  stored_set(m, from, n, x);
  return 0;
}

static int l_changed(lua_State *L) {
  model_updated(check_model(L, 1));
  return 0;
}

static int l_version(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)model_version(check_model(L, 1)));
  return 1;
}

/* ---- snapshots ------------------------------------------------------------------------------ */

typedef struct Snapshot {
  float *x; /* [n] */
  size_t n;
  uint64_t version; /* of the model when the copy was taken */
} Snapshot;

static int l_snapshot(lua_State *L) {
  const Model *m = check_model(L, 1);
  Snapshot *s = new_object(L, sizeof *s, 0);
  *s = (Snapshot){.n = stored_trained(m), .version = model_version(m)};
  luaL_setmetatable(L, SNAPSHOT_TYPE);
  s->x = mem_alloc(s->n * sizeof *s->x + 1);
  if (!s->x) return raise_new(L, GRPO_ENOMEM, "workers: no memory for a copy of %zu weights", s->n);
  stored_get(m, 0, s->n, s->x);
  return 1;
}

/* (snapshot, m, from, n) */
static int l_difference(lua_State *L) {
  Snapshot *s = check_object(L, 1, SNAPSHOT_TYPE);
  const Model *m = check_model(L, 2);
  size_t from, n;
  lua_remove(L, 1);
  check_numbers(L, m, &from, &n);
  if (stored_trained(m) != s->n) return raise_new(L, GRPO_EARG, "the copy is of another model");
  float *now = push_scratch(L, n + 1, sizeof *now);
  Buf *b = push_buf(L);
  stored_get(m, from, n, now);
  float_delta_put(b, s->x + from, now, n);
  want_ok(L, buf_status(b));
  memcpy(s->x + from, now, n * sizeof *now);
  push_bytes(L, b);
  keep_buf(L, b);
  return 1;
}

/* (snapshot, from, n) */
static int l_snapshot_get(lua_State *L) {
  const Snapshot *s = check_object(L, 1, SNAPSHOT_TYPE);
  const size_t from = (size_t)check_integer(L, 2, 0, (lua_Integer)s->n);
  const size_t n = (size_t)check_integer(L, 3, 0, (lua_Integer)(s->n - from));
  lua_pushlstring(L, (const char *)(s->x + from), n * sizeof *s->x);
  return 1;
}

static Model *load_snapshot(lua_State *L, const Snapshot *s) {
  Model *m = check_model(L, 2);
  if (stored_trained(m) != s->n) raise_new(L, GRPO_EARG, "the copy is of another model");
  stored_set(m, 0, s->n, s->x);
  return m;
}

/* (snapshot, m) */
static int l_load(lua_State *L) {
  model_updated(load_snapshot(L, check_object(L, 1, SNAPSHOT_TYPE)));
  return 0;
}

static int l_restore(lua_State *L) {
  const Snapshot *s = check_object(L, 1, SNAPSHOT_TYPE);
  model_restored(load_snapshot(L, s), s->version);
  return 0;
}

static int l_snapshot_close(lua_State *L) {
  Snapshot *s = check_object(L, 1, SNAPSHOT_TYPE);
  mem_free(s->x);
  *s = (Snapshot){0};
  return 0;
}

CORE_PART(weights) {
  static const luaL_Reg functions[] = {FN(list),    FN(sum),      FN(read),    FN(write),
                                       FN(config),  FN(new),      FN(adapt),   FN(trained),
                                       FN(get),     FN(set),      FN(apply),   FN(changed),
                                       FN(version), FN(snapshot), {NULL, NULL}};
  static const luaL_Reg methods[] = {FN(difference), {"get", l_snapshot_get},     FN(load),
                                     FN(restore),    {"close", l_snapshot_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__gc", l_snapshot_close}, {"__close", l_snapshot_close}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "weights");
  make_type(L, SNAPSHOT_TYPE, meta, methods);
}

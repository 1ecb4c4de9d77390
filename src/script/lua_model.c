/* lua_model.c - models as Lua objects: loading, saving, parameters, weights. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/export.h"
#include "checkpoint/peft.h"
#include "checkpoint/run_checkpoint.h"
#include "checkpoint/weights.h"
#include "formats/model_format.h"
#include "formats/named_place.h"
#include "kern/dispatch.h"
#include "model/config_check.h"
#include "model/config_read.h"
#include "model/config_write.h"
#include "model/lora.h"
#include "model/model_copy.h"
#include "model/model_memory.h"
#include "model/resize.h"
#include "os/file.h"
#include "script/environment.h"
#include "script/lua_json.h"
#include "script/lua_model.h"
#include "script/lua_tensor.h"
#include "script/lua_tokenizer.h"
#include "script/model_tree.h"
#include "text/tokenizer_files.h"

/* ---- handles ------------------------------------------------------------------------ */

LuaModel *check_lua_model(lua_State *L, int arg) {
  LuaModel *lm = check_object(L, arg, MODEL_TYPE);
  if (!lm->m) arg_error(L, arg, "the model was closed");
  return lm;
}

Model *check_model(lua_State *L, int arg) { return check_lua_model(L, arg)->m; }

Model *test_model(lua_State *L, int index) {
  LuaModel *lm = luaL_testudata(L, index, MODEL_TYPE);
  return lm ? lm->m : NULL;
}

LuaModel *push_lua_model(lua_State *L) {
  LuaModel *lm = new_object(L, sizeof *lm, 2);
  *lm = (LuaModel){0};
  luaL_setmetatable(L, MODEL_TYPE);
  return lm;
}

void drop_model_decoder(LuaModel *lm) {
  decoder_free(lm->decoder);
  tokenizer_free(lm->decoder_tokenizer);
  lm->decoder = NULL;
  lm->decoder_tokenizer = NULL;
}

void want_idle_model(lua_State *L, const LuaModel *lm, const char *what) {
  if (lm->generating)
    raise_new(L, GRPO_EARG, "%s: the model is generating, so on_token cannot change it", what);
}

Storage field_model_storage(lua_State *L, int index, const char *where) {
  static const char *const dtypes[] = {"f32", "auto", "bf16", NULL};
  static const char *const quantised[] = {"int8", "nf4", NULL};
  static const Storage plain[] = {STORE_F32, STORE_AUTO, STORE_BF16};
  static const Storage packed[] = {STORE_INT8, STORE_NF4};
  int dtype = 0, quantize = 0;
  const bool named = field_choice(L, index, where, "dtype", dtypes, &dtype);
  if (!field_choice(L, index, where, "quantize", quantised, &quantize)) return plain[dtype];
  if (named && dtype == 0)
    raise_new(L, GRPO_EARG, "%s: quantize = \"%s\" and dtype = \"f32\" exclude each other", where,
              quantised[quantize]);
  return packed[quantize];
}

Compute field_model_compute(lua_State *L, int index, const char *where) {
  static const char *const names[] = {"f32", "bf16", NULL};
  int mode = 0;
  field_choice(L, index, where, "compute", names, &mode);
  return mode == 1 ? COMPUTE_BF16 : COMPUTE_F32;
}

static int l_gc(lua_State *L) {
  LuaModel *lm = luaL_testudata(L, 1, MODEL_TYPE);
  if (!lm) return 0;
  drop_model_decoder(lm);
  model_release(lm->m);
  *lm = (LuaModel){0};
  return 0;
}

static int l_close(lua_State *L) { return in_use(L) ? 0 : l_gc(L); }

static void push_loaded_tokenizer(lua_State *L, const char *path) {
  Tokenizer *t = NULL;
  want_ok(L, run_checkpoint_check(path, CHECKPOINT_TOKENIZER));
  want_ok(L, tokenizer_load(&t, path));
  push_tokenizer(L, t);
}

const Tokenizer *push_model_tokenizer(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_getiuservalue(L, index, 1);
  if (lua_type(L, -1) == LUA_TSTRING) {
    push_loaded_tokenizer(L, lua_tostring(L, -1));
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, index, 1);
    lua_remove(L, -2);
  }
  return lua_isnil(L, -1) ? NULL : test_tokenizer(L, -1);
}

void want_trainable_model(lua_State *L, LuaModel *lm) {
  if (lm->frozen)
    raise_new(L, GRPO_EARG, "this model is a frozen copy (a reference), so it has no gradients");
  want_ok(L, model_set_trainable(lm->m, true));
}

/* ---- making and loading ------------------------------------------------------------- */

/* The option `tokenizer`, if given, becomes user value 1 of the model on top. */
static void set_tokenizer(lua_State *L, int options, const char *where) {
  if (!lua_istable(L, options)) return;
  if (lua_getfield(L, options, "tokenizer") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  if (lua_type(L, -1) == LUA_TSTRING) {
    push_loaded_tokenizer(L, lua_tostring(L, -1));
    lua_remove(L, -2);
  } else if (!test_tokenizer(L, -1)) {
    raise_new(L, GRPO_EARG, "%s.tokenizer: want a tokenizer or a path, got %s", where,
              luaL_typename(L, -1));
  }
  lua_setiuservalue(L, -2, 1);
}

const char *push_model_dir(lua_State *L, const char *path) {
  char version[NAMED_PLACE_VERSION];
  lua_pushfstring(L, "%s/run.json", path);
  bool run = file_exists(lua_tostring(L, -1));
  lua_pop(L, 1);
  Buf *dir = push_buf(L);
  const Status s =
      run ? run_checkpoint_newest(path, dir) : named_place_find(path, true, dir, version);
  want_ok(L, s);
  return dir->data;
}

static void load_adapter_option(lua_State *L, LuaModel *lm, const char *where) {
  const char *path;
  if (!field_string(L, 2, where, "adapter", &path)) return;
  want_ok(L, peft_load(lm->m, push_model_dir(L, path)));
  lua_pop(L, 2);
}

static int l_load(lua_State *L) {
  static const char *const known[] = {"dtype", "quantize", "compute", "adapter", "tokenizer", NULL};
  const char *where = "model.load", *path = check_string(L, 1, NULL);
  lua_settop(L, 2);
  check_fields(L, 2, where, known);
  const Storage storage = field_model_storage(L, 2, where);
  const Compute compute = field_model_compute(L, 2, where);
  const char *dir = push_model_dir(L, path);
  Pool *pool = script_pool(L);
  LuaModel *lm = push_lua_model(L);
  want_ok(L, weights_load_compute(&lm->m, pool, dir, storage, compute));
  load_adapter_option(L, lm, where);
  if (tokenizer_is_in(dir)) {
    lua_pushstring(L, dir);
    lua_setiuservalue(L, -2, 1); /* push_model_tokenizer loads it */
  }
  set_tokenizer(L, 2, where);
  return 1;
}

/* Pushes a Buf with the JSON text of a configuration, from a table, a file or an embedded file. */
static Buf *push_config_text(lua_State *L, int index, const char **what) {
  Buf *b = push_buf(L);
  *what = "model.config";
  if (lua_type(L, index) == LUA_TSTRING) {
    size_t n;
    *what = lua_tolstring(L, index, &n);
    const EmbeddedFile *f = file_exists(*what) ? NULL : script_embedded(L, *what, n);
    Status s = GRPO_OK;
    if (f)
      buf_put(b, f->data, f->size);
    else
      s = file_read(*what, 16 << 20, b);
    want_ok(L, s);
  } else if (lua_istable(L, index)) {
    if (luaL_getmetafield(L, index, "__index") != LUA_TTABLE)
      lua_pushvalue(L, index); /* a plain table; m.config is a view of one */
    put_json(L, -1, b, 0);
    lua_pop(L, 1);
  } else {
    type_error(L, index, "table or path of a JSON file");
  }
  want_ok(L, buf_status(b));
  return b;
}

/* Reads a configuration from a table, a JSON file's path or an embedded file's name; raises. */
static void check_model_config(lua_State *L, int index, Config *c) {
  const char *what;
  Json *j;
  const Buf *b = push_config_text(L, index, &what);
  Status s = json_parse(b->data ? b->data : "", b->len, what, &j);
  want_ok(L, s);
  s = config_read(c, j, what);
  json_free(j);
  if (s == GRPO_OK) s = config_check(c, what);
  if (s && lua_type(L, index) != LUA_TSTRING) raise_new(L, GRPO_EARG, "%s", err_message());
  want_ok(L, s);
  lua_pop(L, 1);
}

static int l_new(lua_State *L) {
  static const char *const known[] = {"seed", "tokenizer", "compute", NULL};
  uint64_t seed = 0;
  Config c;
  lua_settop(L, 2);
  check_fields(L, 2, "model.new", known);
  field_seed(L, 2, "model.new", "seed", &seed);
  const Compute compute = field_model_compute(L, 2, "model.new");
  check_model_config(L, 1, &c);
  want_ok(L, model_check_new(&c));
  Pool *pool = script_pool(L);
  LuaModel *lm = push_lua_model(L);
  Status s = model_new(&lm->m, pool, &c, seed);
  if (s == GRPO_OK) s = model_set_compute(lm->m, compute);
  want_ok(L, s);
  set_tokenizer(L, 2, "model.new");
  return 1;
}

/* core.model_clone(m) -> a frozen copy with the same tokenizer */
static int l_clone(lua_State *L) {
  Model *m = check_model(L, 1);
  LuaModel *copy = push_lua_model(L);
  copy->frozen = true;
  want_ok(L, model_copy(&copy->m, m));
  lua_getiuservalue(L, 1, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* core.model_lerp(to, from, alpha): to becomes alpha from + (1 - alpha) to */
static int l_lerp(lua_State *L) {
  Model *to = check_model(L, 1), *from = check_model(L, 2);
  double alpha = check_number(L, 3);
  if (!(alpha >= 0 && alpha <= 1)) return arg_error(L, 3, "alpha is %g, want 0 to 1", alpha);
  want_ok(L, model_copy_lerp(to, from, alpha, script_ctx(L)));
  return 0;
}

enum { SAVE_CHOICES = 16 };

/* Adds what is new to a list of SAVE_CHOICES that ends with NULL. */
static void add_choice(const char **list, const char *name) {
  int i = 0;
  while (list[i] && strcmp(list[i], name)) i++;
  if (i < SAVE_CHOICES - 1) list[i] = name;
}

static void field_save_choice(lua_State *L, const char *field, const char *const *choices,
                              const char **out) {
  int at = 0;
  field_choice(L, 3, "save", field, choices, &at);
  *out = choices[at];
}

static void read_save_options(lua_State *L, ExportOptions *o) {
  static const char *const known[] = {"format", "merge", "dtype", "shard_bytes", "base_name", NULL};
  const char *formats[SAVE_CHOICES] = {"hf", "adapter"}, *dtypes[SAVE_CHOICES] = {NULL};
  double shard_bytes = 0;
  *o = (ExportOptions){0};
  for (int i = 0; export_dtypes[i]; i++) add_choice(dtypes, export_dtypes[i]);
  for (const ModelFormat *f = model_format_first(); f; f = f->next) {
    add_choice(formats, f->name);
    for (int i = 0; f->dtypes[i]; i++) add_choice(dtypes, f->dtypes[i]);
  }
  check_fields(L, 3, "save", known);
  field_save_choice(L, "format", formats, &o->format);
  field_save_choice(L, "dtype", dtypes, &o->dtype);
  field_bool(L, 3, "save", "merge", &o->merge);
  field_number(L, 3, "save", "shard_bytes", 1 << 16, 1e18, &shard_bytes);
  field_string(L, 3, "save", "base_name", &o->base_name);
  o->shard_bytes = (uint64_t)shard_bytes;
}

static int l_save(lua_State *L) {
  ExportOptions o;
  Model *m = check_model(L, 1);
  const char *path = check_string(L, 2, NULL);
  read_save_options(L, &o);
  want_ok(L, export_check(m, path, &o, "save"));
  want_ok(L, export_model(m, push_model_tokenizer(L, 1), path, &o, "save"));
  return 0;
}

/* core.model_resize_vocab(m, n) */
static int l_resize_vocab(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  const lua_Integer n = check_integer(L, 2, 1, 1 << 22);
  want_idle_model(L, lm, "resize_vocab");
  drop_model_decoder(lm);
  want_ok(L, resize_vocab(lm->m, (int)n));
  lua_pushnil(L); /* m.config has changed */
  lua_setiuservalue(L, 1, 2);
  return 0;
}

/* core.model_set_mask(m, id): makes the model a denoiser whose mask token is id; nil: an ordinary
 * model again */
static int l_set_mask(lua_State *L) {
  Model *m = check_model(L, 1);
  want_idle_model(L, check_lua_model(L, 1), "set_mask");
  const bool none = lua_isnoneornil(L, 2);
  model_set_mask(m, none ? -1 : (int)check_integer(L, 2, 0, model_config(m)->vocab_size - 1));
  lua_settop(L, 1);
  lua_pushnil(L); /* m.config has changed */
  lua_setiuservalue(L, 1, 2);
  return 0;
}

/* ---- parameters --------------------------------------------------------------------- */

static void release_model(void *m) { model_release(m); }

/* Upvalues: the model, the index of the next parameter. */
static int l_next_parameter(lua_State *L) {
  LuaModel *lm = luaL_testudata(L, lua_upvalueindex(1), MODEL_TYPE);
  int i = (int)lua_tointeger(L, lua_upvalueindex(2));
  if (!lm || !lm->m || i >= model_num_params(lm->m)) return 0;
  lua_pushinteger(L, i + 1);
  lua_replace(L, lua_upvalueindex(2));
  Param *p = model_param(lm->m, i);
  Value *v = NULL;
  lua_pushstring(L, p->name);
  TensorHandle *h = push_tensor_handle(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_setiuservalue(L, -2, 1);
  Status s = p->t.quant ? value_new(&v, p->t.ndim, p->t.dim) : value_wrap(&v, &p->t);
  if (s == GRPO_OK && p->t.quant)
    s = param_values(script_ctx(L), p, value_tensor(v)->data); /* a dequantised copy */
  else if (s == GRPO_OK)
    value_on_free(v, model_retain(lm->m), release_model);
  finish_tensor(L, h, s, v);
  lua_pushboolean(L, !lm->frozen && model_trains(lm->m, i));
  return 3;
}

static int l_parameters(lua_State *L) {
  check_lua_model(L, 1);
  lua_settop(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, l_next_parameter, 2);
  return 1;
}

static int l_count(lua_State *L) {
  static const char *const known[] = {"trainable", NULL};
  bool trainable = false;
  LuaModel *lm = check_lua_model(L, 1);
  check_fields(L, 2, "count", known);
  field_bool(L, 2, "count", "trainable", &trainable);
  uint64_t n = 0;
  for (int i = 0; i < model_num_params(lm->m); i++)
    if (!trainable || (!lm->frozen && model_trains(lm->m, i))) n += model_param(lm->m, i)->t.n;
  return give_integer(L, (lua_Integer)n);
}

/* m:cache_bytes_per_token() -> bytes, and how many there would be if every head had keys and values
 * of its own */
static int l_cache_bytes_per_token(lua_State *L) {
  const Model *m = check_model(L, 1);
  for (int every = 0; every < 2; every++)
    lua_pushinteger(L, (lua_Integer)model_cache_bytes(m, every));
  return 2;
}

static int l_zero_grad(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  if (!lm->frozen) model_zero_grad(lm->m);
  return 0;
}

/* ---- fields ------------------------------------------------------------------------- */

static int l_config_newindex(lua_State *L) {
  return raise_new(L, GRPO_EARG,
                   "m.config cannot be changed; make a new model with grpo.model.new");
}

static int l_config_pairs(lua_State *L) {
  environment_push(L, "next");
  luaL_getmetafield(L, 1, "__index");
  return 2;
}

/* Pushes m.config, a read-only view of a table, which is made once. */
static void push_config(lua_State *L, const Model *m) {
  if (lua_getiuservalue(L, 1, 2) != LUA_TNIL) return;
  lua_pop(L, 1);
  Buf *b = push_buf(L);
  config_write(b, model_config(m));
  want_ok(L, buf_status(b));
  lua_newtable(L); /* view */
  lua_createtable(L, 0, 3);
  push_json_text(L, b->data, b->len, "config");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_config_newindex);
  lua_setfield(L, -2, "__newindex");
  lua_pushcfunction(L, l_config_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 2);
}

/* Upvalue 1: the methods. */
static int l_index(lua_State *L) {
  const LuaModel *lm = check_lua_model(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING)
    return raise_new(L, GRPO_EARG, "a model's field is a name, got a %s", luaL_typename(L, 2));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *name = lua_tostring(L, 2);
  if (strcmp(name, "config") == 0)
    push_config(L, lm->m);
  else if (strcmp(name, "tokenizer") == 0)
    push_model_tokenizer(L, 1);
  else if (strcmp(name, "compute") == 0)
    lua_pushstring(L, compute_name(model_compute(lm->m)));
  else if (strcmp(name, "frozen") == 0)
    lua_pushboolean(L, lm->frozen);
  else
    return raise_new(L, GRPO_EARG, "a model has no field '%s'", name);
  return 1;
}

static int l_newindex(lua_State *L) {
  check_lua_model(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "tokenizer") != 0)
    return raise_new(L, GRPO_EARG, "a model's field '%s' cannot be set",
                     luaL_tolstring(L, 2, NULL));
  if (!lua_isnil(L, 3)) check_tokenizer(L, 3);
  lua_settop(L, 3);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int l_tostring(lua_State *L) {
  const LuaModel *lm = check_object(L, 1, MODEL_TYPE);
  if (!lm->m) return lua_pushliteral(L, "grpo.Model (closed)"), 1;
  const Config *c = model_config(lm->m);
  char text[192], cache[64] = "";
  if (config_traits(c) & TRAIT_LATENT)
    snprintf(cache, sizeof cache, ", latent cache of %zu bytes a token",
             model_cache_bytes(lm->m, false));
  double n = (double)model_count(lm->m);
  snprintf(text, sizeof text,
           "grpo.Model: %s, %.4g%s parameters, %d layers, hidden size %d, vocabulary %d%s%s%s",
           config_model_type(c),
           n >= 1e9   ? n / 1e9
           : n >= 1e6 ? n / 1e6
                      : n / 1e3,
           n >= 1e9   ? "B"
           : n >= 1e6 ? "M"
                      : "k",
           c->num_hidden_layers, c->hidden_size, c->vocab_size, cache,
           lora_attached(lm->m) ? ", with an adapter" : "", lm->frozen ? ", frozen" : "");
  Buf *out = push_buf(L);
  buf_puts(out, text);
  model_tree(lm->m, out);
  push_bytes(L, out);
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

/* core.compute { compute = "f32"|"bf16" } -> "f32"|"bf16", whether this CPU has instructions
 * for such products */
static int l_compute(lua_State *L) {
  const Compute c = field_model_compute(L, 1, "compute");
  lua_pushstring(L, compute_name(c));
  lua_pushboolean(L, c == COMPUTE_F32 || kern_bf16(NULL));
  return 2;
}

CORE_PART(model) {
  static const luaL_Reg functions[] = {
      {"compute", l_compute},         {"model_clone", l_clone},
      {"model_lerp", l_lerp},         {"model_load", l_load},
      {"model_new", l_new},           {"model_resize_vocab", l_resize_vocab},
      {"model_set_mask", l_set_mask}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      FN(cache_bytes_per_token), FN(count), FN(parameters), FN(save), FN(zero_grad), {NULL, NULL}};
  static const luaL_Reg meta[] = {
      META(gc), META(close), META(newindex), META(tostring), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, MODEL_TYPE);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  keep_methods(L, MODEL_TYPE);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  seal_type(L);
  lua_pop(L, 1);
}

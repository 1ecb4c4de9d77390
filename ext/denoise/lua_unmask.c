/* lua_unmask.c - m:unmask, which fills in masked tokens. */
#include <math.h>
#include <string.h>

#include "denoise/unmask.h"
#include "script/interrupt.h"
#include "script/lua_model.h"
#include "script/parts.h"
#include "script/read_options.h"
#include "script/script_impl.h"

/* A userdata holds the tape, so that the collector frees it after an error. */
static int l_tape_gc(lua_State *L) {
  Tape *t = lua_touserdata(L, 1);
  tape_free(t);
  return 0;
}

static Tape *push_tape(lua_State *L) {
  Pool *pool = script_pool(L);
  Tape *t = lua_newuserdatauv(L, sizeof *t, 0);
  memset(t, 0, sizeof *t);
  want_ok(L, tape_init(t, pool));
  set_gc(L, "grpo.Tape", l_tape_gc);
  t->off = true;
  return t;
}

/* ---- the sequence --------------------------------------------------------------------- */

/* Reads a text in which `hole` stands for a masked token. */
static void read_text(lua_State *L, const Tokenizer *tok, int32_t mask, IntBuf *ids) {
  const char *hole = mask >= 0 && tok ? tokenizer_token(tok, mask) : NULL;
  size_t n;
  const char *s = lua_tolstring(L, 2, &n), *end = s + n;
  if (!tok) raise_new(L, GRPO_EARG, "unmask: a string needs a tokenizer; give token ids");
  field_string(L, 3, "unmask", "hole", &hole);
  if (!hole || !*hole)
    raise_new(L, GRPO_EARG, "unmask.hole: want the text that stands for a masked token");
  while (s < end) {
    const char *at = s;
    const size_t len = strlen(hole);
    while (at < end && ((size_t)(end - at) < len || memcmp(at, hole, len) != 0)) at++;
    if (at > s) {
      want_ok(L, tokenizer_encode(tok, s, (size_t)(at - s), 0, ids));
    }
    if (at < end) intbuf_put(ids, mask);
    s = at < end ? at + len : end;
  }
}

/* Reads argument 2: a number of masked tokens, a text with holes, or ids with masks. */
static IntBuf *read_sequence(lua_State *L, const Model *m, const Tokenizer *tok, int32_t mask) {
  const Config *c = model_config(m);
  IntBuf *ids = push_ints(L);
  if (lua_type(L, 2) == LUA_TNUMBER) {
    const lua_Integer n = check_integer(L, 2, 1, c->max_position_embeddings);
    for (lua_Integer i = 0; i < n; i++) intbuf_put(ids, mask);
  } else if (lua_type(L, 2) == LUA_TSTRING) {
    read_text(L, tok, mask, ids);
  } else if (lua_type(L, 2) != LUA_TTABLE) {
    raise_new(L, GRPO_EARG, "unmask: want a text, a list of token ids or how many masks, got %s",
              lua_isnoneornil(L, 2) ? "nil" : luaL_typename(L, 2));
  } else {
    check_ids(L, 2, "unmask", ids);
  }
  want_ok(L, intbuf_status(ids));
  if (ids->len < 1 || ids->len > (size_t)c->max_position_embeddings)
    raise_new(L, GRPO_EARG, "unmask: %d tokens, want 1 to %d, the model's context", (int)ids->len,
              c->max_position_embeddings);
  return ids;
}

/* ---- options -------------------------------------------------------------------------- */

static const char *const known[] = {"n",    "steps", "temperature", "top_p", "top_k", "min_p",
                                    "seed", "order", "noise",       "mask",  "hole",  NULL};

static void check_options(lua_State *L, const Model *m, const Tokenizer *tok, UnmaskOptions *o,
                          int *n) {
  static const char *const orders[] = {"confidence", "random", "left", NULL};
  static const char where[] = "unmask";
  const Config *c = model_config(m);
  int order = UNMASK_CONFIDENCE, mask = tok ? tokenizer_role(tok, TOK_MASK) : -1;
  if (c->denoiser) mask = c->mask_token_id;
  unmask_init(o);
  check_fields(L, 3, where, known);
  field_int(L, 3, where, "n", 1, 1 << 16, n);
  field_int(L, 3, where, "steps", 1, 1 << 20, &o->steps);
  read_options(L, 3, where, &sampling_option_set, 0, &o->sampling);
  field_seed(L, 3, where, "seed", &o->seed);
  field_choice(L, 3, where, "order", orders, &order);
  field_number(L, 3, where, "noise", 0, 1e6, &o->noise);
  field_int(L, 3, where, "mask", 0, c->vocab_size - 1, &mask);
  if (mask < 0)
    raise_new(L, GRPO_EARG,
              "unmask: the model has no mask token; train it with kind = \"denoise\" "
              "or give the option mask");
  o->order = (UnmaskOrder)order;
  o->mask_id = (int32_t)mask;
  if (tok && tokenizer_size(tok) < c->vocab_size) o->vocab = tokenizer_size(tok);
  o->cancel = &script_cancel;
}

/* ---- the method ----------------------------------------------------------------------- */

static void push_result(lua_State *L, const Tokenizer *tok, const int32_t *ids, const float *logp,
                        size_t n) {
  lua_createtable(L, 0, 3);
  push_ids(L, ids, n);
  lua_setfield(L, -2, "ids");
  push_floats(L, logp, (int)n);
  lua_setfield(L, -2, "logprobs");
  if (!tok) return;
  Buf *text = push_buf(L);
  want_ok(L, tokenizer_decode(tok, ids, n, true, text));
  push_bytes(L, text);
  lua_setfield(L, -3, "text");
  lua_pop(L, 1);
}

static int l_unmask(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  UnmaskOptions o;
  int n = 1;
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) lua_newtable(L), lua_replace(L, 3);
  check_table(L, 3);
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  check_options(L, lm->m, tok, &o, &n);
  const IntBuf *seq = read_sequence(L, lm->m, tok, o.mask_id);
  const size_t len = seq->len;
  int *lens = push_scratch(L, (size_t)n, sizeof *lens);
  int32_t *ids = push_scratch(L, (size_t)n * len, sizeof *ids);
  float *logp = push_scratch(L, (size_t)n * len, sizeof *logp);
  for (int i = 0; i < n; i++) {
    lens[i] = (int)len;
    memcpy(ids + (size_t)i * len, seq->data, len * sizeof *ids);
  }
  Tape *t = push_tape(L);
  const Status s = unmask(lm->m, t, n, lens, ids, logp, &o);
  tape_free(t);
  memset(t, 0, sizeof *t);
  want_ok(L, s);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_result(L, tok, ids + (size_t)i * len, logp + (size_t)i * len, len);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

EXTENSION_PART(unmask) {
  static const luaL_Reg methods[] = {FN(unmask), {NULL, NULL}};
  add_methods(L, MODEL_TYPE, methods);
}

/* lua_score.c - a model's forward pass: m:score, m:logits, m:logprobs. */
#include <string.h>

#include "base/mem.h"
#include "kern/token_set.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "script/lua_model.h"
#include "script/lua_tensor.h"
#include "script/read_prompts.h"
#include "script/read_sampling.h"

/* ---- score -------------------------------------------------------------------------- */

/* A forward pass: the tape with its graph, and the order of its outputs. */
typedef struct ForwardPass {
  Tape tape;
  bool ready;  /* tape_init has succeeded */
  Model *m;    /* held */
  Tensor *out; /* [2, n] in the order of the pack */
  size_t n;
  int32_t *order; /* [n] position of output i in the caller's order; in the tape's arena */
} ForwardPass;

static void forward_free(void *p) {
  ForwardPass *f = p;
  if (!f) return;
  if (f->ready) tape_free(&f->tape);
  model_release(f->m);
  mem_free(f);
}

static int l_forward_gc(lua_State *L) {
  ForwardPass **slot = lua_touserdata(L, 1);
  forward_free(*slot);
  *slot = NULL;
  return 0;
}

/* Pushes a userdata that owns a new ForwardPass; set *slot to NULL to take it over. */
static ForwardPass **push_forward(lua_State *L, Model *m, bool record) {
  Pool *pool = script_pool(L);
  ForwardPass **slot = new_object(L, sizeof *slot, 0);
  *slot = NULL;
  set_gc(L, "grpo.Forward", l_forward_gc);
  ForwardPass *f = *slot = mem_zalloc(sizeof *f);
  if (!f) raise_new(L, GRPO_ENOMEM, "no memory for a forward pass");
  f->m = model_retain(m);
  want_ok(L, tape_init(&f->tape, pool));
  f->ready = true;
  f->tape.off = !record;
  return slot;
}

/* Completions grouped by equal prompts, in the order in which the prompts first appear. */
typedef struct Groups {
  int n;
  PackGroup *group;
  int *group_of;              /* [completions] */
  const int32_t **completion; /* sorted by group, then as the caller gave them */
  int *completion_len;
} Groups;

/* Groups the completions, with a Lua table from a prompt's bytes to its group; pushes memory. */
static Groups push_groups(lua_State *L, const Prompts *prompts, const Prompts *completions) {
  size_t n = (size_t)prompts->n;
  Groups g = {.group = push_scratch(L, n, sizeof *g.group),
              .group_of = push_scratch(L, n, sizeof *g.group_of),
              .completion = push_scratch(L, n, sizeof *g.completion),
              .completion_len = push_scratch(L, n, sizeof *g.completion_len)};
  lua_newtable(L);
  for (int i = 0; i < prompts->n; i++) {
    const int32_t *ids = prompts->ids->data + prompts->at[i];
    lua_pushlstring(L, (const char *)ids, (size_t)prompt_len(prompts, i) * sizeof *ids);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) {
      g.group[g.n] = (PackGroup){.prompt = ids, .prompt_len = prompt_len(prompts, i)};
      lua_pushvalue(L, -2);
      lua_pushinteger(L, g.n++);
      lua_rawset(L, -5);
    }
    g.group_of[i] = lua_isnil(L, -1) ? g.n - 1 : (int)lua_tointeger(L, -1);
    g.group[g.group_of[i]].n++;
    lua_pop(L, 2);
  }
  int at = 0;
  int most = 0;
  field_int(L, 4, "score", "max_new_tokens", 1, INT32_MAX / 2, &most);
  for (int k = 0; k < g.n; k++) {
    if (most) g.group[k].longest = g.group[k].prompt_len + most;
    g.group[k].completion = g.completion + at;
    g.group[k].completion_len = g.completion_len + at;
    for (int i = 0; i < prompts->n; i++) {
      if (g.group_of[i] != k) continue;
      g.completion[at] = completions->ids->data + completions->at[i];
      g.completion_len[at++] = prompt_len(completions, i);
    }
  }
  return g;
}

/* The sets of tokens that the tokens of completions were sampled from, by their position among all
 * tokens of the caller; NULL: all tokens. */
typedef const uint32_t **TokenSets;

/* Takes the sets of completion i from the string on top of the stack. */
static void read_mask(lua_State *L, const Config *c, const Prompts *completions, int i,
                      TokenSets out) {
  size_t bytes, at = completions->at[i];
  const char *text = lua_tolstring(L, -1, &bytes);
  size_t left = bytes / sizeof(uint32_t);
  uint32_t *set = push_scratch(L, left + 1, sizeof *set);
  memcpy(set, text, left * sizeof *set);
  for (; at < completions->at[i + 1]; at++) {
    const uint32_t *next;
    if (!token_set_is_valid(set, left, c->vocab_size))
      raise_new(L, GRPO_EARG,
                "score.sampling_masks: item %d is not what sampling gave for this completion",
                i + 1);
    if (set[0]) out[at] = set;
    next = token_set_next(set, c->vocab_size);
    left -= (size_t)(next - set);
    set += next - set;
  }
  if (left || bytes % sizeof(uint32_t))
    raise_new(L, GRPO_EARG, "score.sampling_masks: item %d has more tokens than its completion",
              i + 1);
}

/* Reads the option sampling_masks, a list of strings and false; NULL: it is not given. */
static TokenSets push_masks(lua_State *L, const Config *c, const Prompts *completions) {
  if (lua_isnil(L, 4) || lua_getfield(L, 4, "sampling_masks") == LUA_TNIL) return NULL;
  const int list = lua_gettop(L);
  if (!lua_istable(L, list))
    raise_new(L, GRPO_EARG, "score.sampling_masks: want a list of strings, got %s",
              luaL_typename(L, list));
  TokenSets out = push_scratch(L, completions->ids->len, sizeof *out);
  memset(out, 0, completions->ids->len * sizeof *out);
  luaL_checkstack(L, completions->n + 20, "score");
  for (int i = 0; i < completions->n; i++) {
    const int type = lua_rawgeti(L, list, i + 1);
    if (type == LUA_TSTRING) {
      read_mask(L, c, completions, i, out);
      lua_remove(L, -2);
      continue;
    }
    if (type != LUA_TNIL && lua_toboolean(L, -1))
      raise_new(L, GRPO_EARG, "score.sampling_masks: item %d is a %s, want a string or false",
                i + 1, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return out;
}

/* Brings the sets into the pack's order. */
static Status order_sets(ForwardPass *f, const TokenSets sets, Pack *pack) {
  const uint32_t **out = arena_alloc(&f->tape.arena, (f->n + 1) * sizeof *out);
  if (!out) return fail(GRPO_ENOMEM, "score: %zu tokens", f->n);
  for (size_t i = 0; i < f->n; i++) out[i] = sets[f->order[i]];
  pack->token_sets = out;
  return GRPO_OK;
}

/* Sets order[i], the position of the pack's output i among all completion tokens of the caller. */
static Status set_order(ForwardPass *f, const Groups *g, const Prompts *completions) {
  size_t i = 0;
  f->n = completions->ids->len;
  f->order = arena_alloc(&f->tape.arena, (f->n + 1) * sizeof *f->order);
  if (!f->order) return fail(GRPO_ENOMEM, "score: %zu tokens", f->n);
  for (int k = 0; k < g->n; k++)
    for (int c = 0; c < completions->n; c++) {
      if (g->group_of[c] != k) continue;
      for (size_t t = completions->at[c]; t < completions->at[c + 1]; t++)
        f->order[i++] = (int32_t)t;
    }
  return GRPO_OK;
}

static Status forward_run(ForwardPass *f, const Groups *g, const Prompts *completions,
                          const TokenSets sets, double temperature) {
  Pack *pack = arena_alloc(&f->tape.arena, sizeof *pack);
  Tensor *hidden;
  if (!pack) return fail(GRPO_ENOMEM, "score");
  try(pack_groups(&f->tape.arena, model_config(f->m), g->n, g->group, pack));
  try(set_order(f, g, completions));
  if (sets) try(order_sets(f, sets, pack));
  try(forward_hidden(f->m, &f->tape, pack, &hidden));
  return forward_logp(f->m, &f->tape, pack, hidden, temperature, NULL, NULL, &f->out);
}

/* For value_custom: passes d loss / d out, in the caller's order, back to the model's
 * parameters. */
static Status forward_backward(void *user, const real *dout) {
  ForwardPass *f = user;
  real *seed = arena_alloc(&f->tape.arena, 2 * f->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "score: backward of %zu tokens", f->n);
  for (size_t i = 0; i < f->n; i++) {
    seed[i] = dout[f->order[i]];
    seed[f->n + i] = dout[f->n + (size_t)f->order[i]];
  }
  return tape_backward_from(&f->tape, f->out, seed);
}

/* Pushes a copy of both rows in the caller's order. */
static real *push_ordered(lua_State *L, const ForwardPass *f) {
  real *both = push_scratch(L, 2 * f->n, sizeof *both);
  for (size_t i = 0; i < f->n; i++) {
    both[f->order[i]] = f->out->data[i];
    both[f->n + (size_t)f->order[i]] = f->out->data[f->n + i];
  }
  return both;
}

/* Sets t.NAME to a row of both [2, n]. */
static void set_row(lua_State *L, int t, const char *name, Value *both, int row) {
  int n = value_tensor(both)->dim[1];
  Attr narrow = {.i = {0, row, 1}}, flat = {.i = {1, n}};
  Value *one = NULL, *out = NULL;
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_apply(cx, OP_narrow, &both, &narrow, 0, tensor_recording(L), &one);
  if (s == GRPO_OK) s = value_apply(cx, OP_reshape, &one, &flat, 0, tensor_recording(L), &out);
  value_release(one);
  finish_tensor(L, h, s, out);
  lua_setfield(L, t, name);
}

/* Sets the lists t.lengths and t.sequence. */
static void set_lengths(lua_State *L, int t, const Prompts *completions) {
  lua_createtable(L, completions->n, 0);
  lua_createtable(L, (int)completions->ids->len, 0);
  lua_Integer at = 0;
  for (int i = 0; i < completions->n; i++) {
    int n = prompt_len(completions, i);
    lua_pushinteger(L, n);
    lua_rawseti(L, -3, i + 1);
    for (int k = 0; k < n; k++) {
      lua_pushinteger(L, i + 1);
      lua_rawseti(L, -2, ++at);
    }
  }
  lua_setfield(L, t, "sequence");
  lua_setfield(L, t, "lengths");
}

/* Runs the forward pass and pushes t = { logp=, entropy=, lengths=, sequence= }. */
static int push_scores(lua_State *L, LuaModel *lm, const Prompts *prompts,
                       const Prompts *completions, const TokenSets sets, double temperature,
                       bool grad) {
  Groups g = push_groups(L, prompts, completions);
  ForwardPass **slot = push_forward(L, lm->m, grad);
  Status s = forward_run(*slot, &g, completions, sets, temperature);
  want_ok(L, s);
  int dim[2] = {2, (int)(*slot)->n};
  real *both = push_ordered(L, *slot);
  lua_createtable(L, 0, 5);
  int t = lua_gettop(L);
  TensorHandle *h = push_tensor_handle(L);
  Value *v = NULL;
  s = grad ? value_custom(&v, 2, dim, both, forward_backward, *slot, forward_free)
           : value_new(&v, 2, dim);
  if (s == GRPO_OK && grad) *slot = NULL; /* the value owns it now */
  if (s == GRPO_OK && !grad) memcpy(value_tensor(v)->data, both, 2 * (*slot)->n * sizeof *both);
  finish_tensor(L, h, s, v);
  set_row(L, t, "logp", v, 0);
  set_row(L, t, "entropy", v, 1);
  set_lengths(L, t, completions);
  lua_settop(L, t);
  return 1;
}

static int l_score(lua_State *L) {
  static const char *const known[] = {"temperature", "grad", "sampling_masks", "max_new_tokens",
                                      NULL};
  LuaModel *lm = check_lua_model(L, 1);
  double temperature = 1;
  bool grad = false;
  lua_settop(L, 4);
  check_table(L, 2);
  check_table(L, 3);
  check_fields(L, 4, "score", known);
  read_sampling_temperature(L, 4, "score", &temperature);
  field_bool(L, 4, "score", "grad", &grad);
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  Prompts prompts = read_prompts(L, 2, tok, false, "prompts");
  Prompts completions = read_prompt_completions(L, 3, tok, "completions");
  if (prompts.n != completions.n)
    return raise_new(L, GRPO_ESHAPE,
                     "score: %d prompts for %d completions; want one prompt per completion",
                     prompts.n, completions.n);
  if (prompts.n == 0) return raise_new(L, GRPO_EARG, "score: there are no completions");
  if (completions.ids->len > INT32_MAX / 2)
    return raise_new(L, GRPO_EARG, "score: too many tokens");
  grad = grad && tensor_recording(L);
  if (grad) want_trainable_model(L, lm);
  const TokenSets sets = push_masks(L, model_config(lm->m), &completions);
  return push_scores(L, lm, &prompts, &completions, sets, temperature, grad);
}

/* ---- one sequence ------------------------------------------------------------------- */

/* Reads argument 2, at least `least` ids that fit the model's vocabulary and context. */
static IntBuf *check_sequence(lua_State *L, const LuaModel *lm, const char *what, size_t least) {
  const Config *c = model_config(lm->m);
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  IntBuf *ids = push_ints(L);
  lua_pushvalue(L, 2);
  read_prompt(L, tok, what, ids);
  lua_pop(L, 1);
  if (ids->len < least) raise_new(L, GRPO_EARG, "%s: want at least %d tokens", what, (int)least);
  if (ids->len > (size_t)c->max_position_embeddings)
    raise_new(L, GRPO_EARG, "%s: %d tokens exceed the model's context of %d", what, (int)ids->len,
              c->max_position_embeddings);
  for (size_t i = 0; i < ids->len; i++)
    if (ids->data[i] >= c->vocab_size)
      raise_new(L, GRPO_EARG, "%s[%d]: id %d is outside the vocabulary of %d", what, (int)i + 1,
                (int)ids->data[i], c->vocab_size);
  return ids;
}

static Status run_logits(ForwardPass *f, const IntBuf *ids) {
  int n = (int)ids->len;
  int32_t *pos = arena_alloc(&f->tape.arena, (size_t)n * sizeof *pos);
  PackSpan *span = arena_alloc(&f->tape.arena, sizeof *span);
  Pack *pack = arena_zalloc(&f->tape.arena, sizeof *pack);
  if (!pos || !span || !pack) return fail(GRPO_ENOMEM, "logits of %d tokens", n);
  for (int i = 0; i < n; i++) pos[i] = i;
  *span = (PackSpan){.row = 0, .n = n, .prefix = -1};
  *pack = (Pack){.nrows = n, .ids = ids->data, .pos = pos, .nspans = 1, .spans = span};
  return forward_logits(f->m, &f->tape, pack, &f->out);
}

static int l_logits(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  Value *v = NULL;
  lua_settop(L, 2);
  IntBuf *ids = check_sequence(L, lm, "logits", 1);
  check_tensor_room(L, 3 * (double)ids->len * model_config(lm->m)->vocab_size, "logits");
  ForwardPass **slot = push_forward(L, lm->m, false);
  Status s = run_logits(*slot, ids);
  want_ok(L, s);
  const Tensor *out = (*slot)->out;
  TensorHandle *h = push_tensor_handle(L);
  s = value_new(&v, out->ndim, out->dim);
  if (s == GRPO_OK) memcpy(value_tensor(v)->data, out->data, out->n * sizeof(real));
  finish_tensor(L, h, s, v);
  forward_free(*slot);
  *slot = NULL;
  return 1;
}

static int l_logprobs(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  lua_settop(L, 2);
  IntBuf *ids = check_sequence(L, lm, "logprobs", 2);
  IntBuf rest = {.data = ids->data + 1, .len = ids->len - 1};
  Prompts prompt = {.n = 1, .ids = ids, .at = (size_t[2]){0, 1}};
  Prompts completion = {.n = 1, .ids = &rest, .at = (size_t[2]){0, rest.len}};
  push_scores(L, lm, &prompt, &completion, NULL, 1, false);
  lua_getfield(L, -1, "logp");
  return 1;
}

CORE_METHODS(score, MODEL_TYPE, FN(logits), FN(logprobs), FN(score))

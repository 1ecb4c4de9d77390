/* lua_generate.c - what a model does with tokens: generate, score, logits. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "model/decode.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "script/interrupt.h"
#include "script/lua_generate.h"
#include "script/lua_model.h"
#include "script/lua_regex.h"
#include "script/lua_tensor.h"
#include "script/read_options.h"
#include "script/script_impl.h"

/* ---- sampling options --------------------------------------------------------------- */

/* Keeps the value on top in the table at `held`, made when it is nil; pops it. */
static void hold(lua_State *L, int held) {
  if (lua_isnil(L, held)) {
    lua_newtable(L);
    lua_replace(L, held);
  }
  lua_rawseti(L, held, (lua_Integer)lua_rawlen(L, held) + 1);
}

static void read_stop(lua_State *L, int index, int held, const char *where, Sampling *out) {
  if (lua_getfield(L, index, "stop") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  int list = lua_gettop(L);
  if (lua_type(L, list) == LUA_TSTRING) { /* one string is a list of one */
    lua_newtable(L);
    lua_pushvalue(L, list);
    lua_rawseti(L, -2, 1);
    lua_replace(L, list);
  }
  if (!lua_istable(L, list))
    raise_new(L, GRPO_EARG, "%s.stop: want a list of strings, got %s", where,
              luaL_typename(L, list));
  size_t n = lua_rawlen(L, list);
  if (n == 0) {
    lua_pop(L, 1);
    return;
  }
  const char **stop = push_scratch(L, n, sizeof *stop);
  hold(L, held);
  for (size_t i = 0; i < n; i++) {
    size_t len = 0;
    if (lua_rawgeti(L, list, (lua_Integer)i + 1) == LUA_TSTRING)
      stop[i] = lua_tolstring(L, -1, &len);
    if (!stop[i])
      raise_new(L, GRPO_EARG, "%s.stop: item %d is a %s, want a string", where, (int)i + 1,
                luaL_typename(L, -1));
    if (!len || strlen(stop[i]) != len)
      raise_new(L, GRPO_EARG, "%s.stop: item %d %s; remove it", where, (int)i + 1,
                len ? "has a zero byte, which no text has"
                    : "is empty, which would end every completion");
    hold(L, held);
  }
  out->num_stop = (int)n;
  out->stop = stop;
  lua_pop(L, 1);
}

static const char *const texts[] = {"stop", "stop_regex", "group_size", NULL};
static const OptionSet *const sampling_sets[] = {&sampling_option_set, NULL};

/* Pushes two values, what the strings in *out belong to and its regex: keep them on the stack while
 * they are used. */
static void read_sampling(lua_State *L, int index, const char *where, Sampling *out) {
  lua_pushnil(L);
  const int held = lua_gettop(L), regex = held + 1;
  lua_pushnil(L);
  if (!lua_istable(L, index)) return;
  read_options(L, index, where, &sampling_option_set, 0, out);
  read_stop(L, index, held, where, out);
  if (lua_getfield(L, index, "stop_regex") != LUA_TNIL) {
    const char *name = lua_pushfstring(L, "%s.stop_regex", where);
    lua_insert(L, -2);
    out->stop_regex = to_regex(L, name);
    lua_replace(L, regex);
    lua_pop(L, 1);
  } else {
    lua_pop(L, 1);
  }
}

void read_temperature(lua_State *L, int index, const char *where, double *temperature) {
  const Option *o = option_find(&sampling_option_set, "sampling.temperature");
  field_number(L, index, where, "temperature", 1e-6, o->high, temperature);
}

void check_sampling(lua_State *L, int index, const char *where, Sampling *out) {
  index = lua_absindex(L, index);
  check_option_fields(L, index, where, sampling_sets, texts);
  read_sampling(L, index, where, out);
}

/* ---- prompts ------------------------------------------------------------------------ */

/* Appends the ids of the prompt on top (a string or a list of ids); tok may be NULL. */
static void read_prompt(lua_State *L, const Tokenizer *tok, const char *what, IntBuf *ids) {
  size_t n, before = ids->len;
  if (lua_type(L, -1) != LUA_TSTRING) {
    check_ids(L, -1, what, ids);
  } else {
    const char *text = lua_tolstring(L, -1, &n);
    if (!tok)
      raise_new(L, GRPO_EARG, "%s: a string needs a tokenizer; give token ids (tok:encode)", what);
    Status s = tokenizer_encode(tok, text, n, TOK_ADD_SPECIAL, ids);
    if (s) raise_status(L, s);
  }
  if (ids->len == before) raise_new(L, GRPO_EARG, "%s: is empty; want at least one token", what);
}

/* A list of prompts in one buffer. */
typedef struct Prompts {
  int n;
  IntBuf *ids;
  size_t *at; /* [n + 1] */
} Prompts;

static int prompt_len(const Prompts *p, int i) { return (int)(p->at[i + 1] - p->at[i]); }

/* The list of prompts, or (`single`) one prompt, at index; pushes memory. */
static Prompts read_prompts(lua_State *L, int index, const Tokenizer *tok, bool single,
                            const char *what) {
  Prompts p = {.n = single ? 1 : (int)lua_rawlen(L, index)};
  p.ids = push_ints(L);
  p.at = push_scratch(L, (size_t)p.n + 1, sizeof *p.at);
  for (int i = 0; i < p.n; i++) {
    if (single)
      lua_pushvalue(L, index);
    else
      lua_rawgeti(L, index, i + 1);
    const char *name = single ? what : lua_pushfstring(L, "%s[%d]", what, i + 1);
    if (!single) lua_insert(L, -2);
    read_prompt(L, tok, name, p.ids);
    p.at[i + 1] = p.ids->len;
    lua_pop(L, single ? 1 : 2);
  }
  return p;
}

static bool is_single_prompt(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TSTRING) return true;
  if (!lua_istable(L, index))
    type_error(L, index, "prompt (a string or a list of ids) or a list of prompts");
  bool single = lua_rawgeti(L, index, 1) == LUA_TNUMBER;
  lua_pop(L, 1);
  return single;
}

/* ---- generate ----------------------------------------------------------------------- */

static bool fits(const DecoderLimits *have, const DecoderLimits *want) {
  return have->max_sequences >= want->max_sequences && have->max_prompts >= want->max_prompts &&
         have->max_prompt_tokens >= want->max_prompt_tokens &&
         have->max_new_tokens >= want->max_new_tokens;
}

/* The model's decoder, made anew when the one from last time is too small. */
static void want_decoder(lua_State *L, LuaModel *lm, const Tokenizer *tok,
                         const DecoderLimits *want) {
  if (lm->decoder && lm->decoder_tokenizer == tok && fits(&lm->limits, want)) return;
  drop_decoder(lm);
  Status s = decoder_new(&lm->decoder, lm->m, tok, want);
  if (s) raise_status(L, s);
  lm->limits = *want;
  if (tok) tokenizer_retain(tok);
  lm->decoder_tokenizer = tok;
}

static void push_completion(lua_State *L, const Tokenizer *tok, const Completion *c, Buf *text) {
  lua_createtable(L, 0, 6);
  push_ids(L, c->ids, (size_t)c->len);
  lua_setfield(L, -2, "ids");
  push_floats(L, c->logp, c->len);
  lua_setfield(L, -2, "logprobs");
  lua_pushstring(L, c->finish == FINISH_LENGTH ? "length" : "stop");
  lua_setfield(L, -2, "finish");
  lua_pushinteger(L, c->request + 1);
  lua_setfield(L, -2, "prompt");
  if (!tok) return;
  buf_clear(text);
  Status s = tokenizer_decode(tok, c->ids, (size_t)c->len, true, text);
  if (s) raise_status(L, s);
  lua_pushlstring(L, text->data ? text->data : "", text->len);
  lua_setfield(L, -2, "text");
}

/* Memory for `total` completions of `max` tokens, on the stack. */
static Completion *push_completions(lua_State *L, int total, int max) {
  Completion *c = push_scratch(L, (size_t)total, sizeof *c);
  int32_t *ids = push_scratch(L, (size_t)total * (size_t)max, sizeof *ids);
  float *logp = push_scratch(L, (size_t)total * (size_t)max, sizeof *logp);
  for (int i = 0; i < total; i++) {
    c[i].ids = ids + (size_t)i * (size_t)max;
    c[i].logp = logp + (size_t)i * (size_t)max;
  }
  return c;
}

static Request *push_requests(lua_State *L, const Prompts *p, int n, uint64_t seed) {
  Request *r = push_scratch(L, (size_t)p->n, sizeof *r);
  for (int i = 0; i < p->n; i++)
    r[i] = (Request){.prompt = p->ids->data + p->at[i],
                     .prompt_len = prompt_len(p, i),
                     .n = n,
                     .key = {.seed = seed, .stream = RNG_USER, .prompt = (uint32_t)i}};
  return r;
}

/* on_token = function(id, index): called after every token; index is the completion's place in the
 * result. */
typedef struct TokenCall {
  lua_State *L;
  int function;          /* stack index */
  const Completion *out; /* the first of all completions */
  bool raised;           /* the error object is on top of the stack */
} TokenCall;

static Status call_on_token(void *user, const Completion *c) {
  TokenCall *call = user;
  lua_State *L = call->L;
  lua_pushvalue(L, call->function);
  lua_pushinteger(L, c->ids[c->len - 1]);
  lua_pushinteger(L, c - call->out + 1);
  call->raised = !call_protected(L, 2, 0);
  return call->raised ? fail(GRPO_ESCRIPT, "on_token raised an error") : GRPO_OK;
}

/* Runs the decoder, on_token (nil or a function) at stack index `function`. */
static void run_decoder(lua_State *L, LuaModel *lm, int function, const Prompts *p,
                        const Request *requests, const Sampling *sampling, Completion *out) {
  TokenCall call = {.L = L, .function = function, .out = out};
  luaL_checkstack(L, 20, "generate");
  if (lua_isfunction(L, function)) decoder_on_token(lm->decoder, call_on_token, &call);
  lm->generating = true;
  Status s = decoder_run(lm->decoder, p->n, requests, sampling, out, &script_cancel);
  lm->generating = false;
  decoder_on_token(lm->decoder, NULL, NULL);
  if (call.raised) lua_error(L);
  if (s) raise_status(L, s);
}

static int l_generate(lua_State *L) {
  static const char *const others[] = {"stop", "stop_regex", "n", "seed", "on_token", NULL};
  enum { SIDE_BY_SIDE = 64, GENERATE_TOKENS = 16 };
  LuaModel *lm = check_lua_model(L, 1);
  Sampling sampling;
  int n = 1, longest = 1;
  uint64_t seed = 0;
  lua_settop(L, 3);
  bool single = is_single_prompt(L, 2);
  if (lua_isnil(L, 3)) lua_newtable(L), lua_replace(L, 3);
  check_option_fields(L, 3, "generate", sampling_sets, others);
  field_int(L, 3, "generate", "n", 1, 1 << 20, &n);
  field_seed(L, 3, "generate", "seed", &seed);
  sampling_init(&sampling);
  sampling.max_new_tokens = GENERATE_TOKENS;
  read_sampling(L, 3, "generate", &sampling);
  const int on_token = lua_gettop(L) + 1;
  if (lua_getfield(L, 3, "on_token") != LUA_TNIL && !lua_isfunction(L, on_token))
    return raise_new(L, GRPO_EARG, "generate.on_token: want a function, got %s",
                     luaL_typename(L, on_token));
  if (lm->generating)
    return raise_new(L, GRPO_EARG,
                     "generate: the model is generating already; on_token cannot "
                     "start it again");
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  if (!tok && (sampling.num_stop || sampling.stop_regex))
    return raise_new(L, GRPO_EARG, "generate.stop: needs a tokenizer, and the model has none");
  Prompts p = read_prompts(L, 2, tok, single, "prompt");
  for (int i = 0; i < p.n; i++) longest = prompt_len(&p, i) > longest ? prompt_len(&p, i) : longest;
  if (p.n == 0) return lua_newtable(L), 1;
  if (p.n > (1 << 24) / n)
    return raise_new(L, GRPO_EARG, "generate: %d prompts times n = %d is too much", p.n, n);
  int room = model_config(lm->m)->max_position_embeddings - 1;
  sampling.max_new_tokens = min_int(sampling.max_new_tokens, max_int(room, 1));
  DecoderLimits want = {.max_sequences = min_int(p.n * n, SIDE_BY_SIDE),
                        .max_prompts = min_int(p.n, SIDE_BY_SIDE),
                        .max_prompt_tokens = longest,
                        .max_new_tokens = sampling.max_new_tokens};
  want_decoder(L, lm, tok, &want);
  Request *requests = push_requests(L, &p, n, seed);
  Completion *c = push_completions(L, p.n * n, sampling.max_new_tokens);
  run_decoder(L, lm, on_token, &p, requests, &sampling, c);
  Buf *text = push_buf(L);
  lua_createtable(L, p.n * n, 0);
  for (int i = 0; i < p.n * n; i++) {
    push_completion(L, tok, &c[i], text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- score -------------------------------------------------------------------------- */

/* A forward pass: the tape with its graph, and where each output belongs. */
typedef struct Forward {
  Tape tape;
  bool ready;  /* tape_init succeeded */
  Model *m;    /* held */
  Tensor *out; /* [2, n] in the pack's order */
  size_t n;
  int32_t *order; /* [n] place of output i in the caller's order; in the tape's arena */
} Forward;

static void forward_free(void *p) {
  Forward *f = p;
  if (!f) return;
  if (f->ready) tape_free(&f->tape);
  model_release(f->m);
  mem_free(f);
}

static int forward_gc(lua_State *L) {
  Forward **slot = lua_touserdata(L, 1);
  forward_free(*slot);
  *slot = NULL;
  return 0;
}

/* Pushes an owner for a new Forward; set *slot to NULL when somebody else takes over. */
static Forward **push_forward(lua_State *L, Model *m, bool record) {
  Pool *pool = script_pool(L);
  Forward **slot = new_object(L, sizeof *slot, 0);
  *slot = NULL;
  set_gc(L, "grpo.Forward", forward_gc);
  Forward *f = *slot = mem_zalloc(sizeof *f);
  if (!f) raise_new(L, GRPO_ENOMEM, "no memory for a forward pass");
  f->m = model_retain(m);
  Status s = tape_init(&f->tape, pool);
  if (s) raise_status(L, s);
  f->ready = true;
  f->tape.off = !record;
  return slot;
}

/* Groups of completions that share a prompt, in the order of their first appearance. */
typedef struct Groups {
  int n;
  PackGroup *group;
  int *group_of;              /* [completions] */
  const int32_t **completion; /* by group, then by appearance */
  int *completion_len;
} Groups;

/* A table from a prompt's bytes to its group's number decides what is equal; pushes memory. */
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
  for (int k = 0; k < g.n; k++) {
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

/* order[i]: where the pack's output i stands among all completion tokens in the caller's order. */
static Status set_order(Forward *f, const Groups *g, const Prompts *completions) {
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

static Status forward_run(Forward *f, const Groups *g, const Prompts *completions,
                          double temperature) {
  Pack *pack = arena_alloc(&f->tape.arena, sizeof *pack);
  Tensor *hidden;
  if (!pack) return fail(GRPO_ENOMEM, "score");
  try(pack_groups(&f->tape.arena, model_config(f->m), g->n, g->group, pack));
  try(set_order(f, g, completions));
  try(forward_hidden(f->m, &f->tape, pack, &hidden));
  return forward_logp(f->m, &f->tape, pack, hidden, temperature, NULL, NULL, &f->out);
}

/* value_custom's backward: d loss / d out in the caller's order -> the model's parameters. */
static Status forward_backward(void *user, const real *dout) {
  Forward *f = user;
  real *seed = arena_alloc(&f->tape.arena, 2 * f->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "score: backward of %zu tokens", f->n);
  for (size_t i = 0; i < f->n; i++) {
    seed[i] = dout[f->order[i]];
    seed[f->n + i] = dout[f->n + (size_t)f->order[i]];
  }
  return tape_backward_from(&f->tape, f->out, seed);
}

/* Both rows in the caller's order; scratch on the stack. */
static real *push_ordered(lua_State *L, const Forward *f) {
  real *both = push_scratch(L, 2 * f->n, sizeof *both);
  for (size_t i = 0; i < f->n; i++) {
    both[f->order[i]] = f->out->data[i];
    both[f->n + (size_t)f->order[i]] = f->out->data[f->n + i];
  }
  return both;
}

/* Sets t.NAME, t below the top, to row i of both [2, n]. */
static void set_row(lua_State *L, int t, const char *name, Value *both, int row) {
  int n = value_tensor(both)->dim[1];
  Attr narrow = {.i = {0, row, 1}}, flat = {.i = {1, n}};
  Value *one = NULL, *out = NULL;
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_handle(L);
  Status s = value_apply(cx, OP_narrow, &both, &narrow, 0, recording(L), &one);
  if (s == GRPO_OK) s = value_apply(cx, OP_reshape, &one, &flat, 0, recording(L), &out);
  value_release(one);
  finish_tensor(L, h, s, out);
  lua_setfield(L, t, name);
}

/* t.lengths and t.sequence, lists */
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

/* Runs the forward and pushes t. */
static int push_scores(lua_State *L, LuaModel *lm, const Prompts *prompts,
                       const Prompts *completions, double temperature, bool grad) {
  Groups g = push_groups(L, prompts, completions);
  Forward **slot = push_forward(L, lm->m, grad);
  Status s = forward_run(*slot, &g, completions, temperature);
  if (s) return raise_status(L, s);
  int dim[2] = {2, (int)(*slot)->n};
  real *both = push_ordered(L, *slot);
  lua_createtable(L, 0, 5);
  int t = lua_gettop(L);
  TensorHandle *h = push_handle(L);
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
  static const char *const known[] = {"temperature", "grad", NULL};
  LuaModel *lm = check_lua_model(L, 1);
  double temperature = 1;
  bool grad = false;
  lua_settop(L, 4);
  check_table(L, 2);
  check_table(L, 3);
  check_fields(L, 4, "score", known);
  read_temperature(L, 4, "score", &temperature);
  field_bool(L, 4, "score", "grad", &grad);
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  Prompts prompts = read_prompts(L, 2, tok, false, "prompts");
  Prompts completions = read_prompts(L, 3, NULL, false, "completions");
  if (prompts.n != completions.n)
    return raise_new(L, GRPO_ESHAPE,
                     "score: %d prompts for %d completions; want one prompt per completion",
                     prompts.n, completions.n);
  if (prompts.n == 0) return raise_new(L, GRPO_EARG, "score: there are no completions");
  if (completions.ids->len > INT32_MAX / 2)
    return raise_new(L, GRPO_EARG, "score: too many tokens");
  grad = grad && recording(L);
  if (grad) want_trainable(L, lm);
  return push_scores(L, lm, &prompts, &completions, temperature, grad);
}

/* ---- one sequence ------------------------------------------------------------------- */

/* The ids of argument 2, checked against vocabulary and context; at least `least` of them. */
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

static Status run_logits(Forward *f, const IntBuf *ids) {
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
  check_room(L, 3 * (double)ids->len * model_config(lm->m)->vocab_size, "logits");
  Forward **slot = push_forward(L, lm->m, false);
  Status s = run_logits(*slot, ids);
  if (s) return raise_status(L, s);
  const Tensor *out = (*slot)->out;
  TensorHandle *h = push_handle(L);
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
  push_scores(L, lm, &prompt, &completion, 1, false);
  lua_getfield(L, -1, "logp");
  return 1;
}

void generate_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"generate", l_generate},
                                     {"logits", l_logits},
                                     {"logprobs", l_logprobs},
                                     {"score", l_score},
                                     {NULL, NULL}};
  add_methods(L, MODEL_TYPE, methods);
}

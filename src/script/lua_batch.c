/* lua_batch.c - the completions of a rollout: b:ids(i), b:text(i), ... where i counts from 1.
 *
 * A batch is a handle on memory of the engine.  The next rollout into the same slot makes it stale,
 * and using it then is an error.
 */
#include "script/lua_batch.h"

#include "rl/rollout.h"
#include "script/lua_engine.h"

#define BATCH_TYPE "grpo.Batch"

typedef struct BatchHandle {
  Engine *engine;
  BatchSlot slot;
  uint64_t generation;
} BatchHandle;

void push_batch(lua_State *L, int engine_arg, BatchSlot slot) {
  Engine *e = check_engine(L, engine_arg);
  BatchHandle *h = new_object(L, sizeof *h, 1);
  *h = (BatchHandle){e, slot, engine_batch(e, slot)->generation};
  lua_pushvalue(L, engine_arg); /* keeps the engine alive */
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, BATCH_TYPE);
}

Batch *check_batch(lua_State *L, int arg, BatchSlot *slot) {
  BatchHandle *h = check_object(L, arg, BATCH_TYPE);
  lua_getiuservalue(L, arg, 1);
  check_engine(L, -1);
  lua_pop(L, 1);
  Batch *b = engine_batch(h->engine, h->slot);
  if (b->generation != h->generation)
    raise_new(L, GRPO_ESTALE,
              "this batch is gone, because the engine has rolled out again; copy what you need "
              "before");
  if (slot) *slot = h->slot;
  return b;
}

/* Returns the completion whose number is argument 2. */
static const Completion *check_completion(lua_State *L) {
  const Batch *b = check_batch(L, 1, NULL);
  return &b->completion[check_integer(L, 2, 1, batch_size(b)) - 1];
}

static int l_ids(lua_State *L) {
  const Completion *c = check_completion(L);
  push_ids(L, c->ids, (size_t)c->len);
  return 1;
}

static int l_logprobs(lua_State *L) {
  const Completion *c = check_completion(L);
  push_floats(L, c->logp, c->len);
  return 1;
}

static int l_entropies(lua_State *L) {
  const Completion *c = check_completion(L);
  push_floats(L, c->entropy, c->len);
  return 1;
}

static int l_ref_logprobs(lua_State *L) {
  const Completion *c = check_completion(L);
  const Batch *b = check_batch(L, 1, NULL);
  if (!b->has_ref)
    return raise_new(L, GRPO_EARG,
                     "the batch has no reference log-probabilities; call engine:reference first");
  push_floats(L, b->ref_logp + (size_t)(c - b->completion) * (size_t)b->max_new, c->len);
  return 1;
}

/* target_logprobs(i) -> log-probabilities of the prompt's target, up to the length of the shorter
 * of the completion and the target */
static int l_target_logprobs(lua_State *L) {
  const Completion *c = check_completion(L);
  const Batch *b = check_batch(L, 1, NULL);
  const int n = b->target_len[(c - b->completion) / b->group];
  push_floats(L, c->target_logp, c->len < n ? c->len : n);
  return 1;
}

/* sampling_mask(i) -> for each token of completion i the set from which it was sampled, for
 * m:score; nil if nothing was filtered out */
static int l_sampling_mask(lua_State *L) {
  const SamplingMask *k = check_completion(L)->sampling_mask;
  if (!k) return 0;
  lua_pushlstring(L, (const char *)k->words, k->len * sizeof *k->words);
  return 1;
}

/* sampled(i) -> list of booleans: true for a token that the model sampled, false for an injected
 * one; nil if the engine has no turns */
static int l_sampled(lua_State *L) {
  const Completion *c = check_completion(L);
  if (!c->sampled) return 0;
  lua_createtable(L, c->len, 0);
  for (int t = 0; t < c->len; t++) {
    lua_pushboolean(L, c->sampled[t]);
    lua_rawseti(L, -2, t + 1);
  }
  return 1;
}

static int l_length(lua_State *L) { return give_integer(L, check_completion(L)->len); }

static int l_finish(lua_State *L) {
  return give_string(L, finish_name(check_completion(L)->finish));
}

static int l_prompt(lua_State *L) {
  int n;
  const Completion *c = check_completion(L);
  const Batch *b = check_batch(L, 1, NULL);
  const int32_t *ids = batch_prompt(b, (int)(c - b->completion) / b->group, &n);
  push_ids(L, ids, (size_t)n);
  return 1;
}

/* text(i) -> the text without special tokens */
static int l_text(lua_State *L) {
  const Completion *c = check_completion(L);
  const BatchHandle *h = lua_touserdata(L, 1);
  const Tokenizer *tok = engine_tokenizer(h->engine);
  if (!tok) return raise_new(L, GRPO_EARG, "the engine has no tokenizer, which decoding needs");
  Buf *text = push_buf(L);
  want_ok(L, tokenizer_decode(tok, c->ids, (size_t)c->len, true, text));
  push_bytes(L, text);
  keep_buf(L, text);
  return 1;
}

static int l_len(lua_State *L) { return give_integer(L, batch_size(check_batch(L, 1, NULL))); }

static int l_tostring(lua_State *L) {
  const BatchHandle *h = check_object(L, 1, BATCH_TYPE);
  lua_pushfstring(L, "batch (%s)", h->slot == BATCH_EVAL ? "eval" : "sample");
  return 1;
}

CORE_PART(batch) {
  static const luaL_Reg methods[] = {
      FN(ids),     FN(logprobs),      FN(entropies), FN(ref_logprobs), FN(target_logprobs),
      FN(sampled), FN(sampling_mask), FN(length),    FN(finish),       FN(prompt),
      FN(text),    {NULL, NULL}};
  static const luaL_Reg meta[] = {META(len), META(tostring), {NULL, NULL}};
  make_type(L, BATCH_TYPE, meta, methods);
}

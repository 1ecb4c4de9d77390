/* lua_generate.c - m:generate. */
#include "base/minmax.h"
#include "script/interrupt.h"
#include "script/lua_model.h"
#include "script/read_options.h"
#include "script/read_prompts.h"
#include "script/read_sampling.h"

static bool is_single_prompt(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TSTRING) return true;
  if (!lua_istable(L, index))
    type_error(L, index, "prompt (a string or a list of ids) or a list of prompts");
  bool single = lua_rawgeti(L, index, 1) == LUA_TNUMBER;
  lua_pop(L, 1);
  return single;
}

static bool fits(const DecoderLimits *have, const DecoderLimits *want) {
  return have->max_sequences >= want->max_sequences && have->max_prompts >= want->max_prompts &&
         have->max_prompt_tokens >= want->max_prompt_tokens &&
         have->max_new_tokens >= want->max_new_tokens;
}

/* Makes the model's decoder, unless that of the last call is large enough. */
static void want_decoder(lua_State *L, LuaModel *lm, const Tokenizer *tok,
                         const DecoderLimits *want) {
  if (lm->decoder && lm->decoder_tokenizer == tok && fits(&lm->limits, want)) return;
  drop_model_decoder(lm);
  want_ok(L, decoder_new(&lm->decoder, lm->m, tok, want));
  lm->limits = *want;
  if (tok) tokenizer_retain(tok);
  lm->decoder_tokenizer = tok;
}

static void push_completion(lua_State *L, const Tokenizer *tok, const Completion *c, Buf *text) {
  lua_createtable(L, 0, 7);
  push_ids(L, c->ids, (size_t)c->len);
  lua_setfield(L, -2, "ids");
  push_floats(L, c->logp, c->len);
  lua_setfield(L, -2, "logprobs");
  if (c->sampling_mask) {
    lua_pushlstring(L, (const char *)c->sampling_mask->words,
                    c->sampling_mask->len * sizeof *c->sampling_mask->words);
    lua_setfield(L, -2, "sampling_mask");
  }
  lua_pushstring(L, finish_name(c->finish));
  lua_setfield(L, -2, "finish");
  set_integer(L, "prompt", c->request + 1);
  if (!tok) return;
  buf_clear(text);
  want_ok(L, tokenizer_decode(tok, c->ids, (size_t)c->len, true, text));
  push_bytes(L, text);
  lua_setfield(L, -2, "text");
}

/* Pushes memory for `total` completions of `max` tokens. */
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

/* Pushes memory for the sets of tokens that the filters leave, of `words` words a completion. */
static void push_masks(lua_State *L, Completion *c, int total, size_t words) {
  SamplingMask *k = push_scratch(L, (size_t)total, sizeof *k);
  uint32_t *all = push_scratch(L, (size_t)total * words, sizeof *all);
  for (int i = 0; i < total; i++) {
    k[i] = (SamplingMask){.words = all + (size_t)i * words, .room = words};
    c[i].sampling_mask = &k[i];
  }
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

/* on_token(id, index) is called after every token; index is the completion's position in the
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

/* Runs the decoder; on_token, nil or a function, is at stack index `function`. */
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
  want_ok(L, s);
}

static int l_generate(lua_State *L) {
  static const char *const others[] = {"stop",          "stop_regex", "n",     "seed", "on_token",
                                       "sampling_mask", "grammar",    "regex", NULL};
  static const OptionSet *const sets[] = {&sampling_option_set, NULL};
  enum { SIDE_BY_SIDE = 64, GENERATE_TOKENS = 16 };
  LuaModel *lm = check_lua_model(L, 1);
  Sampling sampling;
  int n = 1, longest = 1;
  uint64_t seed = 0;
  bool masked = false;
  lua_settop(L, 3);
  bool single = is_single_prompt(L, 2);
  if (lua_isnil(L, 3)) lua_newtable(L), lua_replace(L, 3);
  check_option_fields(L, 3, "generate", sets, others);
  field_int(L, 3, "generate", "n", 1, 1 << 20, &n);
  field_seed(L, 3, "generate", "seed", &seed);
  field_bool(L, 3, "generate", "sampling_mask", &masked);
  sampling_init(&sampling);
  sampling.max_new_tokens = GENERATE_TOKENS;
  read_sampling(L, 3, "generate", &sampling);
  const int on_token = lua_gettop(L) + 1;
  if (lua_getfield(L, 3, "on_token") != LUA_TNIL && !lua_isfunction(L, on_token))
    return raise_new(L, GRPO_EARG, "generate.on_token: want a function, got %s",
                     luaL_typename(L, on_token));
  if (lm->generating)
    return raise_new(L, GRPO_EARG,
                     "generate: the model is generating already, so on_token cannot start "
                     "it again");
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  if (!tok && (sampling.num_stop || sampling.stop_regex || sampling.grammar))
    return raise_new(L, GRPO_EARG, "generate.%s: needs a tokenizer, but the model has none",
                     sampling.grammar ? "grammar" : "stop");
  Prompts p = read_prompts(L, 2, tok, single, "prompt");
  for (int i = 0; i < p.n; i++) longest = prompt_len(&p, i) > longest ? prompt_len(&p, i) : longest;
  if (p.n == 0) return lua_newtable(L), 1;
  if (p.n > (1 << 24) / n)
    return raise_new(L, GRPO_EARG, "generate: %d prompts times n = %d are too many", p.n, n);
  int room = model_config(lm->m)->max_position_embeddings - 1;
  sampling.max_new_tokens = min_int(sampling.max_new_tokens, max_int(room, 1));
  DecoderLimits want = {.max_sequences = min_int(p.n * n, SIDE_BY_SIDE),
                        .max_prompts = min_int(p.n, SIDE_BY_SIDE),
                        .max_prompt_tokens = longest,
                        .max_new_tokens = sampling.max_new_tokens};
  want_decoder(L, lm, tok, &want);
  Request *requests = push_requests(L, &p, n, seed);
  Completion *c = push_completions(L, p.n * n, sampling.max_new_tokens);
  const int vocab = model_config(lm->m)->vocab_size;
  const int mask_tokens = sampling_mask_tokens(&sampling, vocab);
  if (masked && mask_tokens)
    push_masks(L, c, p.n * n, sampling_mask_words(vocab, mask_tokens, sampling.max_new_tokens));
  run_decoder(L, lm, on_token, &p, requests, &sampling, c);
  Buf *text = push_buf(L);
  lua_createtable(L, p.n * n, 0);
  for (int i = 0; i < p.n * n; i++) {
    push_completion(L, tok, &c[i], text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

CORE_METHODS(generate, MODEL_TYPE, FN(generate))

/* lua_feed.c - core.feed: requests that come one by one and are decoded together
 * (model/decode_feed.h).
 *
 *   feed(model, { sequences =, max_prompt_tokens =, max_new_tokens = }) -> feed
 *   feed:     add(ids, options) -> job | nil: all places are taken
 *             step() -> whether something is left   drop(job)   close()
 *   options:  n, seed, step, prompt, sample (of the random numbers), top_logprobs, and those of
 *             sampling; a completion whose grammar cannot be continued ends by "length"
 *   job:      length(k)   finish(k) -> nil while it grows, "eos", "stop" or "length"
 *             token(k, i) -> id, log-probability
 *             top(k, i) -> ids, log-probabilities: the likeliest, best first
 */
#include "model/decode_feed.h"

#include "base/minmax.h"
#include "script/lua_model.h"
#include "script/read_options.h"
#include "script/read_sampling.h"

#define FEED_TYPE "grpo.Feed"
#define JOB_TYPE  "grpo.Job"

enum { MOST_SEQUENCES = 64, MOST_TOP = 20 };

typedef struct Job {
  Request request;
  Sampling sampling;
  Completion *out; /* [request.n] */
} Job;

/* User value 1: the model, 2: its tokenizer, 3: the jobs that are being decoded, by their place. */
typedef struct Feed {
  Decoder *decoder; /* NULL: it is closed */
  Job *job[MOST_SEQUENCES];
  int sequences;
} Feed;

/* User values of a job: what its pointers lead to. */
enum { JOB_FEED = 1, JOB_STOP, JOB_REGEX, JOB_MEMORY, JOB_VALUES = JOB_MEMORY };

static Feed *check_feed(lua_State *L) {
  Feed *f = check_object(L, 1, FEED_TYPE);
  if (!f->decoder) arg_error(L, 1, "the feed is closed");
  return f;
}

static int l_feed(lua_State *L) {
  static const char *const known[] = {"sequences", "max_prompt_tokens", "max_new_tokens", NULL};
  LuaModel *lm = check_lua_model(L, 1);
  const int context = model_config(lm->m)->max_position_embeddings;
  DecoderLimits l = {.max_sequences = 8, .max_prompt_tokens = 1024, .max_new_tokens = 256};
  lua_settop(L, 2);
  check_fields(L, 2, "feed", known);
  field_int(L, 2, "feed", "sequences", 1, MOST_SEQUENCES, &l.max_sequences);
  field_int(L, 2, "feed", "max_prompt_tokens", 1, 1 << 20, &l.max_prompt_tokens);
  field_int(L, 2, "feed", "max_new_tokens", 1, 1 << 20, &l.max_new_tokens);
  l.max_prompts = l.max_sequences;
  l.max_prompt_tokens = min_int(l.max_prompt_tokens, max_int(context - 1, 1));
  l.max_new_tokens = min_int(l.max_new_tokens, max_int(context - 1, 1));
  const Tokenizer *tok = push_model_tokenizer(L, 1);
  Feed *f = new_object(L, sizeof *f, 3);
  *f = (Feed){.sequences = l.max_sequences};
  luaL_setmetatable(L, FEED_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -2);
  lua_setiuservalue(L, -2, 2);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 3);
  want_ok(L, decoder_new(&f->decoder, lm->m, tok, &l));
  decoder_feed_open(f->decoder);
  return 1;
}

static int l_feed_close(lua_State *L) {
  Feed *f = luaL_testudata(L, 1, FEED_TYPE);
  if (!f) return 0;
  decoder_free(f->decoder);
  *f = (Feed){0};
  return 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* Pushes memory that the job keeps. */
static void *job_memory(lua_State *L, int list, size_t count, size_t size) {
  void *p = push_scratch(L, count, size);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
  return p;
}

static void job_completions(lua_State *L, Job *j, int top) {
  const size_t n = (size_t)j->request.n, most = (size_t)j->sampling.max_new_tokens;
  lua_newtable(L);
  const int list = lua_gettop(L);
  j->out = job_memory(L, list, n, sizeof *j->out);
  for (size_t k = 0; k < n; k++) {
    Completion *o = &j->out[k];
    o->ids = job_memory(L, list, most, sizeof *o->ids);
    o->logp = job_memory(L, list, most, sizeof *o->logp);
    o->top_n = top;
    if (!top) continue;
    o->top_ids = job_memory(L, list, most * (size_t)top, sizeof *o->top_ids);
    o->top_logp = job_memory(L, list, most * (size_t)top, sizeof *o->top_logp);
  }
}

static void read_key(lua_State *L, RngKey *key) {
  int step = 0, prompt = 0, sample = 0;
  field_seed(L, 3, "feed", "seed", &key->seed);
  field_int(L, 3, "feed", "step", 0, INT32_MAX, &step);
  field_int(L, 3, "feed", "prompt", 0, INT32_MAX, &prompt);
  field_int(L, 3, "feed", "sample", 0, INT32_MAX, &sample);
  key->stream = RNG_USER;
  key->step = (uint32_t)step;
  key->prompt = (uint32_t)prompt;
  key->sample = (uint32_t)sample;
}

/* Pushes a job for the prompt and the options at 2 and 3. */
static Job *push_job(lua_State *L) {
  static const char *const others[] = {"n",       "seed",         "step", "prompt",
                                       "sample",  "top_logprobs", "stop", "stop_regex",
                                       "grammar", "regex",        NULL};
  static const OptionSet *const sets[] = {&sampling_option_set, NULL};
  int top = 0;
  check_option_fields(L, 3, "feed", sets, others);
  Job *j = new_object(L, sizeof *j, JOB_VALUES);
  *j = (Job){.request = {.n = 1}};
  luaL_setmetatable(L, JOB_TYPE);
  const int job = lua_gettop(L);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, job, JOB_FEED);
  field_int(L, 3, "feed", "n", 1, 128, &j->request.n);
  field_int(L, 3, "feed", "top_logprobs", 0, MOST_TOP, &top);
  read_key(L, &j->request.key);
  sampling_init(&j->sampling);
  read_sampling(L, 3, "feed", &j->sampling);
  lua_setiuservalue(L, job, JOB_REGEX);
  lua_setiuservalue(L, job, JOB_STOP);
  IntBuf *ids = push_ints(L);
  check_ids(L, 2, "prompt", ids);
  j->request.prompt = ids->data;
  j->request.prompt_len = (int)ids->len;
  const int prompt = lua_gettop(L);
  lua_getiuservalue(L, 1, 1);
  top = min_int(top, model_config(check_model(L, -1))->vocab_size);
  job_completions(L, j, top);
  lua_pushvalue(L, prompt);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_setiuservalue(L, job, JOB_MEMORY);
  lua_settop(L, job);
  return j;
}

/* The feed keeps the job on top at a place, because the decoder has pointers into it; or forgets
 * it, for NULL. */
static void set_job(lua_State *L, Feed *f, int at, Job *j) {
  lua_getiuservalue(L, 1, 3);
  if (j)
    lua_pushvalue(L, -2);
  else
    lua_pushnil(L);
  lua_rawseti(L, -2, at + 1);
  lua_pop(L, 1);
  f->job[at] = j;
}

static int l_add(lua_State *L) {
  Feed *f = check_feed(L);
  bool taken = false;
  int at = 0;
  lua_settop(L, 3);
  while (at < f->sequences && f->job[at]) at++;
  if (at == f->sequences) return 0;
  Job *j = push_job(L);
  set_job(L, f, at, j); /* before the decoder has it, because it may raise */
  const Status s = decoder_feed_add(f->decoder, &j->request, &j->sampling, j->out, &taken);
  if (!taken) set_job(L, f, at, NULL);
  want_ok(L, s);
  return taken;
}

static bool job_is_over(const Job *j) {
  for (int k = 0; k < j->request.n; k++)
    if (!j->out[k].over) return false;
  return true;
}

static int l_step(lua_State *L) {
  Feed *f = check_feed(L);
  bool busy;
  const Status s = decoder_feed_step(f->decoder, &busy);
  for (int i = 0; i < f->sequences; i++)
    if (f->job[i] && (s != GRPO_OK || job_is_over(f->job[i]))) set_job(L, f, i, NULL);
  want_ok(L, s);
  lua_pushboolean(L, busy);
  return 1;
}

static int l_drop(lua_State *L) {
  Feed *f = check_feed(L);
  const Job *j = check_object(L, 2, JOB_TYPE);
  for (int i = 0; i < f->sequences; i++) {
    if (f->job[i] != j) continue;
    decoder_feed_drop(f->decoder, j->out);
    set_job(L, f, i, NULL);
  }
  return 0;
}

/* ---- what has been decoded ---------------------------------------------------------------- */

static const Completion *check_completion(lua_State *L) {
  const Job *j = check_object(L, 1, JOB_TYPE);
  if (!j->out) arg_error(L, 1, "the job was not made whole");
  return &j->out[check_integer(L, 2, 1, j->request.n) - 1];
}

static int l_length(lua_State *L) { return give_integer(L, check_completion(L)->len); }

static int l_finish(lua_State *L) {
  const Completion *o = check_completion(L);
  return o->over ? give_string(L, finish_name(o->finish)) : 0;
}

static int l_token(lua_State *L) {
  const Completion *o = check_completion(L);
  const lua_Integer i = check_integer(L, 3, 1, o->len);
  lua_pushinteger(L, o->ids[i - 1]);
  lua_pushnumber(L, (double)o->logp[i - 1]);
  return 2;
}

static int l_top(lua_State *L) {
  const Completion *o = check_completion(L);
  const size_t at = (size_t)(check_integer(L, 3, 1, o->len) - 1) * (size_t)o->top_n;
  if (!o->top_n) return 0;
  push_ids(L, o->top_ids + at, (size_t)o->top_n);
  push_floats(L, o->top_logp + at, o->top_n);
  return 2;
}

EXTENSION_PART(feed) {
  static const luaL_Reg functions[] = {FN(feed), {NULL, NULL}};
  static const luaL_Reg feed[] = {
      FN(add), FN(step), FN(drop), {"close", l_feed_close}, {NULL, NULL}};
  static const luaL_Reg feed_meta[] = {
      {"__gc", l_feed_close}, {"__close", l_feed_close}, {NULL, NULL}};
  static const luaL_Reg job[] = {FN(length), FN(finish), FN(token), FN(top), {NULL, NULL}};
  static const luaL_Reg job_meta[] = {{NULL, NULL}};
  make_type(L, FEED_TYPE, feed_meta, feed);
  make_type(L, JOB_TYPE, job_meta, job);
  luaL_setfuncs(L, functions, 0);
}

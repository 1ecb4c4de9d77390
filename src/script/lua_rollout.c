/* lua_rollout.c - methods of an engine: rollout, replace, reference. */
#include <limits.h>
#include <string.h>

#include "rl/given.h"
#include "rl/reference.h"
#include "rl/rollout.h"
#include "script/interrupt.h"
#include "script/lua_batch.h"
#include "script/lua_engine.h"
#include "script/read_sampling.h"

/* ---- prompts ------------------------------------------------------------------------ */

/* Reads the field `targets`: for each of the n prompts a list of ids, or false. */
static void add_targets(lua_State *L, int options, int n, Prompt *p, IntBuf *ids) {
  const int type = lua_getfield(L, options, "targets");
  if (type != LUA_TNIL && (type != LUA_TTABLE || (int)lua_rawlen(L, -1) != n))
    raise_new(L, GRPO_EARG, "rollout.targets: a list of %d lists of ids expected, one per prompt",
              n);
  for (int i = 0; type == LUA_TTABLE && i < n; i++) {
    const size_t before = ids->len;
    lua_rawgeti(L, -1, i + 1);
    if (lua_toboolean(L, -1)) check_ids(L, -1, "rollout.targets", ids);
    p[i].target_len = (int)(ids->len - before);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Pushes the prompts of the list of lists of ids at `list`.  The fields `index` and `targets` of
 * the options hold their numbers and targets. */
static Prompt *push_prompts(lua_State *L, int list, int options, int *n, IntBuf **store) {
  int count = 0;
  if (!lua_istable(L, list))
    raise_new(L, GRPO_EARG, "rollout.prompts: a list of lists of ids expected, got %s",
              luaL_typename(L, list));
  *n = (int)lua_rawlen(L, list);
  Prompt *p = push_scratch(L, (size_t)*n, sizeof *p);
  IntBuf *ids = *store = push_ints(L);
  for (int i = 0; i < *n; i++) {
    const size_t before = ids->len;
    lua_rawgeti(L, list, i + 1);
    check_ids(L, -1, "rollout.prompts", ids);
    p[i] = (Prompt){.len = (int)(ids->len - before), .index = (uint32_t)i};
    lua_pop(L, 1);
  }
  add_targets(L, options, *n, p, ids);
  int at = 0;
  for (int i = 0; i < *n; at += p[i++].len) p[i].ids = ids->data + at;
  for (int i = 0; i < *n; at += p[i++].target_len) p[i].target = ids->data + at;
  lua_getfield(L, options, "index");
  const double *numbers = lua_isnil(L, -1) ? NULL : push_numbers(L, -1, "rollout.index", &count);
  if (numbers && count != *n)
    raise_new(L, GRPO_EARG, "rollout.index: %d numbers for %d prompts", count, *n);
  for (int i = 0; numbers && i < *n; i++) {
    if (!(numbers[i] >= 0 && numbers[i] <= UINT32_MAX))
      raise_new(L, GRPO_EARG, "rollout.index[%d]: a whole number from 0 to %u expected", i + 1,
                UINT32_MAX);
    p[i].index = (uint32_t)numbers[i];
  }
  return p;
}

/* ---- turns -------------------------------------------------------------------------- */

/* on_turn(prompt, sample, ids, finish, first) -> nil | list of ids
 *
 * prompt and sample are numbers in this call, from 1; ids are the turn's; finish is "eos" or
 * "stop"; first is the position of ids[1] in the completion.  nil ends the completion; a list is
 * injected into it.  An error ends the rollout. */

typedef struct LuaTurns {
  EngineCall *call;
  int function; /* stack index */
  IntBuf ids;   /* of a reply, in scratch memory as long as a completion */
} LuaTurns;

typedef struct TurnCall {
  const Completion *c;
  int first;
  IntBuf *ids;
  Reply *reply;
} TurnCall;

/* (function, call) */
static int protected_turn(lua_State *L) {
  const TurnCall *t = lua_touserdata(L, 2);
  const Completion *c = t->c;
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, c->request + 1);
  lua_pushinteger(L, c->sample + 1);
  push_ids(L, c->ids + t->first, (size_t)(c->len - t->first));
  lua_pushstring(L, finish_name(c->finish));
  lua_pushinteger(L, t->first + 1);
  lua_call(L, 5, 1);
  if (lua_isnil(L, -1)) return 0;
  intbuf_clear(t->ids);
  /* The decoder injects no list that is too long, so we do not read it. */
  const bool fits = !lua_istable(L, -1) || lua_rawlen(L, -1) <= t->ids->cap;
  if (fits) check_ids(L, -1, "rollout.on_turn", t->ids);
  *t->reply = (Reply){
      .continues = true, .ids = t->ids->data, .n = fits ? (int)t->ids->len : (int)t->ids->cap};
  return 0;
}

static Status on_turn(void *user, const Completion *c, int first, Reply *reply) {
  LuaTurns *t = user;
  lua_State *L = t->call->L;
  TurnCall call = {c, first, &t->ids, reply};
  luaL_checkstack(L, 8, "on_turn");
  lua_pushcfunction(L, protected_turn);
  lua_pushvalue(L, t->function);
  lua_pushlightuserdata(L, &call);
  return call_protected(L, 2, 0) ? GRPO_OK : engine_call_fail(t->call, "rollout.on_turn");
}

/* Reads on_turn of the table at index `options` into o; leaves values on the stack. */
static void read_turns(EngineCall *call, int options, RolloutOptions *o, LuaTurns *t) {
  lua_State *L = call->L;
  *t = (LuaTurns){.call = call};
  if (lua_getfield(L, options, "on_turn") == LUA_TNIL) return;
  if (!lua_isfunction(L, -1))
    raise_new(L, GRPO_EARG, "rollout.on_turn: a function expected, got %s", luaL_typename(L, -1));
  t->function = lua_gettop(L);
  t->ids.cap = (size_t)o->sampling.max_new_tokens;
  t->ids.data = push_scratch(L, t->ids.cap, sizeof *t->ids.data);
  o->on_turn = on_turn;
  o->on_turn_user = t;
}

/* ---- the methods -------------------------------------------------------------------- */

static void check_rollout(lua_State *L, int options, const Engine *e, RolloutOptions *o,
                          BatchSlot *slot) {
  static const char *const known[] = {"prompts", "n",     "before",  "sampling", "seed", "step",
                                      "stream",  "index", "on_turn", "targets",  NULL};
  static const char *const streams[] = {"sample", "eval", NULL};
  int step = 0, before = 0, stream = *slot;
  check_fields(L, options, "rollout", known);
  *o = (RolloutOptions){.group = engine_options(e)->group_size};
  sampling_init(&o->sampling);
  o->sampling.max_new_tokens = engine_options(e)->max_new_tokens;
  lua_getfield(L, options, "sampling"); /* it stays on the stack, because o uses its strings */
  if (!lua_isnil(L, -1)) check_sampling(L, lua_gettop(L), "sampling", &o->sampling);
  field_int(L, options, "rollout", "n", 1, 1 << 20, &o->group);
  field_int(L, options, "rollout", "before", 0, 1 << 20, &before);
  field_seed(L, options, "rollout", "seed", &o->seed);
  field_int(L, options, "rollout", "step", 0, INT32_MAX, &step);
  field_choice(L, options, "rollout", "stream", streams, &stream);
  o->step = (uint32_t)step;
  o->before = (uint32_t)before;
  o->cancel = &script_cancel;
  *slot = (BatchSlot)stream;
}

/* engine:rollout({ prompts=, n=, before=, sampling=, seed=, step=, stream=, index=, targets=,
 * on_turn= }) -> batch */
static int l_rollout(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  RolloutOptions o;
  BatchSlot slot = BATCH_SAMPLE;
  int n;
  check_table(L, 2);
  lua_settop(L, 2);
  check_rollout(L, 2, call.engine, &o, &slot);
  lua_getfield(L, 2, "prompts");
  const Prompt *p = push_prompts(L, lua_gettop(L), 2, &n, &call.ids);
  LuaTurns turns;
  read_turns(&call, 2, &o, &turns);
  ENGINE_CALL(&call, engine_rollout(call.engine, slot, n, p, &o));
  push_batch(L, 1, slot);
  return 1;
}

/* Pushes the slots of the list at index, which counts from 1. */
static int *push_slots(lua_State *L, int index, const char *what, int *n) {
  const double *numbers = push_numbers(L, index, what, n);
  int *slots = push_scratch(L, (size_t)*n, sizeof *slots);
  for (int i = 0; i < *n; i++)
    slots[i] = numbers[i] >= 1 && numbers[i] <= INT_MAX ? (int)numbers[i] - 1 : -1;
  return slots;
}

/* engine:replace(batch, slots, prompts, options): slots count from 1 */
static int l_replace(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  RolloutOptions o;
  BatchSlot slot, given;
  LuaTurns turns;
  int n, count;
  check_batch(L, 2, &slot);
  lua_settop(L, 5);
  check_table(L, 5);
  given = slot;
  check_rollout(L, 5, call.engine, &o, &given);
  if (given != slot) raise_new(L, GRPO_EARG, "replace.stream: the batch is of another stream");
  const int *slots = push_slots(L, 3, "replace.slots", &count);
  const Prompt *prompts = push_prompts(L, 4, 5, &n, &call.ids);
  if (n != count) raise_new(L, GRPO_EARG, "replace: %d slots for %d prompts", count, n);
  read_turns(&call, 5, &o, &turns);
  ENGINE_CALL(&call, engine_replace(call.engine, slot, n, slots, prompts, &o));
  return 0;
}

/* engine:reference(batch) */
static int l_reference(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  Batch *b = check_batch(L, 2, NULL);
  ENGINE_CALL(&call, engine_reference(call.engine, b));
  return 0;
}

/* engine:reference_prompts(batch, list): what the reference reads before each completion, a list of
 * ids in place of the prompt, or false: it does not measure that completion */
static int l_reference_prompts(lua_State *L) {
  Batch *b = check_batch(L, 2, NULL);
  check_engine(L, 1);
  if (!lua_istable(L, 3) || (int)lua_rawlen(L, 3) != batch_size(b))
    raise_new(L, GRPO_EARG, "reference_prompts: a list of %d lists of ids or false expected",
              batch_size(b));
  IntBuf *ids = push_ints(L);
  for (int i = 0; i < batch_size(b); i++) {
    intbuf_clear(ids);
    lua_rawgeti(L, 3, i + 1);
    if (lua_toboolean(L, -1)) check_ids(L, -1, "reference_prompts", ids);
    want_ok(L, batch_set_ref_prompt(b, i, ids->data, (int)ids->len));
    lua_pop(L, 1);
  }
  b->has_ref_prompts = true;
  keep_ints(L, ids);
  return 0;
}

/* ---- texts that were not sampled here ------------------------------------------------------- */

static Finish given_finish(lua_State *L, int options, int i) {
  const int type = lua_getfield(L, options, "finish");
  if (type == LUA_TTABLE) lua_rawgeti(L, -1, i + 1);
  const char *word = type == LUA_TTABLE ? lua_tostring(L, -1) : "eos";
  for (int f = FINISH_EOS; word && f <= FINISH_LENGTH; f++)
    if (strcmp(word, finish_name((Finish)f)) == 0) return lua_pop(L, type == LUA_TTABLE ? 2 : 1), f;
  return raise_new(L, GRPO_EARG, "given.finish[%d]: \"eos\", \"stop\" or \"length\" expected",
                   i + 1);
}

/* Pushes the n texts of the field `completions`, each a list of ids. */
static GivenText *push_texts(lua_State *L, int options, int n, IntBuf **store) {
  GivenText *text = push_scratch(L, (size_t)n, sizeof *text);
  IntBuf *ids = *store = push_ints(L);
  lua_getfield(L, options, "completions");
  if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != n)
    raise_new(L, GRPO_EARG, "given.completions: a list of %d lists of ids expected, n per prompt",
              n);
  const int list = lua_gettop(L);
  for (int i = 0; i < n; i++) {
    const size_t before = ids->len;
    lua_rawgeti(L, list, i + 1);
    check_ids(L, -1, "given.completions", ids);
    lua_pop(L, 1);
    text[i] = (GivenText){.len = (int)(ids->len - before), .finish = given_finish(L, options, i)};
  }
  for (int i = 0, at = 0; i < n; at += text[i++].len) text[i].ids = ids->data + at;
  return text;
}

/* Pushes the numbers of the field `logprobs`, a list for each text; NULL: there is none. */
static float *push_logprobs(lua_State *L, int options, const Engine *e, const GivenText *text,
                            int n) {
  const int width = engine_options(e)->max_new_tokens;
  if (lua_getfield(L, options, "logprobs") == LUA_TNIL) return NULL;
  check_table(L, -1);
  const int list = lua_gettop(L);
  float *logp = push_scratch(L, (size_t)n * (size_t)width, sizeof *logp);
  for (int i = 0, count; i < n; i++) {
    lua_rawgeti(L, list, i + 1);
    const double *numbers = push_numbers(L, -1, "given.logprobs", &count);
    if (count != text[i].len || count > width)
      raise_new(L, GRPO_EARG, "given.logprobs[%d]: %d numbers for %d tokens", i + 1, count,
                text[i].len);
    for (int t = 0; t < count; t++) logp[i * width + t] = (float)numbers[t];
    lua_pop(L, 2);
  }
  return logp;
}

/* Reads the field `sampled`: for each text a list of booleans, false for a token that no model has
 * sampled, or false: all are sampled. */
static void read_sampled(lua_State *L, int options, GivenText *text, int n) {
  if (lua_getfield(L, options, "sampled") == LUA_TNIL) return;
  check_table(L, -1);
  const int list = lua_gettop(L);
  luaL_checkstack(L, n + 4, "given");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, list, i + 1);
    const int tokens = lua_gettop(L);
    if (!lua_toboolean(L, tokens)) continue;
    if (!lua_istable(L, tokens) || (int)lua_rawlen(L, tokens) != text[i].len)
      raise_new(L, GRPO_EARG, "given.sampled[%d]: a list of %d booleans expected", i + 1,
                text[i].len);
    uint8_t *sampled = push_scratch(L, (size_t)text[i].len, sizeof *sampled);
    for (int t = 0; t < text[i].len; t++) {
      lua_rawgeti(L, tokens, t + 1);
      sampled[t] = (uint8_t)lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
    text[i].sampled = sampled;
    lua_replace(L, tokens); /* one value of the stack for each text */
  }
}

/* engine:given({ prompts=, completions=, n=, temperature=, logprobs=, sampled=, finish=, stream= })
 * -> batch
 *
 * The batch that a rollout would have left, had it sampled these ids: n completions of each prompt,
 * prompt after prompt.  Without logprobs the policy computes them. */
static int l_given(lua_State *L) {
  static const char *const known[] = {"prompts", "completions", "n",      "temperature", "logprobs",
                                      "sampled", "finish",      "stream", NULL};
  static const char *const streams[] = {"sample", "eval", NULL};
  EngineCall call = engine_call_begin(L);
  GivenOptions o = {.group = engine_options(call.engine)->group_size, .temperature = 1};
  int n, stream = BATCH_SAMPLE;
  IntBuf *text_ids;
  check_table(L, 2);
  lua_settop(L, 2);
  check_fields(L, 2, "given", known);
  field_int(L, 2, "given", "n", 1, 1 << 16, &o.group);
  field_number(L, 2, "given", "temperature", 0, 100, &o.temperature);
  field_choice(L, 2, "given", "stream", streams, &stream);
  lua_getfield(L, 2, "prompts");
  const Prompt *prompts = push_prompts(L, lua_gettop(L), 2, &n, &call.ids);
  if (n > INT_MAX / (1 << 16)) raise_new(L, GRPO_EARG, "given: %d prompts are too many", n);
  GivenText *text = push_texts(L, 2, n * o.group, &text_ids);
  read_sampled(L, 2, text, n * o.group);
  o.logp = push_logprobs(L, 2, call.engine, text, n * o.group);
  ENGINE_CALL(&call, engine_batch_given(call.engine, (BatchSlot)stream, n, prompts, text, &o));
  keep_ints(L, text_ids);
  push_batch(L, 1, (BatchSlot)stream);
  return 1;
}

CORE_METHODS(rollout, ENGINE_TYPE, FN(rollout), FN(replace), FN(reference), FN(reference_prompts),
             FN(given))

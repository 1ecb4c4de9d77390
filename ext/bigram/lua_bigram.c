/* lua_bigram.c - core.bigram: a bigram model counted from token ids, as a reference of
 * core.engine. */
#include "bigram/bigram.h"
#include "script/binding.h"
#include "script/reference_type.h"

#define BIGRAM_TYPE "grpo.Bigram"

static Bigram *check_bigram(lua_State *L, int arg) {
  Bigram *b = check_handle(L, arg, BIGRAM_TYPE, "the bigram is closed");
  want_ok(L, bigram_update(b));
  return b;
}

/* bigram(vocab) -> b, which has counted nothing yet */
static int l_bigram(lua_State *L) {
  const int vocab = (int)check_integer(L, 1, 1, INT32_MAX);
  want_ok(L, bigram_new(new_handle(L, BIGRAM_TYPE), vocab));
  return 1;
}

/* b:count(ids) -> b; counts the pairs of neighbours in a list of ids */
static int l_count(lua_State *L) {
  Bigram *b = check_handle(L, 1, BIGRAM_TYPE, "the bigram is closed");
  IntBuf *ids = push_ints(L);
  check_ids(L, 2, "bigram.ids", ids);
  const Status s = bigram_count(b, ids->len, ids->data);
  keep_ints(L, ids);
  want_ok(L, s);
  lua_settop(L, 1);
  return 1;
}

/* b:logprobs(id) -> log P(next | id) for every token */
static int l_logprobs(lua_State *L) {
  const Bigram *b = check_bigram(L, 1);
  const int v = bigram_vocab(b), id = (int)check_integer(L, 2, 0, v - 1);
  real *row = push_scratch(L, (size_t)v, sizeof *row);
  bigram_row(b, id, row);
  push_floats(L, row, v);
  return 1;
}

static int l_gc(lua_State *L) {
  bigram_free(take_handle(L, 1, BIGRAM_TYPE));
  return 0;
}

static int l_tostring(lua_State *L) {
  const Bigram *b = check_handle(L, 1, BIGRAM_TYPE, "the bigram is closed");
  lua_pushfstring(L, "bigram of %d tokens", bigram_vocab(b));
  return 1;
}

/* ---- the reference of an engine ---------------------------------------------------------- */

static void fill_row(const void *b, int32_t prev, real *logits) { bigram_row(b, prev, logits); }
static size_t bytes(const void *b) { return bigram_bytes(b); }
static void retain(void *b) { bigram_retain(b); }
static void release(void *b) { bigram_free(b); }

static ReferenceSource source_of(lua_State *L, int arg) {
  Bigram *b = check_bigram(L, arg);
  return (ReferenceSource){b, bigram_vocab(b), fill_row, bytes, retain, release};
}

EXTENSION(bigram_reference) {
  static ReferenceType type = {.name = BIGRAM_TYPE, .check = source_of};
  reference_type_add(&type);
}

EXTENSION_PART(bigram) {
  static const luaL_Reg methods[] = {FN(count), FN(logprobs), {NULL, NULL}};
  static const luaL_Reg meta[] = {META(gc), META(tostring), {NULL, NULL}};
  make_type(L, BIGRAM_TYPE, meta, methods);
  lua_pushcfunction(L, l_bigram);
  lua_setfield(L, -2, "bigram");
}

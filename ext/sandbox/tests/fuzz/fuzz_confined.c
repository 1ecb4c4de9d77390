/* fuzz_confined.c - any bytes as the answer of a sandbox's process, which the code in it may have
 * taken over.  They are refused with one line, or give two texts that lie within the answer.
 *
 * The file is included, because the reader of answers is nobody else's business. */
#include "sandbox/lua_sandbox.c"

#include "fuzz.h"
#include "script/core.h"

static int protected_read(lua_State *L) {
  const Buf *b = lua_touserdata(L, 1);
  size_t result, output;
  FUZZ_CHECK(push_answer(L, b, true) == 3);
  lua_tolstring(L, -2, &result);
  lua_tolstring(L, -1, &output);
  FUZZ_CHECK(result <= b->len && output <= b->len - result);
  lua_settop(L, 0);
  return 0;
}

static void check(lua_State *L, Buf *b) {
  lua_pushcfunction(L, protected_read);
  lua_pushlightuserdata(L, b);
  if (!call_protected(L, 1, 0)) {
    const char *text = luaL_tolstring(L, -1, NULL);
    FUZZ_CHECK(strncmp(text, "sandbox: ", 9) == 0 && !strchr(text, '\n'));
  }
  lua_settop(L, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Script *s;
  Buf b = {0};
  if (!s) FUZZ_CHECK(script_open(&s, embedded_files, open_core) == GRPO_OK);
  buf_put(&b, data, size);
  FUZZ_CHECK(buf_status(&b) == GRPO_OK);
  check(script_state(s), &b);
  if (size >= sizeof(Answer)) { /* once more with sizes that fit */
    Answer a;
    memcpy(&a, b.data, sizeof a);
    const size_t rest = size - sizeof a;
    a.result = rest ? a.result % (rest + 1) : 0;
    a.output = rest - a.result;
    memcpy(b.data, &a, sizeof a);
    check(script_state(s), &b);
  }
  buf_free(&b);
  return 0;
}

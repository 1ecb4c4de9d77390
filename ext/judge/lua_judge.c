/* lua_judge.c - what grpo.judge needs of C.
 *
 *   core.judge_key(text) -> 32 digits that stand for the text
 *   core.judge_timed(f, ...) -> what f returns; its time does not count for the limited call around
 */
#include "base/clock.h"
#include "base/digest.h"
#include "script/binding.h"

enum { KEY_DIGITS = 32 };

static int l_judge_key(lua_State *L) {
  char hex[DIGEST_HEX_BYTES];
  size_t n;
  const char *text = check_string(L, 1, &n);
  Digest d;
  charge_work(L, n / 16);
  digest_begin(&d, DIGEST_SHA256);
  digest_put(&d, text, n);
  digest_end(&d, hex);
  lua_pushlstring(L, hex, KEY_DIGITS);
  return 1;
}

static int l_judge_timed(lua_State *L) {
  const double started = clock_seconds();
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  excuse_time(L, clock_seconds() - started);
  return lua_gettop(L);
}

EXTENSION_PART(judge) {
  static const luaL_Reg functions[] = {FN(judge_key), FN(judge_timed), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}

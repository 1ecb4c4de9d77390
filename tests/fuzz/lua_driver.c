/* lua_driver.c - runs the targets that are written in Lua.
 *
 * tests/fuzz/lua/NAME.lua, here or in an extension, returns a function of the input, which raises
 * an error if a property does not hold.  The program is called fuzz_NAME, and runs in the root of
 * the source tree.  Lines of Lua that run are told to libFuzzer as coverage, which C's alone would
 * not show.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "lua_lines.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/lua_vm.h"

static const char setup[] = "package.path = 'tests/fuzz/?.lua;' .. package.path\n"
                            "return assert(loadfile(...))()";

/* Pushes the path of the target NAME. */
static void push_place(lua_State *L, const char *name) {
  glob_t found;
  lua_pushfstring(L, "{tests,ext/*/tests}/fuzz/lua/%s.lua", name);
  FUZZ_CHECK(glob(lua_tostring(L, -1), GLOB_BRACE, NULL, &found) == 0);
  lua_pop(L, 1);
  lua_pushstring(L, found.gl_pathv[0]);
  globfree(&found);
}

static void stop(lua_State *L) {
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, luaL_tolstring(L, -1, NULL));
  abort();
}

/* The state lives as long as the process; the target's function is at index 1. */
static lua_State *state(void) {
  static Script *script;
  if (script) return script_state(script);
  const char *name = strchr(program_invocation_short_name, '_');
  FUZZ_CHECK(name && script_open(&script, embedded_files, open_core) == GRPO_OK);
  lua_State *L = script_state(script);
  lua_settop(L, 0);
  FUZZ_CHECK(luaL_loadstring(L, setup) == LUA_OK);
  push_place(L, name + 1);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) stop(L);
  FUZZ_CHECK(lua_isfunction(L, 1));
  count_lines(L);
  return L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lua_State *L = state();
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, size);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) stop(L);
  return 0;
}

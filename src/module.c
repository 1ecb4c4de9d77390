/* module.c - grpo.so, the engine inside a stock Lua 5.4.
 *
 * `require "grpo"` attaches the engine to the host's state and runs the same embedded Lua half as
 * the program.  From then on `require "grpo.NAME"` and `require "rewards.NAME"` find their modules
 * too.  grpo.so uses the host's Lua library and is not linked against one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kern/dispatch.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/foreign_vm.h"
#include "script/modules.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int luaopen_grpo(lua_State *L);
EXPORT int luaopen_grpo_core(lua_State *L);

static void print_notice(void *user, LogLevel level, const char *message) {
  (void)user;
  fprintf(stderr, level == LOG_WARNING ? "grpo: warning: %s\n" : "grpo: %s\n", message);
}

static void attach(lua_State *L) {
  luaL_checkversion(L);
  if (getenv("GRPO_CPU") && kern_select(NULL) != GRPO_OK) luaL_error(L, "%s", err_message());
  log_set_sink(print_notice, NULL);
  script_attach(L, embedded_files, open_core);
}

int luaopen_grpo_core(lua_State *L) {
  attach(L);
  return open_core(L);
}

/* (name, file) -> the module grpo; like every module of the Lua half it is called with its name and
 * its path there. */
int luaopen_grpo(lua_State *L) {
  attach(L);
  lua_settop(L, 1);
  script_push_module(L, "grpo"); /* loader path */
  lua_pushvalue(L, 1);
  lua_insert(L, -2);
  lua_call(L, 2, 1);
  return 1;
}

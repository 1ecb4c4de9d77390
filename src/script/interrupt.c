#include "script/interrupt.h"

#include <lauxlib.h>
#include <stddef.h>

#include "script/errors.h"

static lua_State *volatile running; /* the thread that Ctrl-C stops; NULL: it stops sampling only */
static volatile sig_atomic_t held;  /* depth of interrupt_hold */
volatile int script_cancel, script_interrupted, script_open_line;

static void stop_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!script_interrupted) { /* a later line resumes a coroutine that was stopped */
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  luaL_checkstack(L, 8, "error");
  raise_new(L, GRPO_ESCRIPT, "interrupted");
}

/* We set no hook on calls, because it would interrupt the message handler of our own error. */
static void stop(lua_State *L) { lua_sethook(L, stop_hook, LUA_MASKCOUNT, 1); }

void interrupt_begin(lua_State *L) {
  script_cancel = script_interrupted = 0;
  held = 0;
  running = L;
}

void interrupt_end(lua_State *L) {
  running = NULL;
  lua_sethook(L, NULL, 0, 0);
}

lua_State *interrupt_running(void) { return running; }

void interrupt_signal(void) {
  script_cancel = 1;
  if (!running) return;
  script_interrupted = 1;
  if (!held) stop(running);
}

lua_State *interrupt_target(lua_State *L) {
  lua_State *outer = running;
  if (!outer) return NULL;
  running = L;
  if (script_interrupted && !held) stop(L);
  return outer;
}

void interrupt_hold(void) { held++; }

bool interrupt_release(void) {
  held--;
  if (script_interrupted && !held) stop(running);
  return script_interrupted != 0;
}

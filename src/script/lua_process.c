/* lua_process.c - core.process: running in the background, and signals to other processes.
 *
 *   detach() -> true, ready      in the child:  ready(log, line) -> true | nil, message, code
 *   detach() -> false, wait      in the parent: wait() -> line, or nil, exit status of the child
 *   sleep(seconds)               ends early if a signal comes
 *   kill(pid, "TERM" | "KILL", path) -> true | nil, message, code
 *                                if the process has the file `path` open; ENOENT: it has not
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "os/detach.h"
#include "os/holder.h"
#include "script/binding.h"
#include "script/interrupt.h"
#include "script/script_impl.h"

enum { LINE = 4096 };

static int l_ready(lua_State *L) {
  Detached *d = lua_touserdata(L, lua_upvalueindex(1));
  const char *log = check_string(L, 1, NULL), *line = check_string(L, 2, NULL);
  const Status s = detach_ready(d, log, line);
  if (s) return push_failure(L, s);
  lua_pushboolean(L, 1);
  return 1;
}

static int l_wait(lua_State *L) {
  Detached *d = lua_touserdata(L, lua_upvalueindex(1));
  char line[LINE];
  int exited;
  const Status s = detach_wait(d, line, LINE, &script_cancel, &exited);
  if (s) return push_failure(L, s);
  if (exited < 0) {
    lua_pushstring(L, line);
    return 1;
  }
  lua_pushnil(L);
  lua_pushinteger(L, exited);
  return 2;
}

static int l_detach(lua_State *L) {
  if (script_of(L)->pool)
    return raise_new(L, GRPO_EARG, "detach: a process whose threads are running cannot be forked");
  Detached *d = lua_newuserdatauv(L, sizeof *d, 0);
  const Status s = detach_fork(d);
  if (s) return push_failure(L, s);
  lua_pushcclosure(L, d->child ? l_ready : l_wait, 1);
  lua_pushboolean(L, d->child);
  lua_insert(L, -2);
  return 2;
}

static int l_sleep(lua_State *L) {
  const double seconds = check_number(L, 1);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 1, "want 0 to 3600 seconds");
  const time_t whole = (time_t)seconds;
  const struct timespec t = {whole, (long)(1e9 * (seconds - (double)whole))};
  nanosleep(&t, NULL);
  return 0;
}

static int l_kill(lua_State *L) {
  static const struct {
    const char *name;
    int number;
  } signals[] = {{"TERM", SIGTERM}, {"KILL", SIGKILL}};
  const int pid = (int)check_integer(L, 1, 2, 1 << 30);
  const char *name = check_string(L, 2, NULL), *path = check_string(L, 3, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    if (strcmp(name, signals[i].name) != 0) continue;
    const Status s = holder_signal(pid, signals[i].number, path);
    if (s) return push_failure(L, s);
    lua_pushboolean(L, 1);
    return 1;
  }
  return arg_error(L, 2, "unknown signal '%s'", name);
}

CORE_PART(process) {
  static const luaL_Reg functions[] = {FN(detach), FN(kill), FN(sleep), {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "process");
}

/* lua_process.c - core.process: running in the background, and signals to other processes.
 *
 *   detach() -> true, ready      in the child:  ready(log, line) -> true | nil, message, code
 *   detach() -> false, wait      in the parent: wait() -> line, or nil, exit status of the child
 *   sleep(seconds)               ends early if a signal comes; does not count for the limited call
 *   kill(pid, "TERM" | "KILL", path) -> true | nil, message, code
 *                                if the process has the file `path` open; ENOENT: it has not
 *   start(words, output, shared) -> child | nil, message, code
 *                                a program (os/child.h); words[1] is its path, shared may be nil
 *     child:poll() -> exit status, or nil while it lives
 *     child:signal("TERM" | "KILL")
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "os/child.h"
#include "os/detach.h"
#include "os/holder.h"
#include "script/binding.h"
#include "script/interrupt.h"
#include "script/script_impl.h"

#define CHILD_TYPE "grpo.Child"

enum { LINE = 4096 };

static int l_ready(lua_State *L) {
  Detached *d = lua_touserdata(L, lua_upvalueindex(1));
  const char *log = check_string(L, 1, NULL), *line = check_string(L, 2, NULL);
  return give_done(L, detach_ready(d, log, line));
}

static int l_wait(lua_State *L) {
  Detached *d = lua_touserdata(L, lua_upvalueindex(1));
  char line[LINE];
  int exited;
  const Status s = detach_wait(d, line, LINE, &script_cancel, &exited);
  if (s) return push_failure(L, s);
  if (exited < 0) return give_string(L, line);
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
  const double started = clock_seconds();
  nanosleep(&t, NULL);
  excuse_time(L, clock_seconds() - started);
  return 0;
}

/* The number of the signal that an argument names. */
static int check_signal(lua_State *L, int arg) {
  const char *name = check_string(L, arg, NULL);
  if (strcmp(name, "TERM") == 0) return SIGTERM;
  if (strcmp(name, "KILL") == 0) return SIGKILL;
  return arg_error(L, arg, "unknown signal '%s'", name);
}

static int l_kill(lua_State *L) {
  const int pid = (int)check_integer(L, 1, 2, 1 << 30), number = check_signal(L, 2);
  return give_done(L, holder_signal(pid, number, check_string(L, 3, NULL)));
}

static int l_start(lua_State *L) {
  check_table(L, 1);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  const char *output = check_string(L, 2, NULL);
  const char *shared = lua_isnoneornil(L, 3) ? NULL : check_string(L, 3, NULL);
  char **words = push_scratch(L, (size_t)n + 1, sizeof *words);
  luaL_checkstack(L, (int)n + 8, "too many words"); /* the strings stay on the stack */
  for (lua_Integer i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    words[i] = (char *)(uintptr_t)check_string(L, -1, NULL);
  }
  if (n == 0) return arg_error(L, 1, "want the path of a program");
  Child *c = lua_newuserdatauv(L, sizeof *c, 0);
  luaL_setmetatable(L, CHILD_TYPE);
  const Status s = child_start(c, words, output, shared);
  return s ? push_failure(L, s) : 1;
}

static int l_child_poll(lua_State *L) {
  const int status = child_poll(check_object(L, 1, CHILD_TYPE));
  if (status < 0) return 0;
  return give_integer(L, status);
}

static int l_child_signal(lua_State *L) {
  child_signal(check_object(L, 1, CHILD_TYPE), check_signal(L, 2));
  return 0;
}

CORE_PART(process) {
  static const luaL_Reg functions[] = {FN(detach), FN(kill), FN(sleep), FN(start), {NULL, NULL}};
  static const luaL_Reg meta[] = {{NULL, NULL}};
  static const luaL_Reg child[] = {
      {"poll", l_child_poll}, {"signal", l_child_signal}, {NULL, NULL}};
  make_type(L, CHILD_TYPE, meta, child);
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "process");
}

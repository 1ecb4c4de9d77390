/* main.c - starts a Lua state and calls grpo.commands' main, whose result is the exit status.
 *
 * An error that reaches this file is printed in one line; with --trace Lua's traceback follows.
 */
#include <fcntl.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "kern/dispatch.h"
#include "os/comm.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/environment.h"
#include "script/interrupt.h"
#include "script/lua_vm.h"

static void print_notice(void *user, LogLevel level, const char *message) {
  (void)user;
  if (comm_rank() > 0) return; /* rank 0 prints it */
  if (script_open_line) fputs("\r\033[J", stderr);
  fprintf(stderr, level == LOG_WARNING ? "grpo: warning: %s\n" : "grpo: %s\n", message);
}

/* The modules in C that a program has beside grpo.core; only programs of bench/ have any. */
extern const luaL_Reg program_modules[] __attribute__((weak));

static void preload_modules(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  if (program_modules) luaL_setfuncs(L, program_modules, 0);
  lua_pop(L, 1);
}

/* Sets the global `arg` as lua.c does: arg[0] is the program, arg[1] its first argument. */
static void set_arguments(lua_State *L, int argc, char **argv) {
  lua_createtable(L, argc, 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_setglobal(L, "arg");
}

typedef struct Run {
  int argc;
  char **argv;
  int status;  /* of the process */
  bool failed; /* the command ended with an error that it did not report itself */
} Run;

/* (Run) -> exit status */
static int protected_run(lua_State *L) {
  const Run *r = lua_touserdata(L, 1);
  const int argc = r->argc;
  char **argv = r->argv;
  preload_modules(L);
  set_arguments(L, argc, argv);
  push_module(L, "grpo.commands");
  lua_getfield(L, -1, "main");
  lua_createtable(L, argc - 1, 0);
  for (int i = 1; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_call(L, 1, 1);
  return 1;
}

static bool wants_trace(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--trace") == 0) return true;
  return false;
}

static int status_of(lua_State *L, int error) {
  push_module(L, "grpo.core"); /* core.status_exit(error) */
  lua_getfield(L, -1, "status_exit");
  lua_pushvalue(L, error);
  lua_call(L, 1, 1);
  return (int)lua_tointeger(L, -1);
}

/* Prints a line about an error of this process alone, of which other ranks know nothing.  The
 * advice is the one that cli.report gives when it has memory for it. */
static void say(const char *text, int status) {
  char rank[40] = "", advice[120] = "";
  if (comm_rank() > 0) snprintf(rank, sizeof rank, "rank %d of %d: ", comm_rank(), comm_size());
  if (mem_limit() && status == status_exit(GRPO_ENOMEM))
    snprintf(advice, sizeof advice,
             "; --memory is %.6g MiB: raise it to at least %dM, or need less",
             (double)mem_limit() / 0x1p20, MEM_LEAST_MIB);
  fprintf(stderr, "grpo: %s%s%s\n", rank, text, advice);
}

/* Prints the error object on top and returns the exit status.  The line comes last, because all
 * else may still raise an error, which would be one line more. */
static int report(lua_State *L, bool trace) {
  const int error = lua_gettop(L), status = status_of(L, error);
  const char *traceback = NULL;
  if (trace && lua_istable(L, error) && lua_getfield(L, error, "traceback") == LUA_TSTRING)
    traceback = lua_tostring(L, -1);
  say(luaL_tolstring(L, error, NULL), status);
  if (traceback) fprintf(stderr, "%s\n", traceback);
  return status;
}

/* (Run): all that may raise an error */
static int protected_main(lua_State *L) {
  Run *r = lua_touserdata(L, 1);
  lua_pushcfunction(L, protected_run);
  lua_pushvalue(L, 1);
  r->failed = !call_protected(L, 1, 1);
  if (r->failed)
    r->status = report(L, wants_trace(r->argc, r->argv));
  else if (lua_isinteger(L, -1))
    r->status = (int)lua_tointeger(L, -1);
  return 0;
}

/* Ends the process without the destructors of libraries.  Under a tight `ulimit -v` OpenBLAS's own
 * threads, which nothing here uses, try for ever to get memory, and its destructor waits for
 * them. */
static int leave(int status) {
#ifdef GRPO_PLAIN_EXIT /* for leak checks and coverage, which report at exit */
  return status;
#else
  fflush(NULL);
  _exit(status);
#endif
}

/* Opens standard streams that are closed.  Otherwise a file that the program opens would take their
 * number and get its messages.  Reading and writing fail, as on a closed stream. */
static bool hold_standard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      return false;
  return true;
}

int main(int argc, char **argv) {
  Script *s;
  Run r = {argc, argv, 0, false};
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
  if (!hold_standard_streams()) {
    fputs("grpo: a standard stream is closed and /dev/null cannot be opened in its place; open all "
          "three\n",
          stderr);
    return status_exit(GRPO_EIO);
  }
  log_set_sink(print_notice, NULL);
  Status st = kern_select(NULL); /* fails if GRPO_CPU asks for what this CPU does not have */
  if (!st) st = script_open(&s, embedded_files, open_core);
  if (st) {
    fprintf(stderr, "grpo: %s\n", err_message());
    return leave(status_exit(st));
  }
  lua_State *L = script_state(s);
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, &r);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) { /* there is no memory even for an error object */
    r.failed = true;
    r.status = status_exit(GRPO_ENOMEM);
    say(status_text(GRPO_ENOMEM), r.status);
  }
  script_close(s);
  if (r.failed) comm_abort(r.status);
  if (fflush(stdout) != 0 && r.status == 0) r.status = status_exit(GRPO_EIO); /* the disk is full */
  comm_finish(r.status);
  return leave(r.status);
}

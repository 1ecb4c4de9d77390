/* lua_edit.c - core.edit: reading lines at the prompt, and Ctrl-C there.
 *
 * Lines are read by getline, or by an extension with a history and completion (lua_edit.h).
 *
 * Ctrl-C while a line runs in core.edit.call stops it (interrupt.h).  Code that must not be stopped
 * half-way runs in core.edit.holding: Ctrl-C then waits until it has ended.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script/binding.h"
#include "script/interrupt.h"
#include "script/lua_edit.h"

static volatile sig_atomic_t at_prompt; /* a line is being read, so Ctrl-C may jump */
static sigjmp_buf prompt_jump;
static struct sigaction previous;

/* ---- Ctrl-C ----------------------------------------------------------------------- */

static void on_interrupt(int sig) {
  (void)sig;
  if (at_prompt) siglongjmp(prompt_jump, 1);
  interrupt_signal();
}

/* Replaces the error on top, whatever it says, by "interrupted". */
static void replace_by_interrupted(lua_State *L) {
  const char *text = luaL_tolstring(L, -1, NULL);
  const bool said = strstr(text, "interrupted (") != NULL;
  lua_pop(L, 1);
  if (said) return;
  lua_pop(L, 1);
  push_error(L, GRPO_ESCRIPT, "");
  lua_pushliteral(L, "interrupted");
  lua_setfield(L, -2, "message");
}

/* call(f, ...) -> true, results... | false, error: as core.protected, but Ctrl-C stops f */
static int l_call(lua_State *L) {
  check_function(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  interrupt_begin(L);
  const bool ok = call_protected(L, lua_gettop(L) - 2, LUA_MULTRET);
  interrupt_end(L);
  if (ok) return lua_gettop(L);
  if (script_interrupted) replace_by_interrupted(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

/* holding(what, f, ...) -> results: inside core.edit.call, Ctrl-C waits until f has ended */
static int l_holding(lua_State *L) {
  const char *what = check_string(L, 1, NULL);
  check_function(L, 2);
  if (!interrupt_running()) {
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    return lua_gettop(L) - 1;
  }
  interrupt_hold();
  const bool ok = call_protected(L, lua_gettop(L) - 2, LUA_MULTRET);
  const bool interrupted = interrupt_release();
  if (!interrupted && ok) return lua_gettop(L) - 1;
  if (!interrupted) return lua_error(L);
  push_error(L, GRPO_ESCRIPT, "");
  lua_pushfstring(L, "interrupted (%s %s)", what, ok ? "was finished first" : "was given up");
  lua_setfield(L, -2, "message");
  return lua_error(L);
}

/* interrupted() -> whether Ctrl-C was pressed since the last line, or the last call of this */
static int l_interrupted(lua_State *L) {
  lua_pushboolean(L, script_cancel != 0);
  script_cancel = 0;
  return 1;
}

/* ---- the editor --------------------------------------------------------------------- */

static const LineEditor *known;  /* the extension's */
static const LineEditor *editor; /* NULL: lines are read plainly */

void edit_use(const LineEditor *e) { known = e; }
void edit_pause(bool paused) { at_prompt = !paused; }

static char *plain_line(const char *prompt) {
  char *line = NULL;
  size_t cap = 0;
  fputs(prompt, stdout);
  fflush(stdout);
  ssize_t n = getline(&line, &cap, stdin);
  if (n < 0) {
    free(line);
    return NULL;
  }
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = 0;
  return line;
}

/* open(complete[, file]): complete is nil or a function(line) -> first, list (of an extension);
 * file is the name of the history in $HOME, which an editor keeps */
static int l_open(lua_State *L) {
  if (!lua_isnil(L, 1)) check_function(L, 1);
  const char *file = lua_isnoneornil(L, 2) ? ".grpo_history" : check_string(L, 2, NULL);
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous);
  editor = known && known->open(L, file) ? known : NULL;
  return 0;
}

/* read(prompt) -> line | false (Ctrl-C) | nil (end of input) */
static int l_read(lua_State *L) {
  const char *prompt = check_string(L, 1, NULL);
  char *line = NULL;
  if (sigsetjmp(prompt_jump, 1)) {
    at_prompt = 0;
    fputs("\n", stderr);
    return give_boolean(L, 0);
  }
  script_cancel = 0;
  at_prompt = 1;
  line = editor ? editor->line(prompt) : plain_line(prompt);
  at_prompt = 0;
  if (!line) {
    fputs("\n", stderr);
    lua_pushnil(L);
    return 1;
  }
  lua_pushstring(L, line);
  free(line);
  return 1;
}

/* pending() -> whether more input is waiting, as after a paste of several lines */
static int l_pending(lua_State *L) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return give_boolean(L, poll(&input, 1, 10) == 1 && (input.revents & POLLIN));
}

static int l_remember(lua_State *L) {
  const char *line = check_string(L, 1, NULL);
  if (editor) editor->remember(line);
  return 0;
}

static int l_close(lua_State *L) {
  (void)L;
  sigaction(SIGINT, &previous, NULL);
  return 0;
}

CORE_PART(edit) {
  static const luaL_Reg functions[] = {FN(open),     FN(call),    FN(holding),
                                       FN(read),     FN(pending), FN(interrupted),
                                       FN(remember), FN(close),   {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "edit");
}

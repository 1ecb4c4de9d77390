/* lua_edit.c - core.edit: reading lines at the prompt, and Ctrl-C there.
 *
 * libedit gives a history (in ~/.grpo_history, or $GRPO_HISTORY) and completion, for which it calls
 * a Lua function of an extension.  Without libedit we use getline.
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
#include <sys/stat.h>

#include "script/binding.h"
#include "script/interrupt.h"
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

#ifdef GRPO_HAVE_EDITLINE
#include <editline/readline.h>

enum { HISTORY_LINES = 2000 };

static const char complete_key = 0; /* registry key of the function that completes */
static lua_State *completing;       /* its state; there is one prompt at a time */
static char history_path[1024];

/* (line, word) -> { candidates }: texts that replace what libedit takes for the last word, which
 * begins at the 0-based byte `word` of the line */
static int protected_candidates(lua_State *L) {
  const lua_Integer word = lua_tointeger(L, 2);
  lua_settop(L, 2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 2); /* first (1-based), list */
  const lua_Integer first = lua_tointeger(L, -2) - 1;
  if (!lua_istable(L, -1)) return 0;
  const int list = lua_gettop(L);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  const char *line = lua_tostring(L, 1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, list, i);
    const char *text = lua_tostring(L, -1);
    if (first >= word)
      lua_pushlstring(L, line + word, (size_t)(first - word));
    else /* libedit's word begins later than ours, so the line already has the part before */
      text += strlen(text) < (size_t)(word - first) ? strlen(text) : (size_t)(word - first);
    if (first < word) lua_pushliteral(L, "");
    lua_pushstring(L, text);
    lua_concat(L, 2);
    lua_rawseti(L, list + 1, i);
    lua_pop(L, 1);
  }
  return 1;
}

static size_t common_prefix(const char *a, size_t n, const char *b) {
  size_t i = 0;
  while (i < n && b[i] && a[i] == b[i]) i++;
  return i;
}

/* Makes what libedit wants of the list on top: the common prefix, then each text.  libedit frees
 * it. */
static char **matches_of(lua_State *L) {
  const size_t n = lua_rawlen(L, -1);
  char **found = n ? calloc(n + 2, sizeof *found) : NULL;
  size_t common = 0;
  for (size_t i = 0; found && i < n; i++) {
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    const char *text = lua_tostring(L, -1);
    if ((found[i + 1] = strdup(text)) != NULL)
      common = i ? common_prefix(found[1], common, text) : strlen(text);
    lua_pop(L, 1);
    if (!found[i + 1]) break;
  }
  if (found && found[1] && (found[0] = strndup(found[1], common)) != NULL) return found;
  for (size_t i = 1; found && found[i]; i++) free(found[i]);
  free(found);
  return NULL;
}

static char **complete(const char *text, int start, int end) {
  (void)start, (void)end;
  lua_State *L = completing;
  const int top = lua_gettop(L);
  char **found = NULL;
  rl_attempted_completion_over = 1;
  at_prompt = 0; /* Ctrl-C must not jump out of Lua */
  const size_t point = rl_point > 0 ? (size_t)rl_point : 0, len = strlen(text);
  lua_pushcfunction(L, protected_candidates);
  lua_pushlstring(L, rl_line_buffer, point);
  lua_pushinteger(L, (lua_Integer)(len < point ? point - len : 0));
  if (call_protected(L, 2, 1) && lua_istable(L, -1)) found = matches_of(L);
  lua_settop(L, top);
  at_prompt = 1;
  return found;
}

static void editor_open(lua_State *L, const char *file) {
  const char *named = getenv("GRPO_HISTORY"), *home = getenv("HOME");
  completing = L;
  rl_readline_name = "grpo";
  rl_attempted_completion_function = complete;
  rl_completion_append_character = 0;
  rl_completer_word_break_characters = " \t\n\"\\'><=;|&{}()[]+-*/^%#~,";
  using_history();
  if (named)
    snprintf(history_path, sizeof history_path, "%s", named);
  else
    snprintf(history_path, sizeof history_path, "%s/%s", home ? home : ".", file);
  stifle_history(HISTORY_LINES);
  read_history(history_path);
}

/* Writes the history after every line, because the process may be killed; only the user may read
 * it. */
static void editor_remember(const char *line) {
  add_history(line);
  const mode_t mask = umask(077);
  write_history(history_path);
  umask(mask);
}

/* Returns a line without its end, which the caller frees, or NULL at the end of input. */
static char *editor_line(const char *prompt) { return readline(prompt); }
#else
static const char complete_key = 0;
static void editor_open(lua_State *L, const char *file) { (void)L, (void)file; }
static void editor_remember(const char *line) { (void)line; }

static char *editor_line(const char *prompt) {
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
#endif

/* open(complete[, file]): complete is nil or a function(line) -> first, list (of an extension);
 * file is the name of the history in $HOME */
static int l_open(lua_State *L) {
  if (!lua_isnil(L, 1)) check_function(L, 1);
  const char *file = lua_isnoneornil(L, 2) ? ".grpo_history" : check_string(L, 2, NULL);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &complete_key);
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous);
  editor_open(L, file);
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
  line = editor_line(prompt);
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
  editor_remember(check_string(L, 1, NULL));
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

/* editor.c - lines with a history (~/.grpo_history, or $GRPO_HISTORY) and completion, which libedit
 * gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "os/library.h"
#include "script/binding.h"
#include "script/lua_edit.h"
#include "script/parts.h"

#ifdef GRPO_HAVE_EDITLINE
#include <editline/readline.h>

/* ---- the library -------------------------------------------------------------------- */

static struct {
  char *(*readline)(const char *);
  void (*using_history)(void);
  void (*stifle_history)(int);
  int (*read_history)(const char *), (*write_history)(const char *), (*add_history)(const char *);
  int (*parse_and_bind)(const char *);
  const char **readline_name;
  rl_hook_func_t **pre_input_hook;
  rl_completion_func_t **attempted_completion_function;
  int *attempted_completion_over, *completion_append_character, *point;
  char **completer_word_break_characters, **line_buffer;
} lib;

static const LibrarySymbol symbols[] = {
    {"readline", &lib.readline},
    {"using_history", &lib.using_history},
    {"stifle_history", &lib.stifle_history},
    {"read_history", &lib.read_history},
    {"write_history", &lib.write_history},
    {"add_history", &lib.add_history},
    {"rl_parse_and_bind", &lib.parse_and_bind},
    {"rl_pre_input_hook", &lib.pre_input_hook},
    {"rl_readline_name", &lib.readline_name},
    {"rl_attempted_completion_function", &lib.attempted_completion_function},
    {"rl_attempted_completion_over", &lib.attempted_completion_over},
    {"rl_completion_append_character", &lib.completion_append_character},
    {"rl_point", &lib.point},
    {"rl_completer_word_break_characters", &lib.completer_word_break_characters},
    {"rl_line_buffer", &lib.line_buffer}};
static Library libedit = {.package = "libedit",
                          .sonames = {"libedit.so.2"},
                          .symbols = symbols,
                          .count = sizeof symbols / sizeof symbols[0]};

/* ---- the editor --------------------------------------------------------------------- */

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
  *lib.attempted_completion_over = 1;
  edit_pause(true); /* Ctrl-C must not jump out of Lua */
  const size_t point = *lib.point > 0 ? (size_t)*lib.point : 0, len = strlen(text);
  lua_pushcfunction(L, protected_candidates);
  lua_pushlstring(L, *lib.line_buffer, point);
  lua_pushinteger(L, (lua_Integer)(len < point ? point - len : 0));
  if (call_protected(L, 2, 1) && lua_istable(L, -1)) found = matches_of(L);
  lua_settop(L, top);
  edit_pause(false);
  return found;
}

/* A Ctrl-D that comes before the prompt arrives as NUL, which libedit binds for every line to the
 * command that quotes the next character: the next Ctrl-D would be text. */
static int ignore_early_end(void) { return lib.parse_and_bind("bind ^@ em-set-mark"); }

static bool editor_open(lua_State *L, const char *file) {
  if (!library_available(&libedit)) return false;
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &complete_key);
  const char *named = getenv("GRPO_HISTORY"), *home = getenv("HOME");
  completing = L;
  *lib.readline_name = "grpo";
  *lib.pre_input_hook = ignore_early_end;
  *lib.attempted_completion_function = complete;
  *lib.completion_append_character = 0;
  *lib.completer_word_break_characters = " \t\n\"\\'><=;|&{}()[]+-*/^%#~,";
  lib.using_history();
  if (named)
    snprintf(history_path, sizeof history_path, "%s", named);
  else
    snprintf(history_path, sizeof history_path, "%s/%s", home ? home : ".", file);
  lib.stifle_history(HISTORY_LINES);
  lib.read_history(history_path);
  return true;
}

/* Writes the history after every line, because the process may be killed; only the user may read
 * it. */
static void editor_remember(const char *line) {
  lib.add_history(line);
  const mode_t mask = umask(077);
  lib.write_history(history_path);
  umask(mask);
}

/* Returns a line without its end, which the caller frees, or NULL at the end of input. */
static char *editor_line(const char *prompt) { return lib.readline(prompt); }

EXTENSION(line_editor) {
  static const LineEditor editor = {editor_open, editor_line, editor_remember};
  edit_use(&editor);
}

static const char *editor_library(void) { return library_available(&libedit) ? "libedit" : "none"; }
#else
static const char *editor_library(void) { return "none"; }
#endif

/* core.edit.library() -> "libedit", or "none" */
static int l_library(lua_State *L) {
  lua_pushstring(L, editor_library());
  return 1;
}

EXTENSION_PART(editing) {
  lua_getfield(L, -1, "edit");
  lua_pushcfunction(L, l_library);
  lua_setfield(L, -2, "library");
  lua_pop(L, 1);
}

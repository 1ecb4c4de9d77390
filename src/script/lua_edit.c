/* lua_edit.c - core.edit: reading lines at the prompt.
 *
 * With libedit: history (kept in ~/.grpo_history, or $GRPO_HISTORY) and
 * completion over the fields of the session's environment.  Without it, plain
 * fgets.  Ctrl-C gives false instead of a line; the end of input gives nil.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script/script.h"

static const char env_key = 0;          /* registry key of the environment */
static volatile sig_atomic_t at_prompt; /* reading a line: Ctrl-C may jump */
static sigjmp_buf prompt_jump;
static struct sigaction previous;

static lua_State *running; /* the state whose code Ctrl-C stops; NULL: only sampling */

static void stop_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  raise_new(L, GRPO_ESCRIPT, "interrupted");
}

/* At the prompt: a new line.  Elsewhere: sampling ends after its token, Lua at its next
 * instruction. */
static void on_interrupt(int sig) {
  (void)sig;
  if (at_prompt) siglongjmp(prompt_jump, 1);
  script_cancel = 1;
  if (running) lua_sethook(running, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

#ifdef GRPO_HAVE_EDITLINE
#include <editline/readline.h>

static lua_State *completing; /* the state completion looks into; one prompt at a time */
static char history_path[1024];

/* Pushes the value that "a.b." stands for in the environment; true when it is a table or has one. */
static bool push_owner(lua_State *L, const char *text, size_t len) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &env_key);
  for (size_t at = 0; at < len;) {
    size_t n = strcspn(text + at, ".:");
    lua_pushlstring(L, text + at, n);
    if (!lua_istable(L, -2) && luaL_getmetafield(L, -2, "__index") == LUA_TTABLE)
      lua_replace(L, -3);
    if (!lua_istable(L, -2)) return false;
    lua_rawget(L, -2);
    lua_remove(L, -2);
    at += n + 1;
  }
  if (!lua_istable(L, -1) && luaL_getmetafield(L, -1, "__index") == LUA_TTABLE) lua_replace(L, -2);
  return lua_istable(L, -1);
}

/* The state-th field of the owner that starts with the text after the last dot. */
static char *next_match(const char *text, int state) {
  static int position;
  lua_State *L = completing;
  const int top = lua_gettop(L);
  const char *dot = strrchr(text, '.'), *colon = strrchr(text, ':');
  const char *last = dot > colon ? dot : colon;
  const size_t head = last ? (size_t)(last - text) : 0;
  const char *tail = last ? last + 1 : text;
  char *found = NULL;
  if (state == 0) position = 0;
  if (push_owner(L, text, head)) {
    int seen = 0;
    for (lua_pushnil(L); !found && lua_next(L, -2); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING) continue;
      const char *name = lua_tostring(L, -2);
      if (strncmp(name, tail, strlen(tail)) != 0 || seen++ < position) continue;
      position++;
      const size_t size = (size_t)(tail - text) + strlen(name) + 1;
      if ((found = malloc(size)) != NULL) /* libedit frees it */
        snprintf(found, size, "%.*s%s", (int)(tail - text), text, name);
    }
  }
  lua_settop(L, top);
  return found;
}

static char **complete(const char *text, int start, int end) {
  (void)start, (void)end;
  rl_attempted_completion_over = 1;
  return rl_completion_matches(text, next_match);
}

static void editor_open(lua_State *L, const char *file) {
  const char *named = getenv("GRPO_HISTORY"), *home = getenv("HOME");
  completing = L;
  rl_readline_name = "grpo";
  rl_attempted_completion_function = complete;
  rl_completer_word_break_characters = " \t\n\"\\'><=;|&{}()[]+-*/^%#~,";
  using_history();
  if (named)
    snprintf(history_path, sizeof history_path, "%s", named);
  else
    snprintf(history_path, sizeof history_path, "%s/%s", home ? home : ".", file);
  read_history(history_path);
}

static void editor_close(void) { write_history(history_path); }
static void editor_remember(const char *line) { add_history(line); }

/* One line without its end, to be freed; NULL at the end of input. */
static char *editor_line(const char *prompt) { return readline(prompt); }
#else
static void editor_open(lua_State *L, const char *file) { (void)L, (void)file; }
static void editor_close(void) {}
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

/* open(env[, file[, gently]]): env's fields are what completion knows; file: the history's name in
 * $HOME; gently: Ctrl-C ends what a model is saying, and no Lua */
static int l_open(lua_State *L) {
  check_table(L, 1);
  const char *file = lua_isnoneornil(L, 2) ? ".grpo_history" : check_string(L, 2, NULL);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &env_key);
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous);
  running = lua_toboolean(L, 3) ? NULL : L;
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
    lua_pushboolean(L, 0);
    return 1;
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

/* interrupted() -> was Ctrl-C pressed since the last line?  Forgets it. */
static int l_interrupted(lua_State *L) {
  lua_pushboolean(L, script_cancel != 0);
  script_cancel = 0;
  return 1;
}

/* pending() -> is more typed already, as after a paste of several lines? */
static int l_pending(lua_State *L) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  lua_pushboolean(L, poll(&input, 1, 10) == 1 && (input.revents & POLLIN));
  return 1;
}

static int l_remember(lua_State *L) {
  editor_remember(check_string(L, 1, NULL));
  return 0;
}

static int l_close(lua_State *L) {
  (void)L;
  editor_close();
  sigaction(SIGINT, &previous, NULL);
  return 0;
}

static const luaL_Reg functions[] = {{"open", l_open},
                                     {"read", l_read},
                                     {"pending", l_pending},
                                     {"interrupted", l_interrupted},
                                     {"remember", l_remember},
                                     {"close", l_close},
                                     {NULL, NULL}};

/* core.edit; the core table is on top */
void edit_open(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "edit");
}

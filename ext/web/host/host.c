/* host.c - the functions that a page calls (ext/web/README.md); each is one of the Lua module
 * grpo.web, called in a state as src/main.c opens it.
 *
 * A failure that grpo.web did not report itself is kept here until web_events is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kern/dispatch.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/environment.h"
#include "script/lua_vm.h"

int web_open(void);
int web_start(const char *json);
int web_advance(void);
const char *web_events(void);
const char *web_line(const char *lua);
int web_save(void);
int web_stop(void);
void web_close(void);

enum { FAILED = -1 };

static Script *script;
static char failure[1024]; /* what went wrong outside of grpo.web; "": nothing */

static void print_notice(void *user, LogLevel level, const char *message) {
  (void)user;
  fprintf(stderr, level == LOG_WARNING ? "grpo: warning: %s\n" : "grpo: %s\n", message);
}

typedef struct Call {
  const char *name; /* of grpo.web's function */
  const char *text; /* its argument; NULL: none */
} Call;

/* (Call) -> what the function returns */
static int protected_call(lua_State *L) {
  const Call *c = lua_touserdata(L, 1);
  push_module(L, "grpo.web");
  lua_getfield(L, -1, c->name);
  if (c->text) lua_pushstring(L, c->text);
  lua_call(L, c->text ? 1 : 0, 1);
  return 1;
}

/* (Call) -> what the function returns, or FAILED */
static int protected_report(lua_State *L) {
  lua_pushcfunction(L, protected_call);
  lua_pushvalue(L, 1);
  if (call_protected(L, 1, 1)) return 1;
  snprintf(failure, sizeof failure, "%s", luaL_tolstring(L, -1, NULL));
  return give_integer(L, FAILED);
}

/* Leaves one value on the stack, which lives until the next call. */
static lua_State *call(const char *name, const char *text) {
  lua_State *L = script_state(script);
  const Call c = {name, text};
  lua_settop(L, 0);
  lua_pushcfunction(L, protected_report);
  lua_pushlightuserdata(L, (void *)(uintptr_t)&c);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) return L;
  snprintf(failure, sizeof failure, "%s", status_text(GRPO_ENOMEM));
  lua_settop(L, 0);
  lua_pushinteger(L, FAILED);
  return L;
}

static int number_of(const char *name, const char *text) {
  if (!script) return FAILED;
  return (int)lua_tointeger(call(name, text), -1);
}

/* The list of events that holds the failure alone, as JSON. */
static const char *failure_event(void) {
  static const char hex[] = "0123456789abcdef";
  static char event[64 + 6 * sizeof failure];
  char *to = event + sprintf(event, "[{\"type\":\"error\",\"text\":\"");
  for (const char *s = failure; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c >= ' ' && c != '"' && c != '\\')
      *to++ = *s;
    else
      to += sprintf(to, "\\u00%c%c", hex[c >> 4], hex[c & 15]);
  }
  memcpy(to, "\"}]", sizeof "\"}]");
  *failure = '\0';
  return event;
}

static const char *text_of(const char *name, const char *text) {
  lua_State *L = script ? call(name, text) : NULL;
  return L && lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

int web_open(void) {
  if (script) return 1;
  log_set_sink(print_notice, NULL);
  setenv("GRPO_CPU", "portable", 1);
  Status st = kern_select(NULL);
  if (!st) st = script_open(&script, embedded_files, open_core);
  if (!st) return 1;
  snprintf(failure, sizeof failure, "%s", err_message());
  return FAILED;
}

int web_start(const char *json) { return number_of("start", json); }
int web_advance(void) { return number_of("advance", NULL); }
int web_save(void) { return number_of("save", NULL); }
int web_stop(void) { return number_of("stop", NULL); }

const char *web_events(void) {
  const char *list = *failure ? failure_event() : text_of("events", NULL);
  return list ? list : *failure ? failure_event() : "[]";
}

const char *web_line(const char *lua) {
  const char *answer = text_of("line", lua);
  return answer ? answer : "{\"failed\":true}";
}

void web_close(void) {
  if (script) call("close", NULL);
  script_close(script);
  script = NULL;
}

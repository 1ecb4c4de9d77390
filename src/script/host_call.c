#include "script/host_call.h"

#include <string.h>

#include "script/binding.h"
#include "script/core.h"
#include "script/environment.h"
#include "script/lua_tokenizer.h"

Status host_call_open(Script **out) { return script_open(out, embedded_files, open_core); }

/* ---- calls ------------------------------------------------------------------------------ */

static Status status_named(const char *name) {
  for (int s = 1; s < GRPO_NSTATUS; s++)
    if (strcmp(status_name((Status)s), name) == 0) return (Status)s;
  return GRPO_ESCRIPT;
}

/* (f, arg) -> the status, which is recorded with its message */
static int protected_host_call(lua_State *L) {
  if (call_protected(L, 1, 0)) return give_integer(L, GRPO_OK);
  lua_getfield(L, -1, "code");
  const Status s = lua_isstring(L, -1) ? status_named(lua_tostring(L, -1)) : GRPO_ESCRIPT;
  lua_pop(L, 1);
  return give_integer(L, fail(s, "%s", luaL_tolstring(L, -1, NULL)));
}

Status host_call(lua_State *L, lua_CFunction f, void *arg) {
  if (!lua_checkstack(L, 8)) return fail(GRPO_ENOMEM, "not enough memory for the script");
  const int top = lua_gettop(L);
  lua_pushcfunction(L, protected_host_call);
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, arg);
  const Status s = lua_pcall(L, 2, 1, 0) == LUA_OK
                       ? (Status)lua_tointeger(L, -1)
                       : fail(GRPO_ENOMEM, "not enough memory for the script");
  lua_settop(L, top);
  return s;
}

/* ---- chat templates --------------------------------------------------------------------- */

typedef struct Chat {
  const Tokenizer *t;
  const char *messages, *options;
  Buf *out;
} Chat;

/* (chat) */
static int protected_chat(lua_State *L) {
  Chat *c = lua_touserdata(L, 1);
  size_t n;
  push_module(L, "grpo.models.chat_json");
  lua_getfield(L, -1, "render");
  const Tokenizer **slot = push_tokenizer(L, NULL);
  tokenizer_retain(c->t);
  *slot = c->t;
  lua_pushstring(L, c->messages);
  lua_pushstring(L, c->options);
  lua_call(L, 3, 1);
  const char *text = luaL_checklstring(L, -1, &n);
  buf_put(c->out, text, n);
  return 0;
}

Status host_call_chat(Script *script, const Tokenizer *t, const char *messages, const char *options,
                      Buf *out) {
  Chat c = {t, messages, options, out};
  try(host_call(script_state(script), protected_chat, &c));
  return buf_status(out);
}

/* lua_openenv.c - what grpo.openenv needs of C.
 *
 *   core.websocket { address =, port =, path =, tls =, authorization = } -> connection
 *     connection:send(text)   connection:close()
 *     connection:wait(seconds) -> message | nil, problem: nil if the time is over
 *   core.websocket_library() -> "libwebsockets 4.1.6", "none"
 *
 * Time that passes while we wait does not count for the limited call, because requests have limits
 * of their own.
 */
#include "base/clock.h"
#include "openenv/websocket.h"
#include "script/binding.h"
#include "script/interrupt.h"
#define SOCKET_TYPE "grpo.WebSocket"

static WebSocket *check_socket(lua_State *L) {
  return check_handle(L, 1, SOCKET_TYPE, "the connection is closed");
}

static int l_websocket(lua_State *L) {
  static const char *const known[] = {"address", "port", "path", "tls", "authorization", NULL};
  WebSocketPlace place = {.path = "/"};
  lua_settop(L, 1);
  check_table(L, 1);
  check_fields(L, 1, "websocket", known);
  if (!field_string(L, 1, "websocket", "address", &place.address))
    arg_error(L, 1, "address is missing");
  field_string(L, 1, "websocket", "path", &place.path);
  field_string(L, 1, "websocket", "authorization", &place.authorization);
  field_int(L, 1, "websocket", "port", 1, 65535, &place.port);
  lua_getfield(L, 1, "tls");
  place.tls = lua_toboolean(L, -1);
  WebSocket **w = new_handle(L, SOCKET_TYPE);
  const Status s = websocket_open(w, &place);
  return s ? raise_status(L, s) : 1;
}

static int l_send(lua_State *L) {
  size_t n;
  const char *text = check_string(L, 2, &n);
  const Status s = websocket_send(check_socket(L), text, n);
  return s ? raise_status(L, s) : 0;
}

static int l_wait(lua_State *L) {
  WebSocket *w = check_socket(L);
  const char *text;
  size_t n;
  const double seconds = check_number(L, 2), started = clock_seconds();
  const Status s = websocket_wait(w, seconds, &script_cancel);
  excuse_time(L, clock_seconds() - started);
  if (s) return raise_status(L, s);
  if (websocket_message(w, &text, &n)) {
    make_room(L, n);
    lua_pushlstring(L, text, n);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, websocket_problem(w));
  return 2;
}

static int l_close(lua_State *L) {
  websocket_close(take_handle(L, 1, SOCKET_TYPE));
  return 0;
}

static int l_websocket_library(lua_State *L) {
  const char *version = websocket_library();
  if (!version) return give_string(L, "none");
  lua_pushfstring(L, "libwebsockets %s", version);
  return 1;
}

EXTENSION_PART(openenv) {
  static const luaL_Reg functions[] = {FN(websocket), FN(websocket_library), {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"send", l_send}, {"wait", l_wait}, {"close", l_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  make_type(L, SOCKET_TYPE, meta, methods);
}

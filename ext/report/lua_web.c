/* lua_web.c - core.web: pages for browsers on this machine (report/web.h).
 *
 *   listen(port) -> server | nil, message, code      port 0: any that is free
 *   server:   port   next() -> client, path, query | nil   wait(seconds)
 *             send(client, status, type, body)   close()
 */
#include "report/web.h"

#include "script/binding.h"
#define SERVER_TYPE "grpo.WebServer"

static WebServer *check_server(lua_State *L) {
  return check_handle(L, 1, SERVER_TYPE, "the server is closed");
}

static int l_listen(lua_State *L) {
  const int port = (int)check_integer(L, 1, 0, 65535);
  WebServer **s = new_handle(L, SERVER_TYPE);
  const Status status = web_listen(s, port);
  return status ? push_failure(L, status) : 1;
}

static int l_server_port(lua_State *L) { return give_integer(L, web_port(check_server(L))); }

static int l_server_next(lua_State *L) {
  HttpRequest request;
  int client;
  if (!web_next(check_server(L), &client, &request)) return 0;
  lua_pushinteger(L, client);
  lua_pushstring(L, request.path);
  lua_pushstring(L, request.query);
  return 3;
}

static int l_server_wait(lua_State *L) {
  const double seconds = check_number(L, 2);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 2, "want 0 to 3600 seconds");
  web_wait(check_server(L), seconds);
  return 0;
}

static int l_server_send(lua_State *L) {
  size_t n;
  const int client = (int)check_integer(L, 2, 0, WEB_CLIENTS - 1);
  const int status = (int)check_integer(L, 3, 200, 599);
  const char *type = check_string(L, 4, NULL), *body = check_string(L, 5, &n);
  web_send(check_server(L), client, status, type, body, n);
  return 0;
}

static int l_server_close(lua_State *L) {
  web_close(take_handle(L, 1, SERVER_TYPE));
  return 0;
}

EXTENSION_PART(web) {
  static const luaL_Reg functions[] = {FN(listen), {NULL, NULL}};
  static const luaL_Reg methods[] = {{"port", l_server_port},   {"next", l_server_next},
                                     {"wait", l_server_wait},   {"send", l_server_send},
                                     {"close", l_server_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__gc", l_server_close}, {"__close", l_server_close}, {NULL, NULL}};
  make_type(L, SERVER_TYPE, meta, methods);
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "web");
}

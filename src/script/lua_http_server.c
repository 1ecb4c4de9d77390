/* lua_http_server.c - core.http_listen: a server (os/http_server.h).
 *
 *   http_listen { address =, port =, token =, connections =, body =, header =, purpose = }
 *     -> server | nil, message, code
 *   server:   port   wait(seconds)   next() -> request, method, path, query, body, header | nothing
 *             gone(request)   send(request, status, type, body)   close()
 *             begin(request, status, type)   write(request, text)   finish(request)
 *   http_server_library() -> "libmicrohttpd 0.9.75" or nil
 */
#include "os/http_server.h"

#include "script/binding.h"
#include "script/read_options.h"
#define SERVER_TYPE "grpo.HttpServer"

static HttpServer *check_server(lua_State *L) {
  return check_handle(L, 1, SERVER_TYPE, "the server is closed");
}

static long check_request(lua_State *L) { return (long)check_integer(L, 2, 0, INT32_MAX); }

static int l_http_listen(lua_State *L) {
  static const char *const known[] = {"address", "port",   "token",   "connections",
                                      "body",    "header", "purpose", NULL};
  HttpListen how = {.address = "127.0.0.1", .connections = 64, .purpose = "nothing is served"};
  int body = 0;
  lua_settop(L, 1);
  check_fields(L, 1, "http_listen", known);
  field_string(L, 1, "http_listen", "address", &how.address);
  field_int(L, 1, "http_listen", "port", 0, 65535, &how.port);
  field_string(L, 1, "http_listen", "token", &how.token);
  field_int(L, 1, "http_listen", "connections", 1, 128, &how.connections);
  field_int(L, 1, "http_listen", "body", 0, 1 << 30, &body);
  field_string(L, 1, "http_listen", "header", &how.header);
  field_string(L, 1, "http_listen", "purpose", &how.purpose);
  how.body = (size_t)body;
  HttpServer **s = new_handle(L, SERVER_TYPE);
  const Status status = http_server_listen(s, &how);
  return status ? push_failure(L, status) : 1;
}

static int l_http_server_library(lua_State *L) {
  const char *name = http_server_library();
  return name ? give_string(L, name) : 0;
}

static int l_port(lua_State *L) { return give_integer(L, http_server_port(check_server(L))); }

static int l_wait(lua_State *L) {
  const double seconds = check_number(L, 2);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 2, "want 0 to 3600 seconds");
  http_server_wait(check_server(L), seconds);
  return 0;
}

static int l_next(lua_State *L) {
  HttpAsk ask;
  const long request = http_server_next(check_server(L), &ask);
  if (!request) return 0;
  lua_pushinteger(L, request);
  lua_pushstring(L, ask.method);
  lua_pushstring(L, ask.path);
  lua_pushstring(L, ask.query);
  lua_pushlstring(L, ask.body, ask.size);
  lua_pushstring(L, ask.header);
  return 6;
}

static int l_gone(lua_State *L) {
  lua_pushboolean(L, http_server_gone(check_server(L), check_request(L)));
  return 1;
}

static int l_send(lua_State *L) {
  size_t n;
  const int status = (int)check_integer(L, 3, 200, 599);
  const char *type = check_string(L, 4, NULL), *body = check_string(L, 5, &n);
  http_server_send(check_server(L), check_request(L), status, type, body, n);
  return 0;
}

static int l_begin(lua_State *L) {
  const int status = (int)check_integer(L, 3, 200, 599);
  http_server_begin(check_server(L), check_request(L), status, check_string(L, 4, NULL));
  return 0;
}

static int l_write(lua_State *L) {
  size_t n;
  const char *text = check_string(L, 3, &n);
  http_server_write(check_server(L), check_request(L), text, n);
  return 0;
}

static int l_finish(lua_State *L) {
  http_server_end(check_server(L), check_request(L));
  return 0;
}

static int l_close(lua_State *L) {
  http_server_close(take_handle(L, 1, SERVER_TYPE));
  return 0;
}

CORE_PART(http_server) {
  static const luaL_Reg functions[] = {FN(http_listen), FN(http_server_library), {NULL, NULL}};
  static const luaL_Reg methods[] = {FN(port),  FN(wait),  FN(next),   FN(gone),  FN(send),
                                     FN(begin), FN(write), FN(finish), FN(close), {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
  make_type(L, SERVER_TYPE, meta, methods);
  luaL_setfuncs(L, functions, 0);
}

/* lua_channel.c - core.channel: lines over a Unix socket (os/channel.h).
 *
 *   listen(path) -> server:   next() -> kind, client, line | nil
 *                             wait(seconds)   send(client, text)   close()
 *   connect(path) -> client:  write(text)     read(seconds) -> line | false (timeout)     close()
 * kind is "opened", "text" or "gone".  After a failure listen, connect, write and read return nil,
 * message, code.
 */
#include "os/channel.h"

#include "script/binding.h"
#define SERVER_TYPE "grpo.ChannelServer"
#define CLIENT_TYPE "grpo.ChannelClient"

static ChannelServer *check_server(lua_State *L) {
  return check_handle(L, 1, SERVER_TYPE, "the channel is closed");
}

static ChannelClient *check_client(lua_State *L) {
  return check_handle(L, 1, CLIENT_TYPE, "the channel is closed");
}

static int l_listen(lua_State *L) {
  const char *path = check_string(L, 1, NULL);
  ChannelServer **s = new_handle(L, SERVER_TYPE);
  const Status status = channel_listen(s, path);
  return status ? push_failure(L, status) : 1;
}

static int l_server_next(lua_State *L) {
  static const char *const kinds[] = {"opened", "text", "gone"};
  ChannelEvent e;
  if (!channel_next(check_server(L), &e)) return 0;
  lua_pushstring(L, kinds[e.kind]);
  lua_pushinteger(L, e.client);
  lua_pushlstring(L, e.line ? e.line : "", e.line ? e.len : 0);
  return 3;
}

static int l_server_wait(lua_State *L) {
  const double seconds = check_number(L, 2);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 2, "want 0 to 3600 seconds");
  channel_wait(check_server(L), seconds);
  return 0;
}

static int l_server_send(lua_State *L) {
  size_t n;
  const int client = (int)check_integer(L, 2, 0, CHANNEL_CLIENTS - 1);
  const char *text = check_string(L, 3, &n);
  channel_send(check_server(L), client, text, n);
  return 0;
}

static int l_server_close(lua_State *L) {
  channel_close(take_handle(L, 1, SERVER_TYPE));
  return 0;
}

static int l_connect(lua_State *L) {
  const char *path = check_string(L, 1, NULL);
  ChannelClient **c = new_handle(L, CLIENT_TYPE);
  const Status status = channel_connect(c, path);
  return status ? push_failure(L, status) : 1;
}

static int l_client_write(lua_State *L) {
  size_t n;
  const char *text = check_string(L, 2, &n);
  return give_done(L, channel_write(check_client(L), text, n));
}

static int l_client_read(lua_State *L) {
  const char *line;
  size_t n;
  const Status status = channel_read(check_client(L), check_number(L, 2), &line, &n);
  if (status) return push_failure(L, status);
  if (line)
    lua_pushlstring(L, line, n);
  else
    lua_pushboolean(L, 0);
  return 1;
}

static int l_client_close(lua_State *L) {
  channel_disconnect(take_handle(L, 1, CLIENT_TYPE));
  return 0;
}

CORE_PART(channel) {
  static const luaL_Reg functions[] = {FN(connect), FN(listen), {NULL, NULL}};
  static const luaL_Reg server[] = {{"next", l_server_next},
                                    {"wait", l_server_wait},
                                    {"send", l_server_send},
                                    {"close", l_server_close},
                                    {NULL, NULL}};
  static const luaL_Reg client[] = {
      {"write", l_client_write}, {"read", l_client_read}, {"close", l_client_close}, {NULL, NULL}};
  static const luaL_Reg server_meta[] = {
      {"__gc", l_server_close}, {"__close", l_server_close}, {NULL, NULL}};
  static const luaL_Reg client_meta[] = {
      {"__gc", l_client_close}, {"__close", l_client_close}, {NULL, NULL}};
  make_type(L, SERVER_TYPE, server_meta, server);
  make_type(L, CLIENT_TYPE, client_meta, client);
  luaL_newlib(L, functions);
  set_integer(L, "longest", CHANNEL_LINE); /* the most bytes of a line */
  set_integer(L, "clients", CHANNEL_CLIENTS);
  lua_setfield(L, -2, "channel");
}

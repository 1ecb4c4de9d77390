/* lua_messages.c - core.messages: messages over TCP (os/messages.h), and what a secret that two
 * sides share is checked with.
 *
 *   listen(host, port) -> listener:        accept() -> peer | nil    port()    close()
 *   connect(host, port, seconds) -> peer:  next() -> kind, bytes | nil | false, why it has failed
 *                                          send(kind, bytes)    limit(bytes)
 *                                          waiting(), sent(), came() -> bytes
 *                                          address()    close()
 *   wait(seconds, listener or nil, list of peers)
 *   random(n) -> bytes    hmac(key, text) -> 64 digits    same(a, b)
 * After a failure listen and connect return nil, message, code.
 */
#include "base/hmac.h"
#include "base/mem.h"
#include "os/messages.h"
#include "os/random.h"
#include "script/binding.h"

#define LISTENER_TYPE "grpo.MessageListener"
#define PEER_TYPE     "grpo.MessagePeer"

enum { MOST_RANDOM = 1024, MOST_PEERS = 1024 };

static MessageListener *check_listener(lua_State *L, int arg) {
  MessageListener **l = check_object(L, arg, LISTENER_TYPE);
  if (!*l) arg_error(L, arg, "the listener is closed");
  return *l;
}

static MessagePeer *check_peer(lua_State *L, int arg) {
  MessagePeer **p = check_object(L, arg, PEER_TYPE);
  if (!*p) arg_error(L, arg, "the connection is closed");
  return *p;
}

/* Pushes an object for a peer that is not there yet. */
static MessagePeer **push_peer(lua_State *L) {
  MessagePeer **p = new_object(L, sizeof *p, 0);
  *p = NULL;
  luaL_setmetatable(L, PEER_TYPE);
  return p;
}

/* ---- listening ---------------------------------------------------------------------------- */

static int l_listen(lua_State *L) {
  const char *host = check_string(L, 1, NULL);
  const int port = (int)check_integer(L, 2, 0, 65535);
  MessageListener **l = new_object(L, sizeof *l, 0);
  *l = NULL;
  luaL_setmetatable(L, LISTENER_TYPE);
  const Status s = messages_listen(l, host, port);
  return s ? push_failure(L, s) : 1;
}

static int l_accept(lua_State *L) {
  MessageListener *l = check_listener(L, 1);
  MessagePeer **p = push_peer(L);
  want_ok(L, messages_accept(l, p));
  if (!*p) lua_pushnil(L);
  return 1;
}

static int l_port(lua_State *L) {
  lua_pushinteger(L, messages_port(check_listener(L, 1)));
  return 1;
}

static int l_listener_close(lua_State *L) {
  MessageListener **l = check_object(L, 1, LISTENER_TYPE), *old = *l;
  *l = NULL;
  messages_stop(old);
  return 0;
}

/* ---- a peer ------------------------------------------------------------------------------- */

static int l_connect(lua_State *L) {
  const char *host = check_string(L, 1, NULL);
  const int port = (int)check_integer(L, 2, 1, 65535);
  const double seconds = check_number(L, 3);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 3, "want 0 to 3600 seconds");
  const Status s = messages_connect(push_peer(L), host, port, seconds);
  return s ? push_failure(L, s) : 1;
}

static int l_next(lua_State *L) {
  MessagePeer *p = check_peer(L, 1);
  Message m;
  if (messages_next(p, &m)) {
    lua_pushinteger(L, m.kind);
    lua_pushlstring(L, m.data, m.len);
    return 2;
  }
  if (!messages_failure(p)) return 0;
  lua_pushboolean(L, 0);
  lua_pushstring(L, messages_failure(p));
  return 2;
}

static int l_send(lua_State *L) {
  size_t n;
  MessagePeer *p = check_peer(L, 1);
  const int kind = (int)check_integer(L, 2, 0, 255);
  const char *data = check_string(L, 3, &n);
  want_ok(L, messages_send(p, kind, data, n));
  return 0;
}

static int l_limit(lua_State *L) {
  MessagePeer *p = check_peer(L, 1);
  messages_limit(p, (size_t)check_integer(L, 2, 0, UINT32_MAX));
  return 0;
}

static int l_waiting(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)messages_waiting(check_peer(L, 1)));
  return 1;
}

static int l_sent(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)messages_sent(check_peer(L, 1)));
  return 1;
}

static int l_came(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)messages_came(check_peer(L, 1)));
  return 1;
}

static int l_address(lua_State *L) {
  lua_pushstring(L, messages_address(check_peer(L, 1)));
  return 1;
}

static int l_peer_close(lua_State *L) {
  MessagePeer **p = check_object(L, 1, PEER_TYPE), *old = *p;
  *p = NULL;
  messages_close(old);
  return 0;
}

/* ---- all of them --------------------------------------------------------------------------- */

static int l_wait(lua_State *L) {
  const double seconds = check_number(L, 1);
  MessageListener *l = lua_isnil(L, 2) ? NULL : check_listener(L, 2);
  check_table(L, 3);
  if (!(seconds >= 0 && seconds <= 3600)) arg_error(L, 1, "want 0 to 3600 seconds");
  const int n = (int)lua_rawlen(L, 3);
  if (n > MOST_PEERS) arg_error(L, 3, "these are too many");
  MessagePeer **peers = push_scratch(L, (size_t)n + 1, sizeof *peers);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    peers[i] = check_peer(L, -1);
    lua_pop(L, 1);
  }
  messages_wait(l, peers, n, seconds);
  return 0;
}

/* ---- secrets ------------------------------------------------------------------------------- */

static int l_random(lua_State *L) {
  char bytes[MOST_RANDOM];
  const size_t n = (size_t)check_integer(L, 1, 0, sizeof bytes);
  want_ok(L, random_bytes(bytes, n));
  lua_pushlstring(L, bytes, n);
  return 1;
}

static int l_hmac(lua_State *L) {
  size_t nkey, n;
  const char *key = check_string(L, 1, &nkey), *text = check_string(L, 2, &n);
  char hex[DIGEST_HEX_BYTES];
  hmac_sha256(key, nkey, text, n, hex);
  lua_pushstring(L, hex);
  return 1;
}

static int l_same(lua_State *L) {
  size_t na, nb;
  const char *a = check_string(L, 1, &na), *b = check_string(L, 2, &nb);
  lua_pushboolean(L, na == nb && hmac_equal(a, b, na));
  return 1;
}

CORE_PART(messages) {
  static const luaL_Reg functions[] = {FN(listen), FN(connect), FN(wait),    FN(random),
                                       FN(hmac),   FN(same),    {NULL, NULL}};
  static const luaL_Reg listener[] = {
      FN(accept), FN(port), {"close", l_listener_close}, {NULL, NULL}};
  static const luaL_Reg listener_meta[] = {
      {"__gc", l_listener_close}, {"__close", l_listener_close}, {NULL, NULL}};
  static const luaL_Reg peer[] = {FN(next),    FN(send),    FN(limit),   FN(sent),
                                  FN(came),    FN(waiting), FN(address), {"close", l_peer_close},
                                  {NULL, NULL}};
  static const luaL_Reg peer_meta[] = {
      {"__gc", l_peer_close}, {"__close", l_peer_close}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "messages");
  make_type(L, LISTENER_TYPE, listener_meta, listener);
  make_type(L, PEER_TYPE, peer_meta, peer);
}

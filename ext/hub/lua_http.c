/* lua_http.c - core.http_get and core.file_digest, for `grpo pull`.
 *
 *   http_get { url =, headers = { "Name: value" }, path =, offset =, max = } -> transfer
 *     transfer:step(seconds) -> done, bytes so far
 *     transfer:response() -> { status =, headers = text, body =, problem = | nil, hopeless = }
 *     transfer:sync()  transfer:close()
 *   http_library() -> its name and version, or "none"
 *   file_digest(path, "sha1" | "sha256"[, prefix]) -> digits: of the prefix and the file
 * After a failure of this machine http_get, step, sync and file_digest return nil, message, code.
 */
#include <string.h>

#include "base/digest.h"
#include "hub/http.h"
#include "os/file.h"
#include "os/libcurl.h"
#include "script/binding.h"
#define TRANSFER_TYPE "grpo.HttpTransfer"

static HttpTransfer *check_transfer(lua_State *L) {
  return check_handle(L, 1, TRANSFER_TYPE, "the transfer is closed");
}

/* The strings of the field `headers` as a list that ends with NULL; they stay on the stack. */
static const char *const *read_headers(lua_State *L, int index) {
  if (lua_getfield(L, index, "headers") == LUA_TNIL) return NULL;
  check_table(L, lua_gettop(L));
  const size_t n = lua_rawlen(L, -1);
  const char **list = push_scratch(L, n + 1, sizeof *list);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    list[i] = check_string(L, lua_gettop(L), NULL);
    lua_pop(L, 1); /* the table has it */
  }
  list[n] = NULL;
  return list;
}

static uint64_t field_bytes(lua_State *L, int index, const char *name) {
  lua_getfield(L, index, name);
  const lua_Integer n = lua_isnil(L, -1) ? 0 : check_integer(L, lua_gettop(L), 0, LUA_MAXINTEGER);
  lua_pop(L, 1);
  return (uint64_t)n;
}

/* http_library() -> "libcurl/8.1.2", "none"; it is not part of core.version(), because loading it
 * takes time. */
static int l_http_library(lua_State *L) {
  const char *version = libcurl_version();
  if (version)
    lua_pushlstring(L, version, strcspn(version, " "));
  else
    lua_pushliteral(L, "none");
  return 1;
}

static int l_http_get(lua_State *L) {
  static const char *const known[] = {"url", "headers", "path", "offset", "max", NULL};
  HttpRequest r = {0};
  check_table(L, 1);
  lua_settop(L, 1);
  check_fields(L, 1, "http_get", known);
  if (!field_string(L, 1, "http_get", "url", &r.url)) arg_error(L, 1, "url is missing");
  field_string(L, 1, "http_get", "path", &r.path);
  r.offset = field_bytes(L, 1, "offset");
  r.max = field_bytes(L, 1, "max");
  r.headers = read_headers(L, 1);
  HttpTransfer **t = new_handle(L, TRANSFER_TYPE);
  const Status s = http_begin(t, &r);
  return s ? push_failure(L, s) : 1;
}

static int l_transfer_step(lua_State *L) {
  bool done = false;
  HttpTransfer *t = check_transfer(L);
  const Status s = http_step(t, check_number(L, 2), &done);
  if (s) return push_failure(L, s);
  lua_pushboolean(L, done);
  lua_pushinteger(L, (lua_Integer)http_bytes(t));
  return 2;
}

static int l_transfer_response(lua_State *L) {
  const HttpResponse *r = http_response(check_transfer(L));
  lua_createtable(L, 0, 5);
  set_integer(L, "status", r->status);
  push_bytes(L, &r->headers);
  lua_setfield(L, -2, "headers");
  push_bytes(L, &r->body);
  lua_setfield(L, -2, "body");
  set_bool(L, "hopeless", r->hopeless);
  if (r->problem.len) set_string(L, "problem", r->problem.data);
  return 1;
}

static int l_transfer_sync(lua_State *L) { return give_done(L, http_sync(check_transfer(L))); }

static int l_transfer_close(lua_State *L) {
  http_end(take_handle(L, 1, TRANSFER_TYPE));
  return 0;
}

static Status digest_of(const char *path, DigestKind kind, const char *prefix, size_t n, Buf *piece,
                        char *hex) {
  FileInput *f;
  Digest d;
  try(file_input_open(&f, path));
  digest_begin(&d, kind);
  digest_put(&d, prefix, n);
  const uint64_t size = file_input_size(f);
  Status s = GRPO_OK;
  for (uint64_t at = 0; s == GRPO_OK && at < size; at += piece->len) {
    const size_t part = size - at < piece->len ? (size_t)(size - at) : piece->len;
    s = file_input_read(f, at, part, piece->data);
    if (s == GRPO_OK) digest_put(&d, piece->data, part);
  }
  file_input_close(f);
  digest_end(&d, hex);
  return s;
}

static int l_file_digest(lua_State *L) {
  static const char *const kinds[] = {"sha1", "sha256", NULL};
  char hex[DIGEST_HEX_BYTES];
  size_t n = 0;
  const char *path = check_string(L, 1, NULL);
  const int kind = luaL_checkoption(L, 2, NULL, kinds);
  const char *prefix = lua_isnoneornil(L, 3) ? "" : check_string(L, 3, &n);
  Buf piece = {.len = 1 << 20};
  piece.data = push_scratch(L, piece.len, 1);
  const Status s = digest_of(path, kind ? DIGEST_SHA256 : DIGEST_SHA1, prefix, n, &piece, hex);
  if (s) return push_failure(L, s);
  return give_string(L, hex);
}

EXTENSION_PART(http) {
  static const luaL_Reg functions[] = {
      FN(http_get), FN(http_library), FN(file_digest), {NULL, NULL}};
  static const luaL_Reg methods[] = {{"step", l_transfer_step},
                                     {"response", l_transfer_response},
                                     {"sync", l_transfer_sync},
                                     {"close", l_transfer_close},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__gc", l_transfer_close}, {"__close", l_transfer_close}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  make_type(L, TRANSFER_TYPE, meta, methods);
}

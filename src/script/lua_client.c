/* lua_client.c - programs and servers that are asked.
 *
 *   core.line_program(argv) -> program
 *     program:send(line)   program:close()
 *     program:step(seconds) -> line | nil, problem: nil if the time is over
 *   core.http_client(purpose) -> requests     (purpose: why libcurl is needed, os/libcurl.h)
 *     requests:post(place, { url =, headers = { "Name: value" }, body =, seconds = })
 *     requests:step(seconds)   requests:close()
 *     requests:answer(place) -> { status =, header =, body =, problem = } | nil: not done
 *   core.http_client_library() -> "libcurl/8.1.2", "none"
 *
 * Time that passes while we wait does not count for the limited call, because requests have limits
 * of their own.  After a failure of this machine the functions raise it.
 */
#include <string.h>

#include "base/clock.h"
#include "os/http_client.h"
#include "os/libcurl.h"
#include "os/line_program.h"
#include "script/binding.h"
#include "script/interrupt.h"
#define PROGRAM_TYPE "grpo.LineProgram"
#define HTTP_TYPE    "grpo.HttpClient"

/* The strings of the list at index, NULL after the last; the table keeps them. */
static const char **read_list(lua_State *L, int index) {
  check_table(L, index);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  const char **list = push_scratch(L, (size_t)n + 1, sizeof *list);
  for (lua_Integer i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    list[i] = check_string(L, lua_gettop(L), NULL);
    lua_pop(L, 1);
  }
  return list;
}

/* ---- a program ------------------------------------------------------------------------ */

static LineProgram *check_program(lua_State *L) {
  return check_handle(L, 1, PROGRAM_TYPE, "the program is closed");
}

static int l_line_program(lua_State *L) {
  lua_settop(L, 1);
  const char **argv = read_list(L, 1);
  if (!argv[0]) arg_error(L, 1, "want the words of a command");
  LineProgram **p = new_handle(L, PROGRAM_TYPE);
  const Status s = line_program_start(p, (char *const *)(void *)argv);
  return s ? raise_status(L, s) : 1;
}

static int l_program_send(lua_State *L) {
  size_t n;
  const char *line = check_string(L, 2, &n);
  const Status s = line_program_send(check_program(L), line, n);
  return s ? raise_status(L, s) : 0;
}

static int l_program_step(lua_State *L) {
  LineProgram *p = check_program(L);
  const char *line;
  size_t n;
  const double seconds = check_number(L, 2), started = clock_seconds();
  const Status s = line_program_step(p, seconds, &script_cancel);
  excuse_time(L, clock_seconds() - started);
  if (s) return raise_status(L, s);
  if (line_program_line(p, &line, &n)) {
    make_room(L, n);
    lua_pushlstring(L, line, n);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, line_program_problem(p));
  return 2;
}

static int l_program_close(lua_State *L) {
  line_program_end(take_handle(L, 1, PROGRAM_TYPE));
  return 0;
}

/* ---- requests ------------------------------------------------------------------------- */

static HttpClient *check_http(lua_State *L) {
  return check_handle(L, 1, HTTP_TYPE, "the requests are closed");
}

static int l_http_client(lua_State *L) {
  const char *purpose = check_string(L, 1, NULL);
  HttpClient **h = new_handle(L, HTTP_TYPE);
  const Status s = http_client_open(h, purpose);
  return s ? raise_status(L, s) : 1;
}

static int check_place(lua_State *L) { return (int)check_integer(L, 2, 1, HTTP_PLACES) - 1; }

static int l_http_post(lua_State *L) {
  static const char *const known[] = {"url", "headers", "body", "seconds", NULL};
  HttpClient *h = check_http(L);
  HttpPost post = {0};
  const int place = check_place(L);
  lua_settop(L, 3);
  check_table(L, 3);
  check_fields(L, 3, "post", known);
  if (!field_string(L, 3, "post", "url", &post.url)) arg_error(L, 3, "url is missing");
  field_number(L, 3, "post", "seconds", 0, 1e6, &post.seconds);
  lua_getfield(L, 3, "body");
  post.body = check_string(L, lua_gettop(L), &post.size);
  lua_getfield(L, 3, "headers");
  post.headers = read_list(L, lua_gettop(L));
  const Status s = http_client_post(h, place, &post);
  return s ? raise_status(L, s) : 0;
}

static int l_http_step(lua_State *L) {
  HttpClient *h = check_http(L);
  const double seconds = check_number(L, 2), started = clock_seconds();
  const Status s = http_client_step(h, seconds, &script_cancel);
  excuse_time(L, clock_seconds() - started);
  return s ? raise_status(L, s) : 0;
}

static int l_http_answer(lua_State *L) {
  const HttpAnswer *a = http_client_answer(check_http(L), check_place(L));
  if (!a) return 0;
  make_room(L, a->header.len + a->body.len);
  lua_createtable(L, 0, 4);
  set_integer(L, "status", a->status);
  push_bytes(L, &a->header);
  lua_setfield(L, -2, "header");
  push_bytes(L, &a->body);
  lua_setfield(L, -2, "body");
  if (a->problem.len) set_string(L, "problem", a->problem.data);
  return 1;
}

static int l_http_close(lua_State *L) {
  http_client_close(take_handle(L, 1, HTTP_TYPE));
  return 0;
}

static int l_http_client_library(lua_State *L) {
  const char *version = libcurl_version();
  if (!version) return give_string(L, "none");
  lua_pushlstring(L, version, strcspn(version, " "));
  return 1;
}

CORE_PART(client) {
  static const luaL_Reg functions[] = {
      FN(line_program), FN(http_client), FN(http_client_library), {NULL, NULL}};
  static const luaL_Reg program[] = {
      {"send", l_program_send}, {"step", l_program_step}, {"close", l_program_close}, {NULL, NULL}};
  static const luaL_Reg program_meta[] = {
      {"__gc", l_program_close}, {"__close", l_program_close}, {NULL, NULL}};
  static const luaL_Reg http[] = {{"post", l_http_post},
                                  {"step", l_http_step},
                                  {"answer", l_http_answer},
                                  {"close", l_http_close},
                                  {NULL, NULL}};
  static const luaL_Reg http_meta[] = {
      {"__gc", l_http_close}, {"__close", l_http_close}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  set_integer(L, "http_places", HTTP_PLACES);
  make_type(L, PROGRAM_TYPE, program_meta, program);
  make_type(L, HTTP_TYPE, http_meta, http);
}

/* lua_checkpoint.c - checkpoints of a run (checkpoint/run_checkpoint.h). */
#include <string.h>

#include "checkpoint/run_checkpoint.h"
#include "script/binding.h"

static int l_begin(lua_State *L) {
  const char *dir = check_string(L, 1, NULL);
  Buf *tmp = push_buf(L);
  want_ok(L, run_checkpoint_begin(dir, tmp));
  lua_pushlstring(L, tmp->data, tmp->len);
  return 1;
}

static int l_commit(lua_State *L) {
  const char *tmp = check_string(L, 1, NULL), *dir = check_string(L, 2, NULL);
  want_ok(L, run_checkpoint_commit(tmp, dir));
  return give_boolean(L, 1);
}

static int l_verify(lua_State *L) {
  want_ok(L, run_checkpoint_verify(check_string(L, 1, NULL)));
  return give_boolean(L, 1);
}

static int l_remove(lua_State *L) {
  want_ok(L, run_checkpoint_remove(check_string(L, 1, NULL)));
  return give_boolean(L, 1);
}

/* checkpoint_name(step) -> its path within the run */
static int l_name(lua_State *L) {
  char name[RUN_CHECKPOINT_NAME_BYTES];
  run_checkpoint_name(name, check_integer(L, 1, 0, LUA_MAXINTEGER));
  return give_string(L, name);
}

/* checkpoint_steps(run) -> list of the steps, ascending */
static int l_steps(lua_State *L) {
  const char *run = check_string(L, 1, NULL);
  Buf *steps = push_buf(L);
  want_ok(L, run_checkpoint_steps(run, steps));
  const size_t n = steps->len / sizeof(int64_t);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    int64_t step;
    memcpy(&step, steps->data + i * sizeof step, sizeof step);
    lua_pushinteger(L, step);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* checkpoint_newest(run) -> path; nil, message, code when there is none */
static int l_newest(lua_State *L) {
  const char *run = check_string(L, 1, NULL);
  Buf *path = push_buf(L);
  const Status s = run_checkpoint_newest(run, path);
  if (s) return push_failure(L, s);
  lua_pushlstring(L, path->data, path->len);
  return 1;
}

CORE_FUNCTIONS(checkpoint, {"checkpoint_begin", l_begin}, {"checkpoint_commit", l_commit},
               {"checkpoint_name", l_name}, {"checkpoint_newest", l_newest},
               {"checkpoint_remove", l_remove}, {"checkpoint_steps", l_steps},
               {"checkpoint_verify", l_verify})

/* lua_sandbox.c - core.sandbox runs code that a model wrote in a Lua state of its own.
 *
 *   core.sandbox(code, env, limits, process) -> ok, results | message, output
 *
 * code is source text; env and results are bytes of core.state_encode; limits is a table {
 * instructions=, memory=, seconds= }; process = true adds a process of its own (confined.h).
 * grpo/sandbox/inside.lua runs in the new state.  The limited call that asked pays for the
 * instructions.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/confined.h"
#include "script/binding.h"
#include "script/environment.h"
#include "script/lua_limits.h"
#include "script/lua_serialize.h"
#include "script/lua_vm.h"
#include "script/parts.h"
#include "script/script_impl.h"

enum {
  LARGEST_ANSWER = 64 << 20, /* bytes */
  GRACE = 1                  /* seconds that a process may be late before it is killed */
};

typedef struct Task {
  const EmbeddedFile *files;
  lua_CFunction core;
  const char *code, *env;
  size_t code_size, env_size;
  Limits limits;
} Task;

/* The head of an answer; its two texts follow.  Code may have taken over its process, so any bytes
 * may arrive here, and a bool that holds another byte than 0 and 1 is undefined. */
typedef struct Answer {
  uint64_t used;         /* instructions */
  size_t result, output; /* bytes */
  unsigned char ok, no_memory;
} Answer;

/* In the inner state: (Task) -> ok, result, output */
static int protected_inside(lua_State *L) {
  const Task *t = lua_touserdata(L, 1);
  lua_settop(L, 0);
  push_module(L, "grpo.sandbox.inside");
  lua_newtable(L); /* the part of grpo.core that inside.lua needs */
  limits_open(L);
  serialize_open(L);
  lua_pushlstring(L, t->code, t->code_size);
  lua_pushlstring(L, t->env, t->env_size);
  lua_createtable(L, 0, 3);
  set_number(L, "instructions", (lua_Number)t->limits.instructions);
  set_number(L, "memory", (lua_Number)t->limits.memory);
  set_number(L, "seconds", t->limits.seconds);
  lua_call(L, 4, 3);
  return 3;
}

/* Appends an answer.  The value at `result` is a string or an error.  Nothing here may call what
 * the code has left behind, such as a metamethod. */
static void put_answer(Buf *b, lua_State *L, bool ok, int result, int output) {
  const Script *s = script_of(L);
  Answer a = {.ok = ok, .used = s->used, .no_memory = !ok && s->no_memory};
  const char *r = lua_tolstring(L, result, &a.result);
  if (!r) a.result = strlen(r = raw_message(L, result));
  const char *o = output ? lua_tolstring(L, output, &a.output) : "";
  buf_put(b, &a, sizeof a);
  buf_put(b, r, a.result);
  buf_put(b, o, a.output);
}

static const char no_memory[] = "not enough memory";

static void put_no_memory(Buf *b) {
  const Answer a = {.no_memory = true, .result = sizeof no_memory - 1};
  buf_put(b, &a, sizeof a);
  buf_puts(b, no_memory);
}

/* In the inner state: (Task, Buf) */
static int protected_task(lua_State *L) {
  Buf *b = lua_touserdata(L, 2);
  lua_pushcfunction(L, protected_inside);
  lua_pushvalue(L, 1);
  if (call_protected(L, 1, 3))
    put_answer(b, L, lua_toboolean(L, -3), lua_gettop(L) - 1, lua_gettop(L));
  else
    put_answer(b, L, false, lua_gettop(L), 0);
  return 0;
}

static void run_task(void *user, Buf *b) {
  Script *s;
  if (script_open(&s, ((const Task *)user)->files, ((const Task *)user)->core)) {
    put_no_memory(b);
    return;
  }
  lua_State *L = script_state(s);
  lua_pushcfunction(L, protected_task);
  lua_pushlightuserdata(L, user);
  lua_pushlightuserdata(L, b);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) put_no_memory(b);
  script_close(s);
}

/* Lowers the limits to what the limited call around this one has left. */
static void inherit(const Script *s, Limits *l) {
  const Budget *b = s->budget;
  if (!b) return;
  if (b->left < l->instructions) l->instructions = b->left ? b->left : 1;
  if (b->deadline > 0) {
    const double left = b->deadline - clock_seconds();
    if (left < l->seconds) l->seconds = left > 1e-3 ? left : 1e-3;
  }
}

/* A process has less memory than the machine, so there the code is to blame. */
static int push_answer(lua_State *L, const Buf *b, bool process) {
  Answer a;
  if (b->len < sizeof a) return raise_new(L, GRPO_EINTERNAL, "sandbox: there is no answer");
  memcpy(&a, b->data, sizeof a);
  if (a.no_memory && !process) return raise_new(L, GRPO_ENOMEM, "sandbox: %s", no_memory);
  if (b->len - sizeof a < a.result || b->len - sizeof a - a.result != a.output)
    return raise_new(L, GRPO_EINTERNAL, "sandbox: the answer is incomplete");
  make_room(L, a.result + a.output);
  const uint64_t work = (a.result + a.output) / 16;
  charge_work(L, a.used < UINT64_MAX - work ? a.used + work : UINT64_MAX);
  lua_pushboolean(L, a.ok);
  lua_pushlstring(L, b->data + sizeof a, a.result);
  lua_pushlstring(L, b->data + sizeof a + a.result, a.output);
  return 3;
}

static int l_sandbox(lua_State *L) {
  const Script *s = script_of(L);
  Task t = {.files = s->files, .core = s->core};
  t.code = check_string(L, 1, &t.code_size);
  t.env = check_string(L, 2, &t.env_size);
  check_limits(L, 3, &t.limits);
  const bool process = lua_toboolean(L, 4);
  inherit(s, &t.limits);
  Buf *b = push_buf(L);
  if (process) {
    const ConfinedLimits l = {t.limits.seconds + GRACE, t.limits.memory + t.code_size + t.env_size,
                              LARGEST_ANSWER};
    const Status status = confined_run(run_task, &t, &l, b);
    if (status) {
      charge_work(L, t.limits.instructions); /* we cannot know how many it used */
      lua_pushboolean(L, 0);
      lua_pushfstring(L, "sandbox: %s", err_message());
      lua_pushliteral(L, "");
      return 3;
    }
  } else {
    run_task(&t, b);
  }
  if (buf_status(b)) return raise_status(L, buf_status(b));
  push_answer(L, b, process);
  keep_buf(L, b);
  return 3;
}

EXTENSION_PART(sandbox) {
  static const luaL_Reg functions[] = {FN(sandbox), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}

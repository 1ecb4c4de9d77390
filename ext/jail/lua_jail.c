/* lua_jail.c - core.jail: commands that are not trusted (os/jail.h).
 *
 *   core.jail(tasks, at_once) -> list of { ended=, code=, seconds=, output=, errors= } | nil,
 *                                message, code
 *
 * A task is a table that grpo/jail.lua has checked: command, env and read are lists of strings,
 * files is a list of { name, text }; input; cpu_seconds, wall_seconds, memory, disk, output,
 * processes, probe.  at_once 0: as many as there are cores.  The time does not count for the
 * limited call that asked, because tasks have limits of their own.
 */
#include "base/clock.h"
#include "base/pool.h"
#include "jail/jail.h"
#include "script/binding.h"
#include "script/interrupt.h"

enum { KEPT = 3 }; /* the table that keeps what a task points to */

/* Keeps the value on top in the table KEPT, and pops it. */
static void keep(lua_State *L) { lua_rawseti(L, KEPT, (lua_Integer)lua_rawlen(L, KEPT) + 1); }

/* The strings live in the tables of the task. */
static const char *const *strings(lua_State *L, int task, const char *field) {
  lua_getfield(L, task, field);
  check_table(L, -1);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  const char **list = push_scratch(L, (size_t)n + 1, sizeof *list);
  keep(L);
  for (lua_Integer i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    list[i] = check_string(L, -1, NULL);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return list;
}

static const JailFile *files_of(lua_State *L, int task, int *n) {
  lua_getfield(L, task, "files");
  check_table(L, -1);
  *n = (int)lua_rawlen(L, -1);
  JailFile *files = push_scratch(L, (size_t)*n + 1, sizeof *files);
  keep(L);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, -1, i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    files[i].name = check_string(L, -2, NULL);
    files[i].data = check_string(L, -1, &files[i].size);
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
  return files;
}

static double number(lua_State *L, int task, const char *field) {
  lua_getfield(L, task, field);
  const double v = check_number(L, -1);
  lua_pop(L, 1);
  return v;
}

static void read_task(lua_State *L, int task, JailTask *t) {
  t->command = strings(L, task, "command");
  t->env = strings(L, task, "env");
  t->readable = strings(L, task, "read");
  t->files = files_of(L, task, &t->num_files);
  lua_getfield(L, task, "input");
  t->input = check_string(L, -1, &t->input_size);
  lua_getfield(L, task, "probe");
  t->probe = lua_toboolean(L, -1);
  lua_pop(L, 2);
  t->cpu_seconds = number(L, task, "cpu_seconds");
  t->wall_seconds = number(L, task, "wall_seconds");
  t->memory = (size_t)number(L, task, "memory");
  t->disk = (size_t)number(L, task, "disk");
  t->output = (size_t)number(L, task, "output");
  t->processes = (int)number(L, task, "processes");
}

static void push_result(lua_State *L, const JailResult *r) {
  static const char *const ends[] = {"exit", "signal", "cpu", "wall", "output"};
  make_room(L, r->out->len + r->err->len);
  charge_work(L, (r->out->len + r->err->len) / 16);
  lua_createtable(L, 0, 5);
  set_string(L, "ended", ends[r->end]);
  set_integer(L, "code", r->code);
  set_number(L, "seconds", r->cpu);
  push_bytes(L, r->out);
  lua_setfield(L, -2, "output");
  push_bytes(L, r->err);
  lua_setfield(L, -2, "errors");
}

static int l_jail(lua_State *L) {
  check_table(L, 1);
  const int at_once = (int)check_integer(L, 2, 0, JAIL_AT_ONCE), n = (int)lua_rawlen(L, 1);
  lua_settop(L, KEPT - 1);
  lua_newtable(L);
  JailTask *tasks = push_scratch(L, (size_t)n + 1, sizeof *tasks);
  JailResult *results = push_scratch(L, (size_t)n + 1, sizeof *results);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    read_task(L, lua_gettop(L), &tasks[i]);
    lua_pop(L, 1);
    results[i].out = push_buf(L);
    keep(L);
    results[i].err = push_buf(L);
    keep(L);
  }
  const double started = clock_seconds();
  const Status s = jail_run(tasks, results, n, at_once ? at_once : pool_cores(), &script_cancel);
  excuse_time(L, clock_seconds() - started);
  if (s) return push_failure(L, s);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_result(L, &results[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

EXTENSION_PART(jail) {
  static const luaL_Reg functions[] = {FN(jail), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  set_integer(L, "jail_at_once", JAIL_AT_ONCE); /* the most that run side by side */
}

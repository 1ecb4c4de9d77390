/* Limits that end in time: what a call may still do after Ctrl-C has come, or the time is over, is
 * counted and not timed. */
#include <lualib.h>
#include <string.h>

#include "base/clock.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/interrupt.h"
#include "script/lua_vm.h"
#include "testing.h"

static const EmbeddedFile files[] = {{0}};

/* From the call of cut() on, the running limited call must end. */
static int l_cut(lua_State *L) {
  (void)L;
  script_interrupted = 1;
  return 0;
}

/* From the call of signal() on, a signal waits for the run. */
static int l_signal(lua_State *L) {
  (void)L;
  script_cancel = 1;
  return 0;
}

static int calls;
static int l_count(lua_State *L) {
  calls++;
  lua_pushnil(L);
  return 1;
}
static int l_count_and_cut(lua_State *L) {
  script_interrupted = 1;
  return l_count(L);
}
static int l_before(lua_State *L) {
  calls++;
  script_interrupted = 1;
  lua_pushboolean(L, lua_tointeger(L, 1) < lua_tointeger(L, 2));
  return 1;
}

/* wait(s): returns when the clock has moved on by s seconds. */
static int l_wait(lua_State *L) {
  const double until = clock_seconds() + luaL_checknumber(L, 1);
  while (clock_seconds() < until) continue;
  return 0;
}

static const Limits roomy = {.instructions = 1000000000, .memory = 256 << 20, .seconds = 600};

/* Opens *s with the functions above and leaves the loaded code on its stack. */
static lua_State *loaded(Script **s, const char *code) {
  CHECK(!script_open(s, files, open_core));
  lua_State *L = script_state(*s);
  lua_register(L, "cut", l_cut);
  lua_register(L, "count", l_count);
  lua_register(L, "count_and_cut", l_count_and_cut);
  lua_register(L, "before", l_before);
  lua_register(L, "signal", l_signal);
  lua_register(L, "wait", l_wait);
  calls = 0;
  script_interrupted = 0;
  CHECK(luaL_loadbuffer(L, code, strlen(code), "@exp.lua") == LUA_OK);
  return L;
}

/* Runs code within limits; returns the text of the error, "" if it ended well. */
static const char *run(const char *code, const Limits *limits) {
  static char text[512];
  Script *s = NULL;
  lua_State *L = loaded(&s, code);
  const bool ok = call_limited(L, limits, "f", 0, 0);
  script_interrupted = 0;
  snprintf(text, sizeof text, "%s", ok ? "" : luaL_tolstring(L, -1, NULL));
  script_close(s);
  return text;
}

/* Runs code with a row { a =, b = } of two equal strings of n bytes, within limits. */
static const char *run_with_row(const char *code, size_t n) {
  static char text[512];
  Script *s = NULL;
  lua_State *L = loaded(&s, code);
  lua_newtable(L);
  for (int i = 0; i < 2; i++) {
    luaL_Buffer b;
    memset(luaL_buffinitsize(L, &b, n), 'x', n);
    luaL_pushresultsize(&b, n);
    lua_setfield(L, -2, i ? "b" : "a");
  }
  const bool ok = call_limited(L, &roomy, "f", 1, 0);
  script_interrupted = 0;
  snprintf(text, sizeof text, "%s", ok ? "" : luaL_tolstring(L, -1, NULL));
  script_close(s);
  return text;
}

static void interrupted_within(const char *code, int most) {
  const char *text = run(code, &roomy);
  if (!strstr(text, "f: interrupted")) test_fail(__FILE__, __LINE__, "%s: '%s'", code, text);
  if (calls > most) test_fail(__FILE__, __LINE__, "%s: %d calls more", code, calls);
}

#define BIG  "local a, b = ('x'):rep(16 << 20), ('x'):rep(16 << 20)\n"
#define LIAR "local t = setmetatable({}, { __len = function() return 40000000 end, "

TEST(between_two_looks_at_the_clock_little_is_compared) {
  interrupted_within(BIG "cut() while true do count() local _ = a == b end", 16);
  interrupted_within(BIG "cut() while true do count() local _ = a < b end", 16);
  interrupted_within(BIG "cut() while true do count() rawequal(a, b) end", 16);
  interrupted_within(BIG "coroutine.wrap(function() cut() while true do count() local _ = a <= b "
                         "end end)()",
                     16);
  interrupted_within("local a, b coroutine.wrap(function() a, b = ('x'):rep(16 << 20), "
                     "('x'):rep(16 << 20) end)() cut() while true do count() local _ = a == b end",
                     16);
  interrupted_within("cut() while true do count() local _ = 'a' == 'b' end", 500);
}

/* docs/lua-api.md gives this bound: 512 MiB of each of the two strings. */
TEST(comparisons_between_two_looks_read_no_more_than_the_documented_bytes) {
  static const char *const ways[] = {"==", "<"};
  const double most = 512.0 * (1 << 20);
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    for (int bits = 10; bits <= 26; bits += 4) {
      const size_t n = (size_t)3 << (bits - 2); /* also between powers of two */
      char code[256];
      snprintf(code, sizeof code,
               "local a, b = ('x'):rep(%zu), ('x'):rep(%zu) cut() ::again:: count() "
               "if a %s b then end if a %s b then end goto again",
               n, n, ways[w], ways[w]);
      CHECK(strstr(run(code, &roomy), "f: interrupted"));
      if (calls * 2.0 * (double)n > most)
        test_fail(__FILE__, __LINE__, "%s: %d pairs of %zu bytes", code, calls, n);
      if (w > 0) continue;
      CHECK(strstr(run_with_row("local row = ... cut() while true do count() "
                                "local _ = row.a == row.b end",
                                n),
                   "f: interrupted"));
      if (calls * (double)n > most)
        test_fail(__FILE__, __LINE__, "a row: %d comparisons of %zu bytes", calls, n);
    }
}

TEST(between_two_looks_at_the_clock_little_is_copied) {
  interrupted_within("local a = ('x'):rep(100000) cut() while true do count() local _ = a .. 'b' "
                     "end",
                     500);
  interrupted_within("local a = ('x'):rep(16 << 20) cut() while true do count() local _ = a .. 'b' "
                     "end",
                     2);
  interrupted_within("local t = {} cut() while true do count() for i = 1, 100000 do t[i] = i end "
                     "t = {} end",
                     2);
}

TEST(table_functions_look_at_the_clock_on_their_way) {
  interrupted_within(LIAR "__index = count, __newindex = count_and_cut }) table.insert(t, 1, 1)",
                     1000);
  interrupted_within(LIAR "__index = count, __newindex = count_and_cut }) table.remove(t, 1)",
                     1000);
  interrupted_within(LIAR "__index = count_and_cut }) table.move(t, 1, 40000000, 1, {})", 1000);
  interrupted_within(LIAR "__index = function() cut() count() return '' end }) table.concat(t)",
                     1000);
  interrupted_within("local t = setmetatable({}, { __index = count_and_cut }) "
                     "table.unpack(t, 1, 900000)",
                     1000);
  interrupted_within("local t = {} for i = 1, 100000 do t[i] = i * 7919 % 100003 end "
                     "table.sort(t, before)",
                     1000);
}

TEST(what_is_copied_and_read_is_charged_for) {
  const Limits limits = {.instructions = 1000000, .memory = 64 << 20, .seconds = 600};
  CHECK(strstr(
      run("local a = ('x'):rep(500000) while true do count() local _ = a .. 'b' end", &limits),
      "used up its 1000000 instructions"));
  CHECK(calls > 50 && calls < 200);
  CHECK(strstr(run("local a = (' '):rep(100000) load(function() count() return a end)", &limits),
               "used up its 1000000 instructions"));
  CHECK(calls > 4 && calls < 12);
  CHECK(strstr(run("local a = ('0'):rep(100000) while true do count() tonumber(a) end", &limits),
               "used up its 1000000 instructions"));
  CHECK(calls > 20 && calls < 45);
  CHECK(strstr(run("local t, s = {}, ('x'):rep(1000) for i = 1, 1000 do t[i] = s end "
                   "while true do count() table.sort(t) end",
                   &limits),
               "used up its 1000000 instructions"));
  CHECK(calls < 5);
  /* the same number on every run, whatever the collector did */
  int first = 0;
  for (int i = 0; i < 5; i++) {
    run(i % 2 ? "collectgarbage 'generational' local s = '' while true do count() s = s .. "
                "'0123456789' end"
              : "for i = 1, 1000 do local _ = { i } end local s = '' "
                "while true do count() s = s .. '0123456789' end",
        &limits);
    if (i < 2) first = i == 0 ? calls : first;
    if (i % 2 == 0) CHECK(calls == first);
  }
}

TEST(the_clock_and_ctrl_c_are_looked_at_when_a_call_returns) {
  const Limits limits = {.instructions = 1000000, .seconds = 0.01};
  CHECK(strstr(run("wait(0.02)", &limits), "f: took longer than 0.01 seconds"));
  CHECK_STR(run("wait(0)", &roomy), "");
  interrupted_within("cut()", 0);
}

TEST(a_signal_ends_only_calls_that_obey_it) {
  static const char code[] = "signal() for i = 1, 2000 do count() end";
  Limits limits = roomy;
  CHECK_STR(run(code, &limits), "");
  CHECK(calls == 2000);
  limits.signals = true;
  CHECK(strstr(run(code, &limits), "f: interrupted"));
  CHECK(calls < 500);
  CHECK(strstr(
      run("local limited = require 'grpo.core'.limited "
          "signal() limited({ seconds = 600 }, 'g', function() while true do count() end end)",
          &limits),
      "interrupted"));
  CHECK(calls < 500);
  script_cancel = 0;
}

TEST(a_spent_memory_budget_cannot_be_caught) {
  static const char *const ways[] = {
      "pcall(string.rep, 'x', 1 << 30)",
      "pcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end)",
      "pcall(function() local s = 'x' while true do s = s .. s end end)",
      "xpcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end, function() end)",
      "coroutine.resume(coroutine.create(function() local t = {} for i = 1, 1e9 do t[i] = i end "
      "end))",
      "pcall(coroutine.wrap(function() local t = {} for i = 1, 1e9 do t[i] = i end end))",
      "local n = 0 load(function() n = n + 1 return 'x' .. ('y'):rep(1 << 16) end)",
      "pcall(string.format, '%s%s%s', ('x'):rep(3 << 20), ('x'):rep(3 << 20), ('x'):rep(3 << 20))",
      "pcall(string.char, table.unpack(setmetatable({}, { __index = function() return 65 end }), "
      "1, 100000)) pcall(table.concat, { ('x'):rep(3 << 20), ('x'):rep(3 << 20), ('x'):rep(3 << "
      "20) })",
      "local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(100000 + #t) end) end"};
  const Limits limits = {.instructions = 1000000000, .memory = 16 << 20, .seconds = 600};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char code[512];
    snprintf(code, sizeof code, "%s count()", ways[i]);
    const char *text = run(code, &limits);
    if (!strstr(text, "exp.lua:1: f: needs more than its 16 MB of memory"))
      test_fail(__FILE__, __LINE__, "%s: '%s'", ways[i], text);
    CHECK(calls == 0);
  }
}

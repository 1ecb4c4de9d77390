/* The state from C: modules, protected and limited calls, step tensors, memory that runs out. */
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/foreign_vm.h"
#include "script/lua_tensor.h"
#include "script/lua_vm.h"
#include "testing.h"

static const char half[] = "local m = {}\nfunction m.call(f, ...) return f(...) end\nreturn m\n";
static const char reward[] = "return { one = function() return 1 end }";
static const EmbeddedFile files[] = {
    {"lua/grpo/half.lua", "lua/grpo/half.lua", half, sizeof half - 1},
    {"rewards/one.lua", "rewards/one.lua", reward, sizeof reward - 1},
    {0}};

static Script *open_state(void) {
  Script *s = NULL;
  CHECK(!script_open(&s, files, open_core));
  return s;
}

/* Runs a chunk named exp.lua; pushes its result and returns true, or pushes the error. */
static bool run(lua_State *L, const char *code) {
  if (luaL_loadbuffer(L, code, strlen(code), "@exp.lua") != LUA_OK) return false;
  return call_protected(L, 0, 1);
}

static const char *text(lua_State *L) { return luaL_tolstring(L, -1, NULL); }

static const char *code_of(lua_State *L) {
  lua_getfield(L, -1, "code");
  return lua_tostring(L, -1);
}

TEST(embedded_modules_are_found_last) {
  Script *s = open_state();
  lua_State *L = script_state(s);
  CHECK(run(L, "return require('grpo.half').call(require('rewards.one').one)"));
  CHECK(lua_tointeger(L, -1) == 1);
  CHECK(run(L, "return require('grpo.core').embedded('rewards/one.lua')"));
  CHECK_STR(lua_tostring(L, -1), reward);
  CHECK(run(
      L,
      "package.preload['grpo.half'] = function() return 7 end; package.loaded['grpo.half'] = nil "
      "return require 'grpo.half'"));
  CHECK(lua_tointeger(L, -1) == 7);
  script_close(s);
}

TEST(a_directory_can_replace_embedded_modules) {
  const char *dir = test_path("%s/half", test_tmp()),
             *name = test_path("%s/half/lua/grpo/half.lua", test_tmp());
  CHECK(!file_mkdirs(test_path("%s/lua/grpo", dir)));
  CHECK(!file_replace(name, "return 'replaced'", 17));
  setenv("GRPO_LUA", dir, 1);
  Script *s = open_state();
  unsetenv("GRPO_LUA");
  lua_State *L = script_state(s);
  CHECK(run(L, "return require 'grpo.half'"));
  CHECK_STR(lua_tostring(L, -1), "replaced");
  CHECK(run(L, "return require 'rewards.one'.one()"));
  script_close(s);
}

TEST(errors_carry_the_users_line_through_the_lua_half) {
  Script *s = open_state();
  lua_State *L = script_state(s);
  CHECK(!run(L, "local core, half = require 'grpo.core', require 'grpo.half'\n\n"
                "half.call(core.regex, nil)\n"));
  CHECK(strncmp(text(L), "exp.lua:3: bad argument #1", 26) == 0);
  lua_pop(L, 1);
  CHECK_STR(code_of(L), "EARG");
  script_close(s);
}

TEST(a_failed_call_leaves_one_error_object) {
  Script *s = open_state();
  lua_State *L = script_state(s);
  const Limits limits = {.instructions = 100000, .memory = 1 << 20, .seconds = 10};
  const char *const bad[] = {"error('x')",
                             "error({})",
                             "error()",
                             "while true do end",
                             "return ('x'):rep(1 << 24)",
                             "local t = {} while true do t = {t} end",
                             "return nil + 1",
                             "error(setmetatable({}, {__tostring = function() error() end}))"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int top = lua_gettop(L);
    luaL_loadbuffer(L, bad[i], strlen(bad[i]), "@exp.lua");
    CHECK(!call_limited(L, &limits, "f", 0, LUA_MULTRET));
    CHECK(lua_gettop(L) == top + 1);
    CHECK(lua_istable(L, -1));
    CHECK(code_of(L) != NULL);
    lua_settop(L, top);
  }
  script_close(s);
}

TEST(results_come_back_whatever_their_number) {
  Script *s = open_state();
  lua_State *L = script_state(s);
  const Limits none = {0};
  luaL_loadstring(L, "return ...");
  lua_pushinteger(L, 1);
  lua_pushinteger(L, 2);
  CHECK(call_limited(L, &none, "f", 2, LUA_MULTRET));
  CHECK(lua_gettop(L) == 2 && lua_tointeger(L, 2) == 2);
  luaL_loadstring(L, "return 1, 2, 3");
  CHECK(call_limited(L, &none, "f", 0, 1));
  CHECK(lua_gettop(L) == 3);
  luaL_loadstring(L, "return");
  CHECK(call_limited(L, &none, "f", 0, 2));
  CHECK(lua_gettop(L) == 5 && lua_isnil(L, -1));
  script_close(s);
}

TEST(step_tensors_go_stale_with_advice) {
  Script *s = open_state();
  lua_State *L = script_state(s);
  const int dim[] = {3};
  Value *v;
  CHECK(run(L, "return require 'grpo.core'"));
  CHECK(!value_new(&v, 1, dim));
  push_step_tensor(L, v);
  lua_setglobal(L, "t");
  CHECK(run(L, "kept = t:detach() u = t + 1 return #t"));
  end_step_tensors(L);
  CHECK(!run(L, "return t + 1"));
  CHECK(strstr(text(L), ":detach()") != NULL);
  lua_pop(L, 1);
  CHECK_STR(code_of(L), "ESTALE");
  CHECK(run(L, "return kept:sum():item() + u:sum():item()"));
  CHECK(lua_tonumber(L, -1) == 3);
  script_close(s);
}

/* Each allocation of the engine fails in turn, which must give an error and lose nothing. */
TEST(running_out_of_memory_is_an_error_everywhere) {
  static const char code[] =
      "local core = require 'grpo.core'\n"
      "local t = core.tensor({1, 2, 3}, {requires_grad = true})\n"
      "local u = (t * 2 + core.randn({3}, {seed = 1})):softmax(1):gather(1, {0, 2})\n"
      "u = core.concat({u, u}, 1):segment_mean({1, 1, 2, 2}, 2):sum()\n"
      "u:backward()\n"
      "local l = core.policy_loss('grpo', {logp = t, advantage = {1, 1, 1}}, {})\n"
      "l:backward()\n"
      "local o = core.adamw({t})\n"
      "o:step(0.1)\n"
      "core.json_encode(core.json_decode('{\"a\": [1, 2, {\"b\": null}]}'))\n"
      "core.state_encode({a = {1, 2}})\n"
      "core.regex('(a|b)+c'):gsub('abcab', '%1')\n"
      "local tok = core.tokenizer_bytes()\n"
      "tok:decode(tok:encode('hello'))\n"
      "local m = core.model_new({model_type = 'llama', vocab_size = 258, hidden_size = 8, "
      "intermediate_size = 8,\n"
      "  num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 16}, {tokenizer "
      "= tok})\n"
      "local s = m:score({{1, 2}}, {{3}}, {grad = true})\n"
      "s.logp:sum():backward()\n"
      "m:generate('a', {max_new_tokens = 2, stop = {'x'}})\n"
      "return m.config.hidden_size";
  size_t live = mem_live_bytes();
  int failures = 0;
  bool done = false;
  for (uint64_t n = 1; !done && n < 3000; n++) {
    Script *s = open_state();
    lua_State *L = script_state(s);
    script_pool(L); /* threads are not what is tested */
    mem_fail_after(n);
    done = run(L, code);
    mem_fail_after(0);
    if (!done) {
      failures++;
      CHECK_STR(code_of(L), "ENOMEM");
    }
    script_close(s);
    if (mem_live_bytes() != live) {
      test_fail(__FILE__, __LINE__, "%zu bytes lost when allocation %d fails",
                mem_live_bytes() - live, (int)n);
      break;
    }
  }
  CHECK(done);
  if (failures <= 50) test_fail(__FILE__, __LINE__, "only %d allocations", failures);
}

/* ---- foreign_vm.c: a state of a host's -------------------------------------------- */

/* An allocator of a host that fails at the `left`-th call, once or from then on. */
typedef struct Host {
  size_t live;
  long left; /* 0: never */
  bool stays;
} Host;

static void *host_allocate(void *ud, void *p, size_t osize, size_t nsize) {
  Host *h = ud;
  if (!p) osize = 0;
  if (nsize == 0) {
    h->live -= osize;
    free(p);
    return NULL;
  }
  if (nsize > osize && h->left && (h->left == 1 || --h->left == 1)) {
    if (!h->stays) h->left = 0;
    return NULL;
  }
  void *q = realloc(p, nsize);
  if (q) h->live += nsize - osize;
  return q;
}

static int attach(lua_State *L) {
  script_attach(L, files, open_core);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "grpo.half");
  lua_call(L, 1, 1);
  return 1;
}

TEST(a_host_without_memory_gets_an_error_and_closes_cleanly) {
  for (int stays = 0; stays < 2; stays++) {
    int failures = 0;
    for (long n = 2;; n += 1) {
      Host h = {0};
      lua_State *L = lua_newstate(host_allocate, &h);
      luaL_openlibs(L);
      lua_pushcfunction(L, attach);
      lua_pushcfunction(L, attach);
      h.left = n, h.stays = stays;
      bool ok = lua_pcall(L, 0, 1, 0) == LUA_OK, hit = h.left <= 1 && (stays || h.left == 0);
      h.left = 0;
      failures += !ok;
      if (!ok) { /* and may try again */
        lua_settop(L, 1);
        CHECK(lua_pcall(L, 0, 1, 0) == LUA_OK);
      }
      lua_close(L);
      CHECK(h.live == 0);
      if (!hit) break;
    }
    CHECK(!stays || failures > 5); /* once: Lua collects and asks again */
  }
}

TEST(a_hosts_allocator_is_its_own_outside_limited_calls) {
  Host h = {0};
  void *ud;
  const Limits limits = {.instructions = 1000000, .memory = 1 << 20};
  lua_State *L = lua_newstate(host_allocate, &h);
  luaL_openlibs(L);
  lua_pushcfunction(L, attach);
  CHECK(lua_pcall(L, 0, 1, 0) == LUA_OK);
  CHECK(lua_getallocf(L, &ud) == host_allocate && ud == &h);
  for (int i = 0; i < 3; i++) {
    luaL_loadstring(L, "local t = {} for i = 1, 2000 do t[i] = { i } end KEPT = t");
    CHECK(call_limited(L, &limits, "code", 0, 0));
    luaL_loadstring(L, "local t = {} while true do t[#t + 1] = { t } end");
    CHECK(!call_limited(L, &limits, "code", 0, 0));
    CHECK_STR(code_of(L), "ELIMIT");
    lua_pop(L, 2);
    CHECK(lua_getallocf(L, &ud) == host_allocate && ud == &h);
  }
  lua_close(L);
  CHECK(h.live == 0);
}

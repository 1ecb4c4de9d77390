/* fuzz_template.c - any text as a chat template: it is compiled and rendered, or refused with a
 * line "template:LINE: ...", in a bounded number of steps.
 *
 * The input is a template, or a template, a NUL and the variables in JSON; without variables it
 * gets a conversation with tools.  libFuzzer is told as coverage which lines of Lua run.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "lua_lines.h"
#include "script/binding.h"
#include "script/core.h"
#include "script/lua_vm.h"

static const char setup[] =
    "local jinja = require 'grpo.jinja'\n"
    "jinja.limits.steps, jinja.limits.text = 20000, 1 << 18\n"
    "local usual = jinja.from_json [[{\"messages\": [{\"role\": \"system\", \"content\": \"s\"},"
    " {\"role\": \"user\", \"content\": \" a b \\n\\u00e9\"}, {\"role\": \"assistant\", "
    "\"content\":"
    " \"<think>x</think>c\", \"tool_calls\": [{\"type\": \"function\", \"id\": \"123456789\","
    " \"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null, true]}}}]},"
    " {\"role\": \"tool\", \"name\": \"f\", \"content\": \"7\", \"tool_call_id\": \"123456789\"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"d\"}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}}}],"
    " \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true}]]\n"
    "local function refused(err)\n"
    "  local text = tostring(err)\n"
    "  if not text:find '^template:%d+: ' then error('unexpected: ' .. text, 0) end\n"
    "end\n"
    "return function(source, context)\n"
    "  local ok, template = pcall(jinja.compile, source)\n"
    "  if not ok then return refused(template) end\n"
    "  local vars = usual\n"
    "  if context then\n"
    "    local read, value = pcall(jinja.from_json, context)\n"
    "    if not read and not tostring(value):find 'JSON:%d+:%d+: ' then error(value, 0) end\n"
    "    if read and type(value) == 'table' and value.kind == 'dict' then vars = value end\n"
    "  end\n"
    "  local fine, text, spans = pcall(template.render, template, vars)\n"
    "  if not fine then return refused(text) end\n"
    "  for _, span in ipairs(spans) do\n"
    "    if span[1] < 1 or span[2] > #text or span[1] > span[2] + 1 then error('a span', 0) end\n"
    "  end\n"
    "end\n";

/* The state lives as long as the process; the function is at index 1. */
static lua_State *state(void) {
  static Script *script;
  if (script) return script_state(script);
  FUZZ_CHECK(script_open(&script, embedded_files, open_core) == GRPO_OK);
  lua_State *L = script_state(script);
  lua_settop(L, 0);
  FUZZ_CHECK(luaL_loadstring(L, setup) == LUA_OK);
  FUZZ_CHECK(lua_pcall(L, 0, 1, 0) == LUA_OK);
  count_lines(L);
  return L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lua_State *L = state();
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  const size_t n = nul ? (size_t)(nul - data) : size;
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, n);
  if (nul)
    lua_pushlstring(L, (const char *)nul + 1, size - n - 1);
  else
    lua_pushnil(L);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return 0;
  fprintf(stderr, "fuzz_template: %s\n", luaL_tolstring(L, -1, NULL));
  abort();
}

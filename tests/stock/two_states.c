/* Two Lua states in one process, in two threads, each with grpo.so, opened and closed again and
 * again: usage: two_states DIRECTORY-OF-grpo.so ROUNDS.  Prints what the last two trained to. */
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char script[] =
    "local directory, seed = ...\n"
    "package.cpath = directory .. '/?.so'\n"
    "-- a finalizer that is older than grpo runs after its own\n"
    "local keep = setmetatable({}, { __gc = function(t)\n"
    "  pcall(function() return t.tensor + 1 end)\n"
    "  pcall(t.grpo.tensor, { 1, 2 })\n"
    "  pcall(t.grpo.randn, { 4 })\n"
    "end })\n"
    "KEEP = keep\n"
    "local grpo = require 'grpo'\n"
    "keep.grpo, keep.tensor = grpo, grpo.tensor { 1, 2, 3 }\n"
    "local tr = grpo.trainer(grpo.experiment {\n"
    "  seed = seed, threads = 2,\n"
    "  model = { config = { model_type = 'llama', hidden_size = 16, intermediate_size = 32,\n"
    "      num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 16 },\n"
    "    tokenizer = grpo.tokenizer.chars('ab') },\n"
    "  data = { train = grpo.data.list { { prompt = 'a' } }, max_prompt_tokens = 2 },\n"
    "  sampling = { group_size = 4, max_new_tokens = 4 },\n"
    "  rewards = { function(text) return select(2, text:gsub('b', '')) end },\n"
    "  train = { steps = 3, prompts_per_step = 2, lr = 1e-2 },\n"
    "})\n"
    "while tr:step() do end\n"
    "collectgarbage()\n"
    "return ('%.6f'):format(tr.metrics.grad_norm)\n";

typedef struct Job {
  const char *directory;
  int seed, rounds, failed;
  char result[64];
} Job;

static void *work(void *argument) {
  Job *job = argument;
  for (int i = 0; i < job->rounds; i++) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    if (i % 2) lua_gc(L, LUA_GCGEN, 0, 0);
    if (luaL_loadbuffer(L, script, sizeof script - 1, "=script") != LUA_OK) job->failed = 1;
    lua_pushstring(L, job->directory);
    lua_pushinteger(L, job->seed);
    if (job->failed || lua_pcall(L, 2, 1, 0) != LUA_OK) {
      fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
      job->failed = 1;
    } else {
      snprintf(job->result, sizeof job->result, "%s", lua_tostring(L, -1));
    }
    lua_close(L);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Job jobs[2] = {{.directory = argv[1], .seed = 1, .rounds = atoi(argv[2])},
                 {.directory = argv[1], .seed = 2, .rounds = atoi(argv[2])}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &jobs[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("%s %s\n", jobs[0].result, jobs[1].result);
  return jobs[0].failed || jobs[1].failed;
}

/* Runs with more of the host's than a reward: group and token rewards, functions that the script
 * calls, a Lua state that the host lends. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "host.h"

static const char head[] =
    "local grpo = require 'grpo'\n"
    "local letters = 'abcdefgh'\n"
    "local function model() return { tokenizer = grpo.tokenizer.chars(letters), config = {\n"
    "  model_type = 'llama', hidden_size = 16, intermediate_size = 24, num_hidden_layers = 2,\n"
    "  num_attention_heads = 4, max_position_embeddings = 32, initializer_range = 0.2 } } end\n";

/* Rewards in Lua, or of the host. */
static const char rewarded[] =
    "local rows = {}\n"
    "for i = 1, 8 do rows[i] = { prompt = letters:sub(i, i), want = letters:sub(9 - i, 9 - i) } "
    "end\n"
    "local function share(text, row) return select(2, text:gsub(row.want, '')) / 4 end\n"
    "return grpo.experiment { name = 'parts', seed = 3, model = model(),\n"
    "  data = { train = grpo.data.list(rows), max_prompt_tokens = 4 },\n"
    "  sampling = { group_size = 4, max_new_tokens = 4 },\n"
    "  train = { steps = 2, prompts_per_step = 2, lr = 1e-2 },\n"
    "  rewards = grpo.args.own ~= 'no' and {\n"
    "    group = { group_fn = function(texts, row)\n"
    "      local list = {}\n"
    "      for i, text in ipairs(texts) do list[i] = share(text, row) end\n"
    "      if #texts[1] == 4 then list[1] = grpo.none end\n"
    "      return list end, weight = 2 },\n"
    "    tokens = { token_fn = function(c)\n"
    "      local list = {}\n"
    "      for i = 1, c.length do list[i] = i == 2 and 0.25 or 0 end\n"
    "      return list end },\n"
    "  } or nil }\n";

static double share(const grpo_sample *s) {
  const char *want = grpo_sample_field(s, "want");
  int hits = 0;
  for (size_t i = 0; want && i < s->text_length; i++) hits += s->text[i] == *want;
  return hits / 4.0;
}

static grpo_status group(void *user, const grpo_sample *s, size_t n, double *rewards) {
  ++*(int *)user;
  CHECK(n == 4);
  for (size_t i = 0; i < n; i++) {
    CHECK(s[i].index == (int64_t)i && s[i].prompt == s[0].prompt && isnan(rewards[i]));
    CHECK(strlen(s[i].text) == s[i].text_length && s[i].length >= 1 && s[i].logprobs[0] < 0);
    rewards[i] = share(&s[i]);
  }
  if (s[0].text_length == 4) rewards[0] = NAN;
  return GRPO_OK;
}

static grpo_status tokens(void *user, const grpo_sample *s, double *rewards) {
  ++*(int *)user;
  CHECK(grpo_sample_field(s, "want") != NULL);
  for (size_t i = 0; i < s->length; i++) rewards[i] = i == 1 ? 0.25 : 0;
  return GRPO_OK;
}

static grpo_context *open_context(void) {
  grpo_context *c = NULL;
  grpo_context_options o;
  OK(NULL, grpo_context_options_init(&o, sizeof o));
  o.threads = 1;
  OK(NULL, grpo_context_new(&o, &c));
  return c;
}

static grpo_run *open_run(grpo_context *c, const char *script, lua_State *L,
                          const char *directory) {
  static char text[4096];
  static const char *own_no[] = {"own=no"};
  grpo_run_options o;
  grpo_run *r = NULL;
  snprintf(text, sizeof text, "%s%s", head, script);
  OK(c, grpo_run_options_init(&o, sizeof o));
  CHECK(o.lua == NULL);
  o.script = text;
  o.path = "parts.lua";
  o.lua = L;
  o.directory = directory;
  if (strstr(script, "args.own"))
    o.args = own_no, o.arg_count = directory && strstr(directory, "host");
  OK(c, grpo_run_new(c, &o, &r));
  return r;
}

static uint64_t hash_of(grpo_context *c, grpo_run *r) {
  const char *directory = NULL;
  grpo_model *m = NULL;
  OK(c, grpo_run_result(r, NULL, NULL, &directory));
  OK(c, grpo_model_load(c, directory, NULL, &m));
  const uint64_t hash = m ? host_hash(m) : 0;
  grpo_model_free(m);
  return hash;
}

TEST(group_and_token_rewards_train_the_same_bits_as_those_in_lua) {
  uint64_t hash[2];
  int groups = 0, completions = 0;
  for (int host = 0; host < 2; host++) {
    grpo_context *c = open_context();
    grpo_run *r = open_run(c, rewarded, NULL, test_path(host ? "%s/host" : "%s/lua", test_tmp()));
    if (host) {
      OK(c, grpo_run_add_group_reward(r, "group", 2, group, &groups));
      OK(c, grpo_run_add_token_reward(r, "tokens", 1, tokens, &completions));
      REFUSED(c, GRPO_EARG, "reward 'group' was added before",
              grpo_run_add_token_reward(r, "group", 1, tokens, NULL));
      REFUSED(c, GRPO_EARG, "callback is NULL", grpo_run_add_group_reward(r, "x", 1, NULL, NULL));
    }
    OK(c, grpo_run_execute(r));
    hash[host] = hash_of(c, r);
    grpo_run_free(r);
    grpo_context_free(c);
  }
  CHECK(hash[0] == hash[1] && groups == 4 && completions == 16);
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_run_add_group_reward(NULL, "x", 1, group, NULL));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_run_add_token_reward(NULL, "x", 1, tokens, NULL));
}

/* ---- functions -------------------------------------------------------------------------- */

static const char asking[] =
    "local rows = grpo.host.rows('train', 8, { deep = { 1, grpo.json.null } })\n"
    "assert(#rows == 8 and rows[8].prompt == 'h' and grpo.host.nothing() == nil)\n"
    "local rates = {}\n"
    "return grpo.experiment { name = 'asking', model = model(),\n"
    "  data = { train = grpo.data.list(rows), max_prompt_tokens = 4 },\n"
    "  sampling = { group_size = 4, max_new_tokens = 4 },\n"
    "  rewards = { function(text) return #text end },\n"
    "  train = { steps = 3, prompts_per_step = 2,\n"
    "    lr = function(step) return grpo.host.rate(step) end },\n"
    "  hooks = { on_step = function(m) m.mine = grpo.host.rate(0); grpo.host.step(m.step, "
    "m.learning_rate) end } }\n";

static grpo_status give_rows(void *user, const char *arguments, grpo_answer *answer) {
  (void)user;
  char text[512] = "[";
  CHECK_STR(arguments, "[\"train\", 8, {\"deep\": [1, null]}]");
  for (char letter = 'a'; letter <= 'h'; letter++)
    sprintf(text + strlen(text), "%s{\"prompt\":\"%c\"}", letter > 'a' ? "," : "", letter);
  strcat(text, "]");
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_answer_json(NULL, "1", 1));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_answer_json(answer, NULL, 1));
  return grpo_answer_json(answer, text, strlen(text));
}

static grpo_status give_nothing(void *user, const char *arguments, grpo_answer *answer) {
  (void)user, (void)answer;
  CHECK_STR(arguments, "[]");
  return GRPO_OK;
}

static grpo_status give_rate(void *user, const char *arguments, grpo_answer *answer) {
  (void)user, (void)arguments;
  return grpo_answer_json(answer, "0.125", 5);
}

static grpo_status hear_step(void *user, const char *arguments, grpo_answer *answer) {
  (void)answer;
  CHECK_STR(arguments, test_path("[%d, 0.125]", ++*(int *)user));
  return *(int *)user == 3 ? GRPO_EIO : GRPO_OK;
}

static grpo_status see_mine(void *user, int64_t step, const grpo_metrics *m) {
  (void)user, (void)step;
  CHECK(grpo_metric_get(m, "mine") == 0.125);
  return GRPO_OK;
}

TEST(a_script_asks_its_host_for_rows_rates_and_whatever_it_likes) {
  grpo_context *c = open_context();
  int steps = 0;
  grpo_run *r = open_run(c, asking, NULL, NULL);
  OK(c, grpo_run_add_function(r, "rows", give_rows, NULL));
  OK(c, grpo_run_add_function(r, "nothing", give_nothing, NULL));
  OK(c, grpo_run_add_function(r, "rate", give_rate, NULL));
  OK(c, grpo_run_add_function(r, "step", hear_step, &steps));
  OK(c, grpo_run_on_step(r, see_mine, NULL));
  REFUSED(c, GRPO_EARG, "function 'rate' was added before",
          grpo_run_add_function(r, "rate", give_rate, NULL));
  REFUSED(c, GRPO_EARG, "callback is NULL", grpo_run_add_function(r, "none", NULL, NULL));
  REFUSED(c, GRPO_ESCRIPT, "grpo.host.step: the host's callback returned EIO", grpo_run_execute(r));
  CHECK(steps == 3);
  grpo_run_free(r);
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_run_add_function(NULL, "x", give_rate, NULL));
  grpo_context_free(c);
}

static grpo_status give_garbage(void *user, const char *arguments, grpo_answer *answer) {
  (void)user, (void)arguments;
  return grpo_answer_json(answer, "[1,", 3);
}

TEST(an_answer_that_is_no_json_is_an_error_of_the_script) {
  grpo_context *c = open_context();
  grpo_run *r = open_run(c, "grpo.host.rows()", NULL, NULL);
  OK(c, grpo_run_add_function(r, "rows", give_garbage, NULL));
  REFUSED(c, GRPO_EFORMAT, "the answer of grpo.host.rows:1:4", grpo_run_execute(r));
  grpo_run_free(r);
  grpo_context_free(c);
}

static grpo_status stop_at_ten(void *user, const char *what, int64_t done, int64_t of) {
  CHECK(what && done <= of);
  return ++*(int *)user == 10 ? GRPO_EIO : GRPO_OK;
}

TEST(progress_ends_a_run_too) {
  grpo_context *c = NULL;
  grpo_context_options o;
  int calls = 0;
  OK(NULL, grpo_context_options_init(&o, sizeof o));
  o.progress = stop_at_ten, o.progress_user = &calls;
  OK(NULL, grpo_context_new(&o, &c));
  grpo_run *r = open_run(c, rewarded, NULL, NULL);
  REFUSED(c, GRPO_ECANCELED, "the progress callback returned EIO", grpo_run_execute(r));
  CHECK(calls == 10);
  grpo_run_free(r);
  grpo_context_free(c);
}

/* ---- a state of the host ------------------------------------------------------------------ */

TEST(a_run_uses_a_state_that_the_host_lends) {
  uint64_t hash[2];
  for (int lent = 0; lent < 2; lent++) {
    grpo_context *c = open_context();
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    CHECK(luaL_dostring(L, "seen = {}; function print(...) seen[#seen + 1] = ... end") == LUA_OK);
    grpo_run *r =
        open_run(c, rewarded, lent ? L : NULL, test_path(lent ? "%s/lent" : "%s/own", test_tmp()));
    OK(c, grpo_run_execute(r));
    hash[lent] = hash_of(c, r);
    grpo_run_free(r);
    if (lent) {
      CHECK(lua_gettop(L) == 0);
      r = open_run(c, "print(#seen); counted = (counted or 0) + 1; error('as it likes')", L, NULL);
      REFUSED(c, GRPO_EARG, "as it likes", grpo_run_execute(r));
      grpo_run_free(r);
      CHECK(luaL_dostring(L, "assert(seen[1] == 0 and os.exit and counted == 1)\n"
                             "assert(require('grpo').json.encode { 1 } == '[1]')") == LUA_OK);
      if (lua_gettop(L)) test_fail(__FILE__, __LINE__, "%s", lua_tostring(L, -1));
    }
    grpo_context_free(c);
    lua_close(L);
  }
  CHECK(hash[0] == hash[1]);
}

TEST(a_script_in_a_lent_state_cannot_end_the_program) {
  grpo_context *c = open_context();
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(luaL_dostring(L, "exit, locale = os.exit, os.setlocale") == LUA_OK);
  grpo_run *r = open_run(c, "os.exit(3)", L, NULL);
  REFUSED(c, GRPO_EARG, "os.exit: would end the program", grpo_run_execute(r));
  grpo_run_free(r);
  r = open_run(c, "os.setlocale('C')", L, NULL);
  REFUSED(c, GRPO_EARG, "os.setlocale", grpo_run_execute(r));
  grpo_run_free(r);
  r = open_run(c, rewarded, L, NULL);
  OK(c, grpo_run_execute(r));
  grpo_run_free(r);
  CHECK(luaL_dostring(L, "assert(os.exit == exit and os.setlocale == locale)") == LUA_OK);
  grpo_context_free(c);
  lua_close(L);
}

TEST(the_library_is_the_lua_module_too) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "grpo", luaopen_grpo, 0);
  CHECK(lua_istable(L, -1));
  lua_pop(L, 1);
  if (luaL_dostring(L, "local t = require('grpo').tokenizer.bytes()\n"
                       "assert(t:decode(t:encode('both')) == 'both')\n"
                       "assert(require 'grpo.schedule')") != LUA_OK)
    test_fail(__FILE__, __LINE__, "%s", lua_tostring(L, -1));
  lua_close(L);
}

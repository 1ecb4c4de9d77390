/* Whole runs: scripts as text or file, rewards of the host, the step callback, stop, resume. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static const char script[] =
    "local grpo = require 'grpo'\n"
    "print('from', 'the script')\n"
    "local rows = {}\n"
    "for i = 1, 8 do rows[i] = { prompt = ('abcdefgh'):sub(i, i), answer = ('hgfedcba'):sub(i, "
    "i),\n"
    "  weight = i / 2 } end\n"
    "local function right(text, row) return select(2, text:gsub(row.answer, '')) / 4 end\n"
    "return grpo.experiment {\n"
    "  name = 'hosted', seed = 3,\n"
    "  model = { tokenizer = grpo.tokenizer.chars('abcdefgh'), config = { model_type = 'llama',\n"
    "    hidden_size = 16, intermediate_size = 24, num_hidden_layers = 2, num_attention_heads = "
    "4,\n"
    "    max_position_embeddings = 32, initializer_range = 0.2 } },\n"
    "  data = { train = grpo.data.list(rows), max_prompt_tokens = 4 },\n"
    "  sampling = { group_size = 4, max_new_tokens = 4 },\n"
    "  rewards = grpo.args.own ~= 'no' and { right = right } or nil,\n"
    "  train = { steps = 3, prompts_per_step = 2, lr = 1e-2 },\n"
    "}\n";

typedef struct Seen {
  grpo_run *run;
  int steps, rewards, logs, fields, stop_at;
  double mean;
  char last[256];
} Seen;

static grpo_status right(void *user, const grpo_sample *s, double *reward) {
  Seen *seen = user;
  const char *answer = grpo_sample_field(s, "answer"), *weight = grpo_sample_field(s, "weight");
  int hits = 0;
  seen->rewards++;
  if (!answer || strlen(answer) != 1 || !weight || strchr(weight, ',')) return GRPO_EFORMAT;
  CHECK(s->prompt >= 0 && s->prompt < 2 && s->index >= 0 && s->index < 4 && s->step < 3);
  CHECK(s->length >= 1 && s->length <= 4 && s->logprobs[s->length - 1] < 0 && s->ids[0] < 10);
  CHECK(s->prompt_text && strlen(s->prompt_text) == 1);
  CHECK(grpo_sample_field(s, "nothing") == NULL && grpo_sample_field(s, NULL) == NULL);
  for (size_t i = 0; i < s->text_length; i++) hits += s->text[i] == *answer;
  *reward = hits / 4.0;
  return GRPO_OK;
}

static grpo_status on_step(void *user, int64_t step, const grpo_metrics *m) {
  Seen *seen = user;
  CHECK(step == ++seen->steps);
  CHECK(!isnan(grpo_metric_get(m, "rewards/right/mean")));
  CHECK(grpo_metric_get(m, "step") == (double)step);
  seen->mean = grpo_metric_get(m, "reward");
  if (step == seen->stop_at) OK(NULL, grpo_run_stop(seen->run));
  return GRPO_OK;
}

static void on_log(void *user, int32_t level, const char *line) {
  Seen *seen = user;
  CHECK(level == GRPO_LOG_INFO || level == GRPO_LOG_WARNING);
  if (seen->logs++ == 0) snprintf(seen->last, sizeof seen->last, "%s", line);
}

static grpo_context *open_context(Seen *seen) {
  grpo_context *c = NULL;
  grpo_context_options o;
  OK(NULL, grpo_context_options_init(&o, sizeof o));
  o.threads = 1;
  o.log = on_log;
  o.log_user = seen;
  OK(NULL, grpo_context_new(&o, &c));
  return c;
}

static grpo_run_options options(const char *directory) {
  grpo_run_options o;
  OK(NULL, grpo_run_options_init(&o, sizeof o));
  o.script = script;
  o.path = "hosted.lua";
  o.directory = directory;
  return o;
}

/* Hashes the weights of the run's last checkpoint. */
static uint64_t hash_of(grpo_context *c, const char *directory) {
  grpo_model *m = NULL;
  OK(c, grpo_model_load(c, directory, NULL, &m));
  const uint64_t hash = m ? host_hash(m) : 0;
  grpo_model_free(m);
  return hash;
}

static int32_t tokens_of(grpo_context *c, const char *path) {
  grpo_tokenizer *t = NULL;
  int32_t size = 0;
  OK(c, grpo_tokenizer_load(c, path, &t));
  OK(c, grpo_tokenizer_size(t, &size));
  grpo_tokenizer_free(t);
  return size;
}

static const char *no_reward[] = {"own=no"};

TEST(a_reward_in_c_trains_the_same_bits_as_the_same_one_in_lua) {
  uint64_t hash[3] = {0};
  for (int way = 0; way < 3;
       way++) { /* the script's; the host's, added; the host's, replacing it */
    Seen seen = {0};
    const char *directory = NULL;
    int64_t steps = 0;
    int32_t stopped = 1;
    grpo_context *c = open_context(&seen);
    grpo_run_options o = options(test_path("%s/ways", test_tmp()));
    o.args = no_reward;
    o.arg_count = way == 1;
    OK(c, grpo_run_new(c, &o, &seen.run));
    if (way) OK(c, grpo_run_add_reward(seen.run, "right", 1, right, &seen));
    OK(c, grpo_run_on_step(seen.run, on_step, &seen));
    OK(c, grpo_run_execute(seen.run));
    OK(c, grpo_run_result(seen.run, &steps, &stopped, &directory));
    CHECK(steps == 3 && !stopped && seen.steps == 3 && seen.rewards == (way ? 3 * 2 * 4 : 0));
    CHECK_STR(seen.last, "from\tthe script");
    hash[way] = hash_of(c, directory);
    grpo_run_free(seen.run);
    grpo_context_free(c);
  }
  CHECK(hash[0] == hash[1] && hash[0] == hash[2]);
}

static grpo_status freed_on_step(void *user, int64_t step, const grpo_metrics *m) {
  (void)step, (void)m;
  grpo_run_free(user);
  return GRPO_OK;
}

TEST(a_run_that_its_callback_frees_stays_and_the_call_fails) {
  Seen seen = {0};
  grpo_context *c = open_context(&seen);
  grpo_run *run = NULL;
  grpo_run_options o = options(NULL);
  OK(c, grpo_run_new(c, &o, &run));
  OK(c, grpo_run_on_step(run, freed_on_step, run));
  REFUSED(c, GRPO_EARG, "grpo_run_free was called inside a callback", grpo_run_execute(run));
  grpo_run_free(run);
  grpo_context_free(c);
}

TEST(without_a_directory_nothing_is_written) {
  Seen seen = {0};
  const char *directory = NULL;
  grpo_context *c = open_context(&seen);
  grpo_run_options o = options(NULL);
  OK(c, grpo_run_new(c, &o, &seen.run));
  REFUSED(c, GRPO_EARG, "not ended", grpo_run_result(seen.run, NULL, NULL, NULL));
  OK(c, grpo_run_execute(seen.run));
  OK(c, grpo_run_result(seen.run, NULL, NULL, &directory));
  CHECK_STR(directory, "");
  REFUSED(c, GRPO_EARG, "once", grpo_run_execute(seen.run));
  grpo_run_free(seen.run);
  grpo_context_free(c);
}

TEST(a_stopped_run_goes_on_where_it_was) {
  Seen seen = {.stop_at = 1}, again = {.steps = 1};
  const char *directory = NULL;
  char kept[512];
  int32_t stopped = 0;
  grpo_context *c = open_context(&seen);
  const char *dir = test_path("%s/stopped", test_tmp());
  grpo_run_options o = options(dir);
  OK(c, grpo_run_new(c, &o, &seen.run));
  OK(c, grpo_run_on_step(seen.run, on_step, &seen));
  OK(c, grpo_run_execute(seen.run));
  OK(c, grpo_run_result(seen.run, NULL, &stopped, &directory));
  CHECK(stopped && seen.steps == 1);
  snprintf(kept, sizeof kept, "%s", directory);
  grpo_run_free(seen.run);
  o.script = o.path = NULL;
  o.resume = kept;
  OK(c, grpo_run_new(c, &o, &again.run));
  OK(c, grpo_run_on_step(again.run, on_step, &again));
  OK(c, grpo_run_execute(again.run));
  CHECK(again.steps == 3);
  grpo_run_free(again.run);
  o = options(dir); /* the same without a stop */
  Seen whole = {0};
  OK(c, grpo_run_new(c, &o, &whole.run));
  OK(c, grpo_run_execute(whole.run));
  OK(c, grpo_run_result(whole.run, NULL, NULL, &directory));
  CHECK(hash_of(c, kept) == hash_of(c, directory));
  o.script = o.path = NULL;
  o.resume = kept; /* finished already: nothing to do */
  OK(c, grpo_run_new(c, &o, &seen.run));
  OK(c, grpo_run_execute(seen.run));
  grpo_run_free(seen.run);
  grpo_run_free(whole.run);
  grpo_context_free(c);
}

TEST(a_resume_wants_the_rewards_of_the_host_again) {
  Seen seen = {.stop_at = 1}, again = {.steps = 1};
  const char *directory = NULL;
  char kept[512];
  grpo_context *c = open_context(&seen);
  grpo_run_options o = options(test_path("%s/hosts", test_tmp()));
  OK(c, grpo_run_new(c, &o, &seen.run));
  OK(c, grpo_run_add_reward(seen.run, "right", 1, right, &seen));
  OK(c, grpo_run_on_step(seen.run, on_step, &seen));
  OK(c, grpo_run_execute(seen.run));
  OK(c, grpo_run_result(seen.run, NULL, NULL, &directory));
  snprintf(kept, sizeof kept, "%s", directory);
  grpo_run_free(seen.run);
  o.script = o.path = NULL;
  o.resume = kept;
  OK(c, grpo_run_new(c, &o, &again.run));
  REFUSED(c, GRPO_EARG, "the reward 'right' was a function of the program that began the run",
          grpo_run_execute(again.run));
  grpo_run_free(again.run);
  OK(c, grpo_run_new(c, &o, &again.run));
  OK(c, grpo_run_add_reward(again.run, "right", 1, right, &again));
  OK(c, grpo_run_on_step(again.run, on_step, &again));
  OK(c, grpo_run_execute(again.run));
  CHECK(again.steps == 3 && again.rewards == 2 * 2 * 4);
  grpo_run_free(again.run);
  grpo_context_free(c);
}

static const char lora_script[] = "local grpo = require 'grpo'\n"
                                  "return grpo.experiment {\n"
                                  "  name = 'adapted', seed = 3,\n"
                                  "  model = { path = grpo.args.base, lora = { rank = 2 } },\n"
                                  "  data = { train = grpo.data.list { { prompt = 'a' }, { prompt "
                                  "= 'b' } }, max_prompt_tokens = 4 },\n"
                                  "  sampling = { group_size = 4, max_new_tokens = 4 },\n"
                                  "  rewards = { short = function(text) return -#text end },\n"
                                  "  train = { steps = 2, prompts_per_step = 2, lr = 1e-2 },\n"
                                  "}\n";

TEST(the_directory_of_a_lora_run_is_a_model) {
  Host h;
  grpo_run *run = NULL;
  const char *directory = NULL, *base = test_path("%s/base", test_tmp());
  const char *const args[] = {test_path("base=%s", base)};
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, base, NULL));
  grpo_run_options o = options(test_path("%s/lora", test_tmp()));
  o.script = lora_script;
  o.args = args;
  o.arg_count = 1;
  OK(h.c, grpo_run_new(h.c, &o, &run));
  OK(h.c, grpo_run_execute(run));
  OK(h.c, grpo_run_result(run, NULL, NULL, &directory));
  grpo_model *m = NULL;
  OK(h.c, grpo_model_load(h.c, base, NULL, &m));
  OK(h.c, grpo_model_load_adapter(m, directory));
  CHECK(hash_of(h.c, directory) == host_hash(m));
  CHECK(hash_of(h.c, test_path("%s/checkpoints/step-000002", directory)) == host_hash(m));
  CHECK(hash_of(h.c, test_path("%s/latest", directory)) == host_hash(m));
  CHECK(hash_of(h.c, base) != host_hash(m));
  CHECK(tokens_of(h.c, directory) == tokens_of(h.c, base));
  CHECK(unlink(test_path("%s/checkpoints/step-000002/tokenizer.json", directory)) == 0);
  CHECK(tokens_of(h.c, test_path("%s/checkpoints/step-000002", directory)) == tokens_of(h.c, base));
  grpo_model_free(m);
  grpo_run_free(run);
  host_close(&h);
}

static grpo_status bad_reward(void *user, const grpo_sample *s, double *reward) {
  (void)user, (void)s, (void)reward;
  return GRPO_EFORMAT;
}
static grpo_status bad_step(void *user, int64_t step, const grpo_metrics *m) {
  (void)user, (void)step, (void)m;
  return GRPO_EIO;
}

TEST(a_run_that_failed_tells_how_far_it_came) {
  Seen seen = {0};
  int64_t steps = -1;
  const char *directory = NULL;
  grpo_context *c = open_context(&seen);
  grpo_run_options o = options(test_path("%s/failed", test_tmp()));
  OK(c, grpo_run_new(c, &o, &seen.run));
  OK(c, grpo_run_on_step(seen.run, bad_step, NULL));
  REFUSED(c, GRPO_ESCRIPT, "after step 1", grpo_run_execute(seen.run));
  OK(c, grpo_run_result(seen.run, &steps, NULL, &directory));
  CHECK(steps == 1);
  CHECK(directory && strstr(directory, "/failed/"));
  grpo_run_free(seen.run);
  grpo_context_free(c);
}

static void refused(Seen *seen, grpo_run_options o, int what, grpo_status status,
                    const char *part) {
  grpo_context *c = open_context(seen);
  OK(c, grpo_run_new(c, &o, &seen->run));
  if (what == 1) OK(c, grpo_run_add_reward(seen->run, "bad", 1, bad_reward, NULL));
  if (what == 2) OK(c, grpo_run_on_step(seen->run, bad_step, NULL));
  REFUSED(c, status, part, grpo_run_execute(seen->run));
  grpo_run_free(seen->run);
  grpo_context_free(c);
}

TEST(mistakes_reach_the_host_with_their_place) {
  Seen seen = {0};
  grpo_run_options o = options(NULL);
  refused(&seen, o, 1, GRPO_ESCRIPT, "rewards.bad: the host's callback returned EFORMAT");
  refused(&seen, o, 2, GRPO_ESCRIPT, "after step 1 the host's callback returned EIO");
  o.overrides = (const char *const[]){"train.stebs=4"};
  o.override_count = 1;
  refused(&seen, o, 0, GRPO_EARG, "did you mean 'steps'");
  o.overrides = (const char *const[]){"nonsense"};
  refused(&seen, o, 0, GRPO_EARG, "option=value");
  o.override_count = 0;
  o.args = (const char *const[]){"nonsense"};
  o.arg_count = 1;
  refused(&seen, o, 0, GRPO_EARG, "name=value");
  o = options(NULL);
  o.script = "return 3";
  refused(&seen, o, 0, GRPO_EARG, "hosted.lua: returned a number");
  o.script = "os.exit(3)";
  refused(&seen, o, 0, GRPO_EARG, "hosted.lua:1: os.exit");
  o.script = "os.setlocale('C')";
  refused(&seen, o, 0, GRPO_EARG, "os.setlocale");
  o.script = "error('on purpose')";
  refused(&seen, o, 0, GRPO_EARG, "hosted.lua:1: on purpose");
  o.script = "local x = = 1";
  refused(&seen, o, 0, GRPO_EARG, "hosted.lua:1:");
  o.script = NULL;
  o.path = "there/is/no.lua";
  refused(&seen, o, 0, GRPO_ENOENT, "there/is/no.lua");
  o.resume = "there/is/none";
  o.path = NULL;
  refused(&seen, o, 0, GRPO_ENOENT, "there/is/none");
}

TEST(options_of_a_run_are_checked) {
  Seen seen = {0};
  grpo_context *c = open_context(&seen);
  grpo_run_options o = options(NULL);
  grpo_run *r = NULL;
  o.script = o.path = NULL;
  REFUSED(c, GRPO_EARG, "path, script or resume", grpo_run_new(c, &o, &r));
  o = options(NULL);
  o.override_count = 1;
  REFUSED(c, GRPO_EARG, "overrides", grpo_run_new(c, &o, &r));
  o.override_count = 0;
  o.max_steps = -1;
  REFUSED(c, GRPO_EARG, "max_steps", grpo_run_new(c, &o, &r));
  o.max_steps = 2;
  CHECK(!r);
  OK(c, grpo_run_new(c, &o, &r));
  REFUSED(c, GRPO_EARG, "callback", grpo_run_add_reward(r, "x", 1, NULL, NULL));
  REFUSED(c, GRPO_EARG, "name", grpo_run_add_reward(r, "", 1, right, NULL));
  REFUSED(c, GRPO_EARG, "finite", grpo_run_add_reward(r, "x", NAN, right, NULL));
  OK(c, grpo_run_add_reward(r, "right", 1, right, &seen));
  REFUSED(c, GRPO_EARG, "before", grpo_run_add_reward(r, "right", 1, right, &seen));
  OK(c, grpo_run_execute(r));
  int64_t steps = 0;
  OK(c, grpo_run_result(r, &steps, NULL, NULL));
  CHECK(steps == 2);
  grpo_run_free(r);
  grpo_context_free(c);
}

static const char *shared_directory; /* where both threads make their runs */

static void *run_alone(void *arg) {
  Seen seen = {0};
  const char *directory = NULL;
  grpo_context *c = open_context(&seen);
  grpo_run_options o = options(shared_directory);
  OK(c, grpo_run_new(c, &o, &seen.run));
  OK(c, grpo_run_add_reward(seen.run, "right", 1, right, &seen));
  OK(c, grpo_run_execute(seen.run));
  OK(c, grpo_run_result(seen.run, NULL, NULL, &directory));
  *(uint64_t *)arg = hash_of(c, directory);
  grpo_run_free(seen.run);
  grpo_context_free(c);
  return NULL;
}

TEST(two_runs_in_two_threads_give_the_bits_of_one_alone) {
  uint64_t hash[3] = {0, 1, 2};
  pthread_t other;
  shared_directory = test_path("%s/threads", test_tmp());
  run_alone(&hash[0]);
  CHECK(pthread_create(&other, NULL, run_alone, &hash[1]) == 0);
  run_alone(&hash[2]);
  pthread_join(other, NULL);
  CHECK(hash[0] == hash[1] && hash[0] == hash[2]);
}

/* The host's allocator fails, once or from then on: each call says GRPO_ENOMEM or does its work,
 * and all memory comes back.  GRPO_POINTS=N: about N allocations of each kind (default 24; 0: all).
 */
#include <stdatomic.h>

#include "host.h"

static const char script[] =
    "local grpo = require 'grpo'\n"
    "return grpo.experiment {\n"
    "  model = { tokenizer = grpo.tokenizer.chars('abcd'), config = { model_type = 'llama',\n"
    "    hidden_size = 8, intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 2,\n"
    "    max_position_embeddings = 16 } },\n"
    "  data = { train = grpo.data.list { { prompt = 'a' } }, eval = grpo.data.list { { prompt = "
    "'b' "
    "} },\n"
    "    max_prompt_tokens = 4 },\n"
    "  sampling = { group_size = 2, max_new_tokens = 3, stop_regex = 'aa+' },\n"
    "  rewards = { right = { fn = function(text) return #text / 4 end, weight = "
    "grpo.host.weight(1) } },\n"
    "  train = { steps = 1, prompts_per_step = 1, kl = 0.02 }, checkpoint = { every = 1 },\n"
    "}\n";

/* An allocator whose `at`-th call fails; `from`: all later ones, too. */
typedef struct Memory {
  atomic_int blocks;
  atomic_llong calls;
  long long at; /* 0: none */
  bool from;
} Memory;
static Memory memory;

static void *take(void *user, size_t bytes, size_t alignment) {
  Memory *m = user;
  const long long call = atomic_fetch_add(&m->calls, 1) + 1;
  if (m->at && (call == m->at || (m->from && call > m->at))) return NULL;
  void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p) atomic_fetch_add(&m->blocks, 1);
  return p;
}
static void give(void *user, void *p) {
  if (p) atomic_fetch_sub(&((Memory *)user)->blocks, 1);
  free(p);
}
static const grpo_allocator allocator = {sizeof allocator, take, give, &memory};

#define TRY(call)                                                                                  \
  do {                                                                                             \
    const grpo_status s_ = (call);                                                                 \
    if (s_ != GRPO_OK) return s_;                                                                  \
  } while (0)

/* ---- what is tried ---------------------------------------------------------------- */

static grpo_status step(Host *h) {
  static const int32_t a[] = {0, 1, 2}, b[] = {1};
  const grpo_prompt prompts[HOST_PROMPTS] = {{a, 3, 0, 0}, {b, 1, 1, 0}};
  grpo_sampling s;
  grpo_loss_options loss;
  grpo_update_options u;
  const grpo_metrics *m = NULL;
  grpo_sampling_init(&s, sizeof s);
  grpo_loss_options_init(&loss, sizeof loss);
  grpo_update_options_init(&u, sizeof u);
  loss.kl = 0.02;
  u.loss = &loss;
  u.lr = 1e-2;
  TRY(grpo_trainer_rollout(h->trainer, prompts, HOST_PROMPTS, &s));
  TRY(grpo_trainer_score(h->trainer, host_reward, NULL));
  TRY(grpo_trainer_advantages(h->trainer, NULL, NULL, 0));
  TRY(grpo_trainer_reference(h->trainer));
  return grpo_trainer_update(h->trainer, &u, &m);
}

/* A model, its training, and both saved and loaded. */
static grpo_status train(Host *h) {
  const char *saved = test_path("%s/saved", test_tmp()), *model = test_path("%s/model", test_tmp());
  grpo_context_options co;
  grpo_trainer_options o;
  grpo_model *loaded = NULL;
  grpo_context_options_init(&co, sizeof co);
  grpo_trainer_options_init(&o, sizeof o);
  co.threads = 1;
  o.prompts_per_step = HOST_PROMPTS;
  o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8;
  o.max_new_tokens = HOST_NEW;
  TRY(grpo_context_new(&co, &h->c));
  TRY(grpo_tokenizer_chars(h->c, "abcdefgh", 8, &h->tok));
  TRY(grpo_model_new(h->c, tiny_config, h->tok, NULL, &h->model));
  TRY(grpo_model_clone(h->model, &h->reference));
  TRY(grpo_trainer_new(h->model, h->reference, h->tok, &o, &h->trainer));
  TRY(step(h));
  TRY(grpo_trainer_save(h->trainer, saved));
  TRY(grpo_trainer_load(h->trainer, saved));
  TRY(grpo_model_save(h->model, model, "f32"));
  TRY(grpo_model_load(h->c, model, NULL, &loaded));
  grpo_model_free(loaded);
  return GRPO_OK;
}

static grpo_status every_token(void *user, const grpo_sample *s) {
  (void)user;
  return s->length ? GRPO_OK : GRPO_EIO;
}

/* Samples made elsewhere, gradients, the optimizer's state, a step in parts. */
static grpo_status parts(Host *h, char *state, size_t capacity) {
  static const int32_t ids[] = {0, 1, 2, 3};
  const grpo_prompt prompt = {ids, 3, 0, 0};
  grpo_sample samples[2];
  const double rewards[] = {0, 1};
  grpo_update_options u;
  grpo_step whole;
  float g[16];
  size_t n;
  int32_t done = 0;
  grpo_update_options_init(&u, sizeof u);
  grpo_step_init(&whole, sizeof whole);
  for (int i = 0; i < 2; i++)
    samples[i] = (grpo_sample){.size = sizeof samples[i], .ids = ids + i, .length = 2};
  u.accumulate = 1;
  TRY(grpo_trainer_put(h->trainer, &prompt, 1, samples, 2, 1));
  TRY(grpo_trainer_set_rewards(h->trainer, rewards, 2));
  TRY(grpo_trainer_advantages(h->trainer, NULL, NULL, 0));
  TRY(grpo_trainer_update(h->trainer, &u, NULL));
  TRY(grpo_trainer_gradient_get(h->trainer, "model.norm.weight", g, 16));
  TRY(grpo_trainer_apply(h->trainer, &u, NULL));
  TRY(grpo_trainer_state_get(h->trainer, state, capacity, &n));
  TRY(grpo_trainer_state_set(h->trainer, state, n));
  whole.prompts = &prompt, whole.count = 1, whole.reward = host_reward;
  TRY(grpo_trainer_begin(h->trainer, &whole));
  while (!done) TRY(grpo_trainer_advance(h->trainer, 100, &done, NULL));
  return GRPO_OK;
}

/* Chat templates, tokens as they come, exports, and what a host brings to a trainer. */
static grpo_status use(Host *h) {
  static char text[4096], state[1 << 16];
  static const int32_t ids[] = {0, 1};
  const grpo_prompt prompt = {ids, 2, 0, 0};
  grpo_context_options co;
  grpo_trainer_options o;
  grpo_export_options e;
  grpo_sampling s;
  grpo_samples *list = NULL;
  size_t n;
  grpo_context_options_init(&co, sizeof co);
  grpo_trainer_options_init(&o, sizeof o);
  grpo_export_options_init(&e, sizeof e);
  grpo_sampling_init(&s, sizeof s);
  co.threads = 1;
  o.prompts_per_step = 1, o.group_size = 2, o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  s.on_token = every_token, s.max_new_tokens = 4;
  e.dtype = "nf4";
  TRY(grpo_context_new(&co, &h->c));
  TRY(grpo_tokenizer_chars(h->c, "abcdefgh", 8, &h->tok));
  TRY(grpo_tokenizer_chat(h->tok, "[{\"role\": \"user\", \"content\": \"a\"}]",
                          "{\"chat_template\": \"chatml\"}", text, sizeof text, &n));
  TRY(grpo_model_new(h->c, tiny_config, h->tok, NULL, &h->model));
  TRY(grpo_generate(h->model, h->tok, &prompt, 1, &s, &list));
  grpo_samples_free(list);
  TRY(grpo_model_export(h->model, test_path("%s/model", test_tmp()), &e));
  TRY(grpo_trainer_new(h->model, NULL, h->tok, &o, &h->trainer));
  return parts(h, state, sizeof state);
}

static grpo_status group_lengths(void *user, const grpo_sample *s, size_t n, double *rewards) {
  (void)user;
  for (size_t i = 0; i < n; i++) rewards[i] = (double)s[i].length;
  return GRPO_OK;
}

static grpo_status answer_one(void *user, const char *arguments, grpo_answer *answer) {
  (void)user, (void)arguments;
  return grpo_answer_json(answer, "0.5", 3);
}

/* A whole run of a script, with its directory. */
static grpo_status run(Host *h) {
  grpo_context_options co;
  grpo_run_options o;
  grpo_run *r = NULL;
  grpo_context_options_init(&co, sizeof co);
  co.threads = 1;
  TRY(grpo_context_new(&co, &h->c));
  grpo_run_options_init(&o, sizeof o);
  o.script = script;
  o.directory = test_path("%s/run", test_tmp());
  TRY(grpo_run_new(h->c, &o, &r));
  grpo_status s = grpo_run_add_group_reward(r, "group", 1, group_lengths, NULL);
  if (s == GRPO_OK) s = grpo_run_add_function(r, "weight", answer_one, NULL);
  if (s == GRPO_OK) s = grpo_run_execute(r);
  grpo_run_free(r);
  return s;
}

/* ---- trials ----------------------------------------------------------------------- */

static grpo_status trial(grpo_status (*work)(Host *), long long at, bool from) {
  Host h = {0};
  char message[256];
  if (system(test_path("rm -rf %s/saved %s/model %s/run", test_tmp(), test_tmp(), test_tmp())))
    test_fail(__FILE__, __LINE__, "rm");
  atomic_store(&memory.calls, 0);
  memory.at = at;
  memory.from = from;
  const grpo_status s = work(&h);
  memory.at = 0;
  snprintf(message, sizeof message, "%s", grpo_message(h.c));
  host_close(&h);
  if (s != GRPO_OK && s != GRPO_ENOMEM)
    test_fail(__FILE__, __LINE__, "allocation %lld: %s: %s", at, grpo_status_name(s), message);
  if (atomic_load(&memory.blocks))
    test_fail(__FILE__, __LINE__, "allocation %lld: %d blocks lost", at, memory.blocks);
  return s;
}

static void trials(grpo_status (*work)(Host *), bool from) {
  const char *wanted = getenv("GRPO_POINTS");
  const long long points = wanted ? atoll(wanted) : 24;
  OK(NULL, grpo_set_allocator(&allocator));
  CHECK(trial(work, 0, false) == GRPO_OK);
  const long long total = atomic_load(&memory.calls), stride = points ? total / points + 1 : 1;
  long long tried = 0, failed = 0;
  for (long long at = 1; at <= total; at += stride, tried++) failed += trial(work, at, from) != 0;
  if (from && failed < tried * 9 / 10)
    test_fail(__FILE__, __LINE__, "only %lld of %lld trials failed", failed, tried);
  printf("# %lld of %lld allocations, %lld failures\n", tried, total, failed);
  OK(NULL, grpo_set_allocator(NULL));
}

TEST(one_failed_allocation_in_training_is_a_status) { trials(train, false); }
TEST(no_memory_from_some_point_on_in_training_is_a_status) { trials(train, true); }
TEST(one_failed_allocation_in_what_a_host_uses_is_a_status) { trials(use, false); }
TEST(no_memory_from_some_point_on_in_what_a_host_uses_is_a_status) { trials(use, true); }
TEST(one_failed_allocation_in_a_run_is_a_status) { trials(run, false); }
TEST(no_memory_from_some_point_on_in_a_run_is_a_status) { trials(run, true); }

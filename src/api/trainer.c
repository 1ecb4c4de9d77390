/* trainer.c - the step API over rl/engine.h: rollout, score, advantages, update. */
#include <math.h>
#include <string.h>

#include "api/trainer.h"
#include "base/mem.h"
#include "checkpoint/peft.h"
#include "checkpoint/run_checkpoint.h"
#include "checkpoint/save.h"
#include "model/lora.h"
#include "os/file.h"
#include "rl/advantage.h"
#include "rl/reference.h"
#include "rl/rollout.h"
#include "rl/sft.h"
#include "rl/update.h"
#include "text/tokenizer_files.h"

/* ---- making ----------------------------------------------------------------------- */

static grpo_trainer_options defaults(void) {
  EngineOptions o;
  engine_options_init(&o);
  const AdamWOptions *a = &o.optimizer.adamw;
  return (grpo_trainer_options){
      .size = sizeof(grpo_trainer_options),
      .max_new_tokens = o.max_new_tokens,
      .reuse_rollout = -1,
      .examples = 1,
#define INT(path, field, ...)    .field = o.field,
#define NUMBER(path, field, ...) .field = o.field,
#define BOOL(path, field, ...)   .field = o.field,
#define CHOICE(...)
#include "rl/engine_options.def"
#define NUMBER(path, field, ...) .field = a->field,
#include "grad/adamw.def"
      .optimizer = NULL,
  };
}

/* Its size before it had an optimizer. */
enum { FIRST_OPTIONS = offsetof(grpo_trainer_options, optimizer) };

grpo_status grpo_trainer_options_init(grpo_trainer_options *o, size_t size) {
  const grpo_trainer_options d = defaults();
  return options_init_grown(o, size, &d, sizeof d, FIRST_OPTIONS);
}

static Status take_optimizer(const char *name, OptimizerOptions *out) {
  int kind;
  if (!name) return GRPO_OK;
  try(option_find_word(option_find(&optimizer_option_set, "train.optimizer.name"), name, &kind));
  out->kind = (OptimizerKind)kind;
  return GRPO_OK;
}

static Status take_options(const grpo_trainer_options *o, EngineOptions *out) {
  grpo_trainer_options own = defaults();
  try(options_take_grown(&own, sizeof own, FIRST_OPTIONS, o, "grpo_trainer_options"));
  if (own.reuse_rollout < -1 || own.reuse_rollout > 1)
    return fail(GRPO_EARG, "train.reuse_rollout: %d, want -1, 0 or 1", own.reuse_rollout);
  engine_options_init(out);
#define INT(path, field, ...)    out->field = own.field;
#define NUMBER(path, field, ...) out->field = own.field;
#define BOOL(path, field, ...)   out->field = own.field != 0;
#define CHOICE(...)
#include "rl/engine_options.def"
#define NUMBER(path, field, ...) out->optimizer.adamw.field = own.field;
#include "grad/adamw.def"
  out->max_new_tokens = own.max_new_tokens;
  out->reuse_rollout = own.reuse_rollout < 0 ? REUSE_AUTO
                       : own.reuse_rollout   ? REUSE_ON
                                             : REUSE_OFF;
  out->examples = own.examples != 0;
  out->turns = true; /* for samples of which the model has sampled a part (put.c) */
  try(take_optimizer(own.optimizer, &out->optimizer));
  return options_check(&adamw_option_set, &out->optimizer.adamw);
}

static Status check_same(const grpo_model *policy, const grpo_model *reference,
                         const grpo_tokenizer *t) {
  if (reference && reference->m == policy->m)
    return fail(GRPO_EARG, "reference is the policy itself; grpo_model_clone makes a frozen copy");
  if (reference) try(same_context(reference->c, policy->c, "trainer: the reference"));
  if (t) try(same_context(t->c, policy->c, "trainer: the tokenizer"));
  return GRPO_OK;
}

static Status make(grpo_model *policy, grpo_model *reference, grpo_tokenizer *t,
                   const grpo_trainer_options *o, grpo_trainer **out) {
  EngineOptions options;
  Pool *pool;
  try(need(out, "out"));
  try(check_same(policy, reference, t));
  try(take_options(o, &options));
  try(context_pool(policy->c, &pool));
  grpo_trainer *n = mem_zalloc(sizeof *n);
  if (!n) return fail(GRPO_ENOMEM, "trainer");
  if (policy->base) n->base = mem_strdup(policy->base);
  const Status s = policy->base && !n->base
                       ? fail(GRPO_ENOMEM, "trainer")
                       : engine_new(&n->e, pool, policy->m, reference ? reference->m : NULL,
                                    t ? t->t : NULL, &options);
  if (s != GRPO_OK) {
    mem_free(n->base);
    mem_free(n);
    return s;
  }
  n->tok = t ? t->t : NULL;
  n->c = context_retain(policy->c);
  *out = n;
  return GRPO_OK;
}

grpo_status grpo_trainer_new(grpo_model *policy, grpo_model *reference, grpo_tokenizer *t,
                             const grpo_trainer_options *o, grpo_trainer **out) {
  in_call(call_begin, policy ? policy->c : NULL, make(policy, reference, t, o, out));
}

void grpo_trainer_free(grpo_trainer *t) {
  if (!t || free_refused(t->c, __func__)) return;
  grpo_context *c = t->c;
  if (t->slices) t->slices_free(t->slices);
  engine_free(t->e);
  texts_free(&t->texts);
  mem_free(t->reward);
  mem_free(t->advantage);
  mem_free(t->base);
  mem_free(t);
  context_release(c);
}

/* ---- 1. rollout ------------------------------------------------------------------ */

static Batch *batch_of(const grpo_trainer *t) { return engine_batch(t->e, BATCH_SAMPLE); }
static size_t samples(const grpo_trainer *t) {
  return t->prompts ? (size_t)batch_size(batch_of(t)) : 0;
}

static Status reserve(grpo_trainer *t, size_t n) {
  if (n <= t->cap) return GRPO_OK;
  double *reward = mem_realloc(t->reward, n * sizeof *reward);
  if (reward) t->reward = reward;
  double *advantage = mem_realloc(t->advantage, n * sizeof *advantage);
  if (advantage) t->advantage = advantage;
  if (!reward || !advantage) return fail(GRPO_ENOMEM, "rollout of %zu completions", n);
  t->cap = n;
  return GRPO_OK;
}

Status trainer_has_batch(grpo_trainer *t, int prompts) {
  const Batch *b = batch_of(t);
  try(texts_decode(&t->texts, t->tok, b->completion, (size_t)batch_size(b)));
  try(reserve(t, (size_t)batch_size(b)));
  t->prompts = prompts;
  return GRPO_OK;
}

static Status run_rollout(grpo_trainer *t, const grpo_prompt *p, size_t n, const grpo_sampling *o,
                          const Sampling *sampling) {
  TokenCall call = {
      .c = t->c, .tok = t->tok, .fn = o->on_token, .user = o->on_token_user, .step = o->step};
  const RolloutOptions r = {.sampling = *sampling,
                            .group = o->n ? o->n : engine_options(t->e)->group_size,
                            .seed = o->seed,
                            .step = o->step,
                            .on_token = token_fn(&call),
                            .on_token_user = &call};
  Prompt *prompts = mem_alloc(n * sizeof *prompts);
  if (!prompts) return fail(GRPO_ENOMEM, "rollout of %zu prompts", n);
  for (size_t i = 0; i < n; i++)
    prompts[i] = (Prompt){.ids = p[i].ids, .len = (int)p[i].length, .index = p[i].index};
  t->prompts = 0;
  t->scored = t->has_advantages = false;
  const Status s = engine_rollout(t->e, BATCH_SAMPLE, (int)n, prompts, &r);
  mem_free(prompts);
  buf_free(&call.text);
  t->step = o->step;
  return s == GRPO_OK ? trainer_has_batch(t, (int)n) : s;
}

Status trainer_rollout(grpo_trainer *t, const grpo_prompt *p, size_t n, const grpo_sampling *o) {
  grpo_sampling own;
  Sampling sampling = {0};
  grpo_sampling_init(&own, sizeof own);
  try(options_take_grown(&own, sizeof own, FIRST_SAMPLING, o, "grpo_sampling"));
  try(prompts_check(p, n));
  if (own.max_new_tokens == 0) own.max_new_tokens = engine_options(t->e)->max_new_tokens;
  Status s = sampling_take(&own, &sampling);
  if (s == GRPO_OK) s = run_rollout(t, p, n, &own, &sampling);
  sampling_release(&sampling);
  return s;
}

grpo_status grpo_trainer_rollout(grpo_trainer *t, const grpo_prompt *prompts, size_t count,
                                 const grpo_sampling *o) {
  in_call(call_begin, t ? t->c : NULL, trainer_rollout(t, prompts, count, o));
}

size_t grpo_trainer_sample_count(const grpo_trainer *t) { return t ? samples(t) : 0; }

static void show(const grpo_trainer *t, size_t i, grpo_sample *s) {
  const Batch *b = batch_of(t);
  sample_fill(s, &b->completion[i], &t->texts, i, b->group);
  s->step = t->step;
}

static Status sample_at(const grpo_trainer *t, size_t i, grpo_sample *out) {
  grpo_sample v;
  if (i >= samples(t)) return fail(GRPO_EARG, "sample %zu: there are %zu samples", i, samples(t));
  show(t, i, &v);
  return struct_put_grown(out, &v, sizeof v, FIRST_SAMPLE, "grpo_sample");
}

grpo_status grpo_trainer_sample_at(grpo_trainer *t, size_t i, grpo_sample *out) {
  in_call(call_begin, t ? t->c : NULL, sample_at(t, i, out));
}

/* ---- 2. rewards ------------------------------------------------------------------ */

static Status need_rollout(const grpo_trainer *t) {
  return t->prompts ? GRPO_OK
                    : fail(GRPO_EARG, "there is no rollout; call grpo_trainer_rollout first");
}

static Status check_count(const char *what, size_t got, size_t want) {
  if (got == want) return GRPO_OK;
  return fail(GRPO_ESHAPE, "%s: %zu numbers for %zu completions", what, got, want);
}

Status trainer_score_one(grpo_trainer *t, size_t i, grpo_reward_fn fn, void *user) {
  grpo_sample s;
  double reward = NAN;
  show(t, i, &s);
  const LocaleMark ours = callback_enter(t->c);
  const grpo_status st = fn(user, &s, &reward);
  try(callback_leave(t->c, ours));
  try(progress_reached(NULL, 0, 0));
  if (st != GRPO_OK)
    return fail(GRPO_ESCRIPT, "the reward callback returned %s for completion %zu",
                grpo_status_name(st), i);
  if (isinf(reward))
    return fail(GRPO_ESCRIPT, "the reward callback gave completion %zu an infinite reward", i);
  t->reward[i] = reward;
  return GRPO_OK;
}

static Status score(grpo_trainer *t, grpo_reward_fn fn, void *user) {
  try(need_rollout(t));
  if (!fn) return fail(GRPO_EARG, "score: the callback is NULL");
  t->scored = t->has_advantages = false;
  for (size_t i = 0; i < samples(t); i++) try(trainer_score_one(t, i, fn, user));
  t->scored = true;
  return GRPO_OK;
}

grpo_status grpo_trainer_score(grpo_trainer *t, grpo_reward_fn fn, void *user) {
  in_call(call_begin, t ? t->c : NULL, score(t, fn, user));
}

static Status set_rewards(grpo_trainer *t, const double *rewards, size_t n) {
  try(need_rollout(t));
  try(need(rewards, "rewards"));
  try(check_count("rewards", n, samples(t)));
  for (size_t i = 0; i < n; i++)
    if (isinf(rewards[i]))
      return fail(GRPO_EARG, "rewards[%zu] is infinite, want a finite number or NaN", i);
  memcpy(t->reward, rewards, n * sizeof *rewards);
  t->scored = true;
  t->has_advantages = false;
  return GRPO_OK;
}

grpo_status grpo_trainer_set_rewards(grpo_trainer *t, const double *rewards, size_t count) {
  in_call(call_begin, t ? t->c : NULL, set_rewards(t, rewards, count));
}

static Status copy_out(const double *from, size_t n, double *out, size_t capacity) {
  if (!out) return GRPO_OK;
  if (capacity < n)
    return fail(GRPO_ELIMIT, "out: it has room for %zu numbers, want %zu", capacity, n);
  memcpy(out, from, n * sizeof *out);
  return GRPO_OK;
}

static Status need_rewards(const grpo_trainer *t) {
  try(need_rollout(t));
  return t->scored ? GRPO_OK
                   : fail(GRPO_EARG, "the rollout has no rewards; call grpo_trainer_score first");
}

static Status get_rewards(grpo_trainer *t, double *out, size_t capacity) {
  try(need(out, "out"));
  try(need_rewards(t));
  return copy_out(t->reward, samples(t), out, capacity);
}

grpo_status grpo_trainer_rewards(grpo_trainer *t, double *out, size_t capacity) {
  in_call(call_begin, t ? t->c : NULL, get_rewards(t, out, capacity));
}

/* ---- 3. advantages --------------------------------------------------------------- */

Status trainer_advantages(grpo_trainer *t, const grpo_advantage_options *o, double *out,
                          size_t capacity) {
  try(need_rewards(t));
  if (o && o->size >= sizeof *o && o->rewards != 1)
    return fail(GRPO_EARG,
                "advantages.rewards must be 1: a trainer keeps one reward per completion");
  try(advantages_take(o, batch_of(t)->group, samples(t), t->reward, NULL, t->advantage));
  t->has_advantages = true;
  return copy_out(t->advantage, samples(t), out, capacity);
}

grpo_status grpo_trainer_advantages(grpo_trainer *t, const grpo_advantage_options *o, double *out,
                                    size_t capacity) {
  in_call(call_begin, t ? t->c : NULL, trainer_advantages(t, o, out, capacity));
}

static Status set_advantages(grpo_trainer *t, const double *advantages, size_t n) {
  try(need_rollout(t));
  try(need(advantages, "advantages"));
  try(check_count("advantages", n, samples(t)));
  for (size_t i = 0; i < n; i++)
    if (!(fabs(advantages[i]) <= LARGEST_REWARD))
      return fail(GRPO_EARG, "advantages[%zu] is %g, want at most %g in size", i, advantages[i],
                  LARGEST_REWARD);
  memcpy(t->advantage, advantages, n * sizeof *advantages);
  t->has_advantages = true;
  return GRPO_OK;
}

grpo_status grpo_trainer_set_advantages(grpo_trainer *t, const double *advantages, size_t count) {
  in_call(call_begin, t ? t->c : NULL, set_advantages(t, advantages, count));
}

Status trainer_reference(grpo_trainer *t) {
  try(need_rollout(t));
  return engine_reference(t->e, batch_of(t));
}

grpo_status grpo_trainer_reference(grpo_trainer *t) {
  in_call(call_begin, t ? t->c : NULL, trainer_reference(t));
}

/* ---- 4. update ------------------------------------------------------------------- */

static grpo_update_options update_defaults(void) {
  UpdateOptions o;
  update_options_init(&o, LOSS_grpo);
  return (grpo_update_options){
      .size = sizeof(grpo_update_options),
#define NUMBER(path, field, ...) .field = o.field,
#include "rl/step_options.def"
#define INT(path, field, ...)  .field = o.field,
#define BOOL(path, field, ...) .field = o.field,
#include "rl/update_options.def"
  };
}

/* Its size before updates could accumulate. */
enum { FIRST_UPDATE = offsetof(grpo_update_options, accumulate) };

grpo_status grpo_update_options_init(grpo_update_options *o, size_t size) {
  const grpo_update_options d = update_defaults();
  return options_init_grown(o, size, &d, sizeof d, FIRST_UPDATE);
}

Status trainer_take_update(const grpo_update_options *o, grpo_update_options *own,
                           UpdateOptions *out) {
  LossOptions loss;
  *own = update_defaults();
  try(options_take_grown(own, sizeof *own, FIRST_UPDATE, o, "grpo_update_options"));
  try(loss_take(own->loss, &loss));
  update_options_init(out, loss.kind);
  out->loss = loss;
  out->seed = own->seed;
  out->step = own->step;
  out->accumulate = own->accumulate != 0;
#define NUMBER(path, field, ...) out->field = own->field;
#include "rl/step_options.def"
#define INT(path, field, ...)  out->field = own->field;
#define BOOL(path, field, ...) out->field = own->field != 0;
#include "rl/update_options.def"
  return options_check(&update_option_set, out);
}

/* Keeps the metrics for the host: sorted by name, without those that do not apply. */
static void keep_metrics(grpo_trainer *t, const StepMetrics *m, const grpo_metrics **out) {
  static const char *const names[METRICS] = {
#define METRIC(field, name) name,
#include "rl/metrics.def"
#undef METRIC
  };
  const double values[METRICS] = {
#define METRIC(field, name) m->field,
#include "rl/metrics.def"
#undef METRIC
  };
  size_t n = 0;
  for (int i = 0; i < METRICS; i++) {
    size_t at = n;
    if (isnan(values[i])) continue;
    for (; at > 0 && strcmp(t->metric[at - 1].name, names[i]) > 0; at--)
      t->metric[at] = t->metric[at - 1];
    t->metric[at] = (grpo_metric){names[i], values[i]};
    n++;
  }
  t->metrics = (grpo_metrics){sizeof t->metrics, n, t->metric};
  if (out) *out = &t->metrics;
}

double grpo_metric_get(const grpo_metrics *m, const char *name) {
  for (size_t i = 0; m && name && i < m->count; i++)
    if (strcmp(m->items[i].name, name) == 0) return m->items[i].value;
  return NAN;
}

Status trainer_update(grpo_trainer *t, const grpo_update_options *o, const grpo_metrics **metrics) {
  grpo_update_options own;
  UpdateOptions u;
  StepMetrics m;
  try(need_rollout(t));
  try(trainer_take_update(o, &own, &u));
  if (!t->has_advantages)
    return fail(GRPO_EARG,
                "update: the rollout has no advantages; call grpo_trainer_advantages first");
  if (!u.loss.max_new_tokens) u.loss.max_new_tokens = engine_options(t->e)->max_new_tokens;
  u.advantage = t->advantage;
  try(engine_update(t->e, batch_of(t), &u, &m));
  keep_metrics(t, &m, metrics);
  return GRPO_OK;
}

grpo_status grpo_trainer_update(grpo_trainer *t, const grpo_update_options *o,
                                const grpo_metrics **metrics) {
  in_call(call_begin, t ? t->c : NULL, trainer_update(t, o, metrics));
}

/* ---- demonstrations -------------------------------------------------------------- */

static Status check_examples(const grpo_trainer *t, const grpo_example *x, size_t n) {
  const size_t most = (size_t)model_config(engine_policy(t->e))->max_position_embeddings;
  if (n < 1 || n > 1 << 20) return fail(GRPO_EARG, "examples: got %zu, want 1 to %d", n, 1 << 20);
  try(need(x, "examples"));
  for (size_t i = 0; i < n; i++) {
    if (x[i].prompt_length) try(need(x[i].prompt, "examples[].prompt"));
    try(need(x[i].target, "examples[].target"));
    if (x[i].prompt_length > most || x[i].target_length > most)
      return fail(GRPO_EARG, "examples[%zu]: %zu or %zu tokens exceed the model's context of %zu",
                  i, x[i].prompt_length, x[i].target_length, most);
  }
  return GRPO_OK;
}

/* The caller frees *out. */
static Status take_examples(const grpo_trainer *t, const grpo_example *x, size_t n, Example **out) {
  try(check_examples(t, x, n));
  Example *e = *out = mem_alloc(n * sizeof *e);
  if (!e) return fail(GRPO_ENOMEM, "%zu examples", n);
  for (size_t i = 0; i < n; i++)
    e[i] = (Example){.prompt = x[i].prompt,
                     .target = x[i].target,
                     .prompt_len = (int)x[i].prompt_length,
                     .target_len = (int)x[i].target_length};
  return GRPO_OK;
}

Status trainer_sft(grpo_trainer *t, const grpo_example *examples, size_t n,
                   const grpo_update_options *o, const grpo_metrics **metrics) {
  grpo_update_options own;
  UpdateOptions u;
  StepMetrics m;
  Example *x = NULL;
  try(trainer_take_update(o, &own, &u));
  try(take_examples(t, examples, n, &x));
  const SftOptions options = {.lr = u.lr,
                              .max_grad_norm = u.max_grad_norm,
                              .seed = u.seed,
                              .step = u.step,
                              .accumulate = u.accumulate};
  const Status s = engine_sft(t->e, (int)n, x, &options, &m);
  mem_free(x);
  if (s == GRPO_OK) keep_metrics(t, &m, metrics);
  return s;
}

grpo_status grpo_trainer_sft(grpo_trainer *t, const grpo_example *examples, size_t count,
                             const grpo_update_options *o, const grpo_metrics **metrics) {
  in_call(call_begin, t ? t->c : NULL, trainer_sft(t, examples, count, o, metrics));
}

static Status evaluate(grpo_trainer *t, const grpo_example *examples, size_t n, double *mean,
                       int64_t *tokens) {
  Example *x = NULL;
  double m;
  int64_t count;
  try(need(mean, "mean"));
  try(take_examples(t, examples, n, &x));
  const Status s = engine_nll(t->e, (int)n, x, &m, &count);
  mem_free(x);
  try(s);
  *mean = m;
  if (tokens) *tokens = count;
  return GRPO_OK;
}

grpo_status grpo_trainer_evaluate(grpo_trainer *t, const grpo_example *examples, size_t count,
                                  double *mean, int64_t *tokens) {
  in_call(call_begin, t ? t->c : NULL, evaluate(t, examples, count, mean, tokens));
}

/* ---- state ----------------------------------------------------------------------- */

static Status save(grpo_trainer *t, const char *directory) {
  Model *m = engine_policy(t->e);
  try(need(directory, "directory"));
  try(engine_check_policy(t->e));
  try(file_mkdirs(directory));
  try(lora_attached(m) ? peft_save(m, directory, t->base)
                       : save_model(m, directory, WEIGHT_F32, 0));
  if (t->tok) try(tokenizer_save(t->tok, directory));
  return engine_save(t->e, directory);
}

grpo_status grpo_trainer_save(grpo_trainer *t, const char *directory) {
  in_call(call_begin, t ? t->c : NULL, save(t, directory));
}

static Status load(grpo_trainer *t, const char *directory) {
  try(need(directory, "directory"));
  try(run_checkpoint_check(directory, CHECKPOINT_ALL));
  return engine_load(t->e, directory);
}

grpo_status grpo_trainer_load(grpo_trainer *t, const char *directory) {
  in_call(call_begin, t ? t->c : NULL, load(t, directory));
}

/* run.c - whole runs: keeps the options and callbacks, then calls script/host_run.h. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "script/host_run.h"

typedef struct Reward {
  grpo_run *run;
  grpo_reward_fn fn;
  void *user;
  char *name;
  double weight;
} Reward;

struct grpo_run {
  HANDLE_FIELDS;
  grpo_run_options o; /* its strings are copies, which `words` owns */
  char **words;
  size_t nwords;
  const char **overrides, **args;
  Reward **reward; /* [nrewards] */
  size_t nrewards;
  grpo_step_fn on_step;
  void *step_user;
  atomic_bool stop;
  bool begun, ended;
  int64_t steps;
  bool stopped;
  Buf directory;
};

/* ---- making ---------------------------------------------------------------------- */

grpo_status grpo_run_options_init(grpo_run_options *o, size_t size) {
  const grpo_run_options d = {.size = sizeof d};
  return options_init(o, size, &d, sizeof d);
}

static void destroy(grpo_run *r) {
  for (size_t i = 0; i < r->nwords; i++) mem_free(r->words[i]);
  for (size_t i = 0; i < r->nrewards; i++) {
    mem_free(r->reward[i]->name);
    mem_free(r->reward[i]);
  }
  mem_free(r->words);
  mem_free(r->overrides);
  mem_free(r->args);
  mem_free(r->reward);
  buf_free(&r->directory);
  mem_free(r);
}

void grpo_run_free(grpo_run *r) {
  if (!r || free_refused(r->c, __func__)) return;
  grpo_context *c = r->c;
  destroy(r);
  context_release(c);
}

/* Replaces *word by a copy; r->words has room for it. */
static Status copy_word(grpo_run *r, const char **word) {
  if (!*word) return GRPO_OK;
  char *copy = mem_strdup(*word);
  if (!copy) return fail(GRPO_ENOMEM, "run");
  r->words[r->nwords++] = copy;
  *word = copy;
  return GRPO_OK;
}

static Status copy_list(grpo_run *r, const char *const *from, size_t n, const char ***to,
                        const char *what) {
  if (n) try(need(from, what));
  *to = mem_zalloc((n + 1) * sizeof **to);
  if (!*to) return fail(GRPO_ENOMEM, "run");
  for (size_t i = 0; i < n; i++) {
    try(need(from[i], what));
    (*to)[i] = from[i];
    try(copy_word(r, &(*to)[i]));
  }
  return GRPO_OK;
}

enum { SINGLE_WORDS = 4, MOST_WORDS = 1 << 16 };

static Status copy_options(grpo_run *r) {
  grpo_run_options *o = &r->o;
  r->words = mem_zalloc((SINGLE_WORDS + o->override_count + o->arg_count) * sizeof *r->words);
  if (!r->words) return fail(GRPO_ENOMEM, "run");
  try(copy_word(r, &o->path));
  try(copy_word(r, &o->script));
  try(copy_word(r, &o->directory));
  try(copy_word(r, &o->resume));
  try(copy_list(r, o->overrides, o->override_count, &r->overrides, "overrides"));
  try(copy_list(r, o->args, o->arg_count, &r->args, "args"));
  o->overrides = r->overrides;
  o->args = r->args;
  return GRPO_OK;
}

static Status check(const grpo_run_options *o) {
  if (!o->path && !o->script && !o->resume)
    return fail(GRPO_EARG, "grpo_run_options: set path, script or resume; all are NULL");
  if (o->script && o->resume)
    return fail(GRPO_EARG,
                "grpo_run_options: a resumed run has its own script; set script to NULL");
  if (o->max_steps < 0)
    return fail(GRPO_EARG, "grpo_run_options: max_steps is %lld, want 0 or more",
                (long long)o->max_steps);
  if (o->override_count > MOST_WORDS || o->arg_count > MOST_WORDS)
    return fail(GRPO_EARG, "grpo_run_options: got %zu overrides and %zu args, want at most %d",
                o->override_count, o->arg_count, MOST_WORDS);
  return GRPO_OK;
}

static Status make(grpo_context *c, const grpo_run_options *o, grpo_run **out) {
  grpo_run_options own = {.size = sizeof own};
  try(need(o, "options"));
  try(need(out, "out"));
  try(options_take(&own, sizeof own, o, "grpo_run_options"));
  try(check(&own));
  grpo_run *r = mem_zalloc(sizeof *r);
  if (!r) return fail(GRPO_ENOMEM, "run");
  r->o = own;
  atomic_init(&r->stop, false);
  const Status s = copy_options(r);
  if (s != GRPO_OK) {
    destroy(r);
    return s;
  }
  r->c = context_retain(c);
  *out = r;
  return GRPO_OK;
}

grpo_status grpo_run_new(grpo_context *c, const grpo_run_options *o, grpo_run **out) {
  in_call(call_begin, c, make(c, o, out));
}

/* ---- callbacks ------------------------------------------------------------------- */

static grpo_status call_reward(void *user, const grpo_sample *s, double *reward) {
  const Reward *r = user;
  const LocaleMark ours = callback_enter(r->run->c);
  const grpo_status st = r->fn(r->user, s, reward);
  const grpo_status left = (grpo_status)callback_leave(r->run->c, ours);
  return st ? st : left;
}

static grpo_status call_step(void *user, int64_t step, const grpo_metrics *m) {
  grpo_run *r = user;
  const LocaleMark ours = callback_enter(r->c);
  const grpo_status st = r->on_step(r->step_user, step, m);
  const grpo_status left = (grpo_status)callback_leave(r->c, ours);
  return st ? st : left;
}

static Status not_begun(const grpo_run *r) {
  return r->begun
             ? fail(GRPO_EARG, "a grpo_run is executed once, and this one has begun; make another")
             : GRPO_OK;
}

static Status add_reward(grpo_run *r, const char *name, double weight, grpo_reward_fn fn,
                         void *user) {
  try(not_begun(r));
  try(need(name, "name"));
  if (!fn) return fail(GRPO_EARG, "reward '%.60s': the callback is NULL", name);
  if (!*name || !isfinite(weight))
    return fail(GRPO_EARG, "reward '%.60s' with weight %g: want a name and a finite weight", name,
                weight);
  for (size_t i = 0; i < r->nrewards; i++)
    if (strcmp(r->reward[i]->name, name) == 0)
      return fail(GRPO_EARG, "reward '%.60s' was added before", name);
  Reward **grown = mem_realloc(r->reward, (r->nrewards + 1) * sizeof *grown);
  if (!grown) return fail(GRPO_ENOMEM, "reward");
  r->reward = grown;
  Reward *one = mem_zalloc(sizeof *one);
  char *copy = mem_strdup(name);
  if (!one || !copy) {
    mem_free(one);
    mem_free(copy);
    return fail(GRPO_ENOMEM, "reward");
  }
  *one = (Reward){r, fn, user, copy, weight};
  r->reward[r->nrewards++] = one;
  return GRPO_OK;
}

grpo_status grpo_run_add_reward(grpo_run *r, const char *name, double weight, grpo_reward_fn fn,
                                void *user) {
  in_call(call_begin, r ? r->c : NULL, add_reward(r, name, weight, fn, user));
}

static Status set_step(grpo_run *r, grpo_step_fn fn, void *user) {
  try(not_begun(r));
  r->on_step = fn;
  r->step_user = user;
  return GRPO_OK;
}

grpo_status grpo_run_on_step(grpo_run *r, grpo_step_fn fn, void *user) {
  in_call(call_begin, r ? r->c : NULL, set_step(r, fn, user));
}

/* ---- running --------------------------------------------------------------------- */

static Status execute(grpo_run *r) {
  try(not_begun(r));
  HostReward *rewards = mem_zalloc((r->nrewards + 1) * sizeof *rewards);
  if (!rewards) return fail(GRPO_ENOMEM, "run");
  for (size_t i = 0; i < r->nrewards; i++)
    rewards[i] = (HostReward){r->reward[i]->name, r->reward[i]->weight, call_reward, r->reward[i]};
  Hosted h = {.o = &r->o,
              .threads = r->c->threads,
              .nrewards = r->nrewards,
              .rewards = rewards,
              .on_step = r->on_step ? call_step : NULL,
              .step_user = r,
              .stop = &r->stop};
  r->begun = true;
  const Status s = hosted_run(&h);
  mem_free(rewards);
  r->steps = h.steps;
  r->stopped = h.stopped;
  r->directory = h.directory;
  r->ended = true;
  return s;
}

grpo_status grpo_run_execute(grpo_run *r) { in_call(call_begin, r ? r->c : NULL, execute(r)); }

grpo_status grpo_run_stop(grpo_run *r) {
  if (!r) return fail(GRPO_EARG, "the handle is NULL");
  atomic_store(&r->stop, true);
  return GRPO_OK;
}

static Status result(grpo_run *r, int64_t *steps, int32_t *stopped, const char **directory) {
  if (!r->ended) return fail(GRPO_EARG, "the run has not ended; call grpo_run_execute first");
  if (steps) *steps = r->steps;
  if (stopped) *stopped = r->stopped;
  if (directory) *directory = r->directory.data ? r->directory.data : "";
  return GRPO_OK;
}

grpo_status grpo_run_result(grpo_run *r, int64_t *steps, int32_t *stopped, const char **directory) {
  in_call(call_begin, r ? r->c : NULL, result(r, steps, stopped, directory));
}

/* run.c - whole runs: keeps the options and callbacks, then calls script/host_run.h. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "script/host_run.h"

/* A function of the host's: `own` is what it gave, and `run` stands between that and the script. */
typedef struct Function {
  grpo_run *run;
  HostFunction own;
  char *name;
} Function;

struct grpo_run {
  HANDLE_FIELDS;
  grpo_run_options o; /* its strings are copies, which `words` owns */
  char **words;
  size_t nwords;
  const char **overrides, **args;
  Function **function; /* [nfunctions] */
  size_t nfunctions;
  grpo_step_fn on_step;
  void *step_user;
  atomic_bool stop;
  bool begun, ended;
  int64_t steps;
  bool stopped;
  Buf directory;
};

/* ---- making ---------------------------------------------------------------------- */

/* Its size before hosts lent a Lua state. */
enum { FIRST_OPTIONS = offsetof(grpo_run_options, lua) };

grpo_status grpo_run_options_init(grpo_run_options *o, size_t size) {
  const grpo_run_options d = {.size = sizeof d};
  return options_init_grown(o, size, &d, sizeof d, FIRST_OPTIONS);
}

static void destroy(grpo_run *r) {
  for (size_t i = 0; i < r->nwords; i++) mem_free(r->words[i]);
  for (size_t i = 0; i < r->nfunctions; i++) {
    mem_free(r->function[i]->name);
    mem_free(r->function[i]);
  }
  mem_free(r->words);
  mem_free(r->overrides);
  mem_free(r->args);
  mem_free(r->function);
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
  try(options_take_grown(&own, sizeof own, FIRST_OPTIONS, o, "grpo_run_options"));
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

/* Calls a function of the host in its own locale. */
#define called(run, call)                                                                          \
  do {                                                                                             \
    const LocaleMark ours_ = callback_enter((run)->c);                                             \
    const grpo_status s_ = call;                                                                   \
    const grpo_status left_ = (grpo_status)callback_leave((run)->c, ours_);                        \
    return s_ ? s_ : left_;                                                                        \
  } while (0)

static grpo_status call_reward(void *user, const grpo_sample *s, double *reward) {
  const Function *f = user;
  called(f->run, f->own.reward(f->own.user, s, reward));
}

static grpo_status call_group(void *user, const grpo_sample *s, size_t n, double *rewards) {
  const Function *f = user;
  called(f->run, f->own.group(f->own.user, s, n, rewards));
}

static grpo_status call_tokens(void *user, const grpo_sample *s, double *rewards) {
  const Function *f = user;
  called(f->run, f->own.tokens(f->own.user, s, rewards));
}

static grpo_status call_function(void *user, const char *arguments, grpo_answer *answer) {
  const Function *f = user;
  called(f->run, f->own.call(f->own.user, arguments, answer));
}

static grpo_status call_step(void *user, int64_t step, const grpo_metrics *m) {
  grpo_run *r = user;
  called(r, r->on_step(r->step_user, step, m));
}

static Status not_begun(const grpo_run *r) {
  return r->begun
             ? fail(GRPO_EARG, "a grpo_run is executed once, and this one has begun; make another")
             : GRPO_OK;
}

static Status check_function(const grpo_run *r, const HostFunction *f) {
  const char *kind = f->call ? "function" : "reward";
  try(not_begun(r));
  try(need(f->name, "name"));
  if (!f->reward && !f->group && !f->tokens && !f->call)
    return fail(GRPO_EARG, "'%.60s': the callback is NULL", f->name);
  if (f->call && !*f->name) return fail(GRPO_EARG, "the name of a function is empty");
  if (!*f->name || !isfinite(f->weight))
    return fail(GRPO_EARG, "%s '%.60s' with weight %g: want a name and a finite weight", kind,
                f->name, f->weight);
  for (size_t i = 0; i < r->nfunctions; i++)
    if (!r->function[i]->own.call == !f->call && strcmp(r->function[i]->name, f->name) == 0)
      return fail(GRPO_EARG, "%s '%.60s' was added before", kind, f->name);
  return GRPO_OK;
}

static Status add(grpo_run *r, const HostFunction *f) {
  try(check_function(r, f));
  Function **grown = mem_realloc(r->function, (r->nfunctions + 1) * sizeof *grown);
  if (!grown) return fail(GRPO_ENOMEM, "run");
  r->function = grown;
  Function *one = mem_zalloc(sizeof *one);
  char *copy = mem_strdup(f->name);
  if (!one || !copy) {
    mem_free(one);
    mem_free(copy);
    return fail(GRPO_ENOMEM, "run");
  }
  *one = (Function){r, *f, copy};
  r->function[r->nfunctions++] = one;
  return GRPO_OK;
}

grpo_status grpo_run_add_reward(grpo_run *r, const char *name, double weight, grpo_reward_fn fn,
                                void *user) {
  const HostFunction f = {.name = name, .weight = weight, .reward = fn, .user = user};
  in_call(call_begin, r ? r->c : NULL, add(r, &f));
}

grpo_status grpo_run_add_group_reward(grpo_run *r, const char *name, double weight,
                                      grpo_group_reward_fn fn, void *user) {
  const HostFunction f = {.name = name, .weight = weight, .group = fn, .user = user};
  in_call(call_begin, r ? r->c : NULL, add(r, &f));
}

grpo_status grpo_run_add_token_reward(grpo_run *r, const char *name, double weight,
                                      grpo_token_reward_fn fn, void *user) {
  const HostFunction f = {.name = name, .weight = weight, .tokens = fn, .user = user};
  in_call(call_begin, r ? r->c : NULL, add(r, &f));
}

grpo_status grpo_run_add_function(grpo_run *r, const char *name, grpo_call_fn fn, void *user) {
  const HostFunction f = {.name = name, .call = fn, .user = user};
  in_call(call_begin, r ? r->c : NULL, add(r, &f));
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
  HostFunction *functions = mem_zalloc((r->nfunctions + 1) * sizeof *functions);
  if (!functions) return fail(GRPO_ENOMEM, "run");
  for (size_t i = 0; i < r->nfunctions; i++) {
    const Function *f = r->function[i];
    functions[i] = (HostFunction){.name = f->name,
                                  .weight = f->own.weight,
                                  .reward = f->own.reward ? call_reward : NULL,
                                  .group = f->own.group ? call_group : NULL,
                                  .tokens = f->own.tokens ? call_tokens : NULL,
                                  .call = f->own.call ? call_function : NULL,
                                  .user = r->function[i]};
  }
  Hosted h = {.o = &r->o,
              .threads = r->c->threads,
              .nfunctions = r->nfunctions,
              .functions = functions,
              .on_step = r->on_step ? call_step : NULL,
              .step_user = r,
              .stop = &r->stop};
  r->begun = true;
  const Status s = hosted_run(&h);
  mem_free(functions);
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

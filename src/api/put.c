/* put.c - samples made elsewhere, gradients and the optimizer's state, to and from a trainer. */
#include <math.h>
#include <string.h>

#include "api/trainer.h"
#include "base/mem.h"
#include "rl/accumulate.h"
#include "rl/given.h"

/* ---- samples ---------------------------------------------------------------------- */

/* The samples of a host, whose struct may be older or newer than ours. */
typedef struct Given {
  const char *first;
  size_t stride, n;
} Given;

static Status given_at(const Given *g, size_t i, grpo_sample *out) {
  *out = (grpo_sample){.size = sizeof *out};
  return options_take_grown(out, sizeof *out, FIRST_SAMPLE, g->first + i * g->stride,
                            "grpo_sample");
}

static Status finish_of(const char *word, size_t i, Finish *out) {
  *out = FINISH_EOS;
  if (!word) return GRPO_OK;
  for (int f = FINISH_EOS; f <= FINISH_LENGTH; f++)
    if (strcmp(word, finish_name((Finish)f)) == 0) return *out = (Finish)f, GRPO_OK;
  return fail(GRPO_EARG, "samples[%zu].finish: '%.40s' is unknown, want eos, stop or length", i,
              word);
}

/* One row of log-probabilities, zeros behind the sample's. */
static Status take_logprobs(const grpo_sample *s, size_t i, float *row) {
  for (size_t k = 0; k < s->length; k++) {
    if (!(s->logprobs[k] <= 0) || isinf(s->logprobs[k]))
      return fail(GRPO_EARG, "samples[%zu].logprobs[%zu] is %g, want a finite number up to 0", i, k,
                  (double)s->logprobs[k]);
    row[k] = s->logprobs[k];
  }
  return GRPO_OK;
}

/* logp [n, width]: zeros */
static Status take_texts(const Given *g, size_t width, GivenText *text, float *logp, bool *has) {
  grpo_sample s;
  for (size_t i = 0; i < g->n; i++) {
    try(given_at(g, i, &s));
    try(need(s.ids, "samples[].ids"));
    if (s.length < 1 || s.length > width)
      return fail(GRPO_EARG,
                  "samples[%zu]: it has %zu tokens, want 1 to %zu, the trainer's "
                  "max_new_tokens",
                  i, s.length, width);
    if (i && *has != (s.logprobs != NULL))
      return fail(GRPO_EARG, "samples: give log-probabilities of all of them, or of none");
    *has = s.logprobs != NULL;
    text[i] = (GivenText){.ids = s.ids, .len = (int)s.length, .sampled = s.sampled};
    try(finish_of(s.finish, i, &text[i].finish));
    if (*has) try(take_logprobs(&s, i, logp + i * width));
  }
  return GRPO_OK;
}

static Status put_texts(grpo_trainer *t, const Prompt *prompts, size_t count, const Given *g,
                        double temperature, GivenText *text, float *logp) {
  bool has = false;
  try(take_texts(g, (size_t)engine_options(t->e)->max_new_tokens, text, logp, &has));
  t->prompts = 0;
  t->scored = t->has_advantages = false;
  t->step = 0;
  const GivenOptions o = {
      .group = (int)(g->n / count), .temperature = temperature, .logp = has ? logp : NULL};
  try(engine_batch_given(t->e, BATCH_SAMPLE, (int)count, prompts, text, &o));
  return trainer_has_batch(t, (int)count);
}

static Status check_counts(const grpo_sample *samples, size_t count, size_t n) {
  try(need(samples, "samples"));
  if (n >= count && n % count == 0 && n <= 1 << 24) return GRPO_OK;
  return fail(GRPO_ESHAPE, "samples: %zu for %zu prompts, want as many for each of them", n, count);
}

static Status put(grpo_trainer *t, const grpo_prompt *p, size_t count, const grpo_sample *samples,
                  size_t n, double temperature) {
  try(prompts_check(p, count));
  try(check_counts(samples, count, n));
  try(temperature_check(temperature));
  const Given g = {(const char *)samples, samples->size, n};
  const size_t width = (size_t)engine_options(t->e)->max_new_tokens;
  Prompt *prompts = mem_zalloc(count * sizeof *prompts);
  GivenText *text = mem_zalloc(n * sizeof *text);
  float *logp = mem_zalloc(n * width * sizeof *logp);
  Status s = GRPO_OK;
  if (prompts && text && logp) {
    for (size_t i = 0; i < count; i++)
      prompts[i] = (Prompt){.ids = p[i].ids, .len = (int)p[i].length, .index = p[i].index};
    s = put_texts(t, prompts, count, &g, temperature, text, logp);
  } else {
    s = fail(GRPO_ENOMEM, "%zu samples", n);
  }
  mem_free(prompts);
  mem_free(text);
  mem_free(logp);
  return s;
}

grpo_status grpo_trainer_put(grpo_trainer *t, const grpo_prompt *prompts, size_t count,
                             const grpo_sample *samples, size_t sample_count, double temperature) {
  in_call(call_begin, t ? t->c : NULL, put(t, prompts, count, samples, sample_count, temperature));
}

/* ---- gradients -------------------------------------------------------------------- */

static Status gradient(grpo_trainer *t, const char *name, float *values, size_t n, bool set) {
  try(need(name, "name"));
  try(need(values, set ? "values" : "out"));
  const Param *p = model_find(engine_policy(t->e), name);
  if (!p) return fail(GRPO_EARG, "the model has no parameter '%.100s'", name);
  if (set ? n != p->t.n : n < p->t.n)
    return fail(set ? GRPO_ESHAPE : GRPO_ELIMIT, "%s has %zu elements, got %s%zu", name, p->t.n,
                set ? "" : "room for ", n);
  return engine_gradient(t->e, p, values, set);
}

grpo_status grpo_trainer_gradient_get(grpo_trainer *t, const char *name, float *out,
                                      size_t capacity) {
  in_call(call_begin, t ? t->c : NULL, gradient(t, name, out, capacity, false));
}

grpo_status grpo_trainer_gradient_set(grpo_trainer *t, const char *name, const float *values,
                                      size_t elements) {
  in_call(call_begin, t ? t->c : NULL,
          gradient(t, name, (float *)(uintptr_t)values, elements, true));
}

static Status apply(grpo_trainer *t, const grpo_update_options *o, double *norm) {
  grpo_update_options own;
  UpdateOptions u;
  double n = 0;
  try(trainer_take_update(o, &own, &u));
  try(engine_apply(t->e, u.lr, u.max_grad_norm, &n));
  if (norm) *norm = n;
  return GRPO_OK;
}

grpo_status grpo_trainer_apply(grpo_trainer *t, const grpo_update_options *o, double *norm) {
  in_call(call_begin, t ? t->c : NULL, apply(t, o, norm));
}

/* ---- the optimizer's state --------------------------------------------------------- */

static Status state_get(grpo_trainer *t, void *out, size_t capacity, size_t *length) {
  const Optimizer *o = engine_optimizer(t->e);
  try(need(length, "length"));
  if (capacity) try(need(out, "out"));
  try(engine_check_policy(t->e));
  *length = optimizer_state_bytes(o);
  if (!out) return GRPO_OK;
  if (capacity < *length)
    return fail(GRPO_ELIMIT, "out: it has room for %zu bytes, want %zu", capacity, *length);
  return optimizer_get(o, out);
}

grpo_status grpo_trainer_state_get(grpo_trainer *t, void *out, size_t capacity, size_t *length) {
  in_call(call_begin, t ? t->c : NULL, state_get(t, out, capacity, length));
}

static Status state_set(grpo_trainer *t, const void *state, size_t length) {
  try(need(state, "state"));
  try(engine_check_policy(t->e));
  return optimizer_put(engine_optimizer(t->e), state, length);
}

grpo_status grpo_trainer_state_set(grpo_trainer *t, const void *state, size_t length) {
  in_call(call_begin, t ? t->c : NULL, state_set(t, state, length));
}

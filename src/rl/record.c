#include "rl/record.h"

#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/log.h"
#include "model/lora.h"

static bool is_injected(const Plan *p, size_t token) { return p->sampled && !p->sampled[token]; }

/* Are the policy's weights those that sampled the batch? */
static bool policy_sampled_this(const Update *u) {
  const Engine *e = u->e;
  return !u->o->older_sampler && u->iteration == 0 && u->b->version == model_version(e->policy) &&
         lora_dropout(e->policy) == 0;
}

static bool has_activations(const Update *u) {
  const Engine *e = u->e;
  return e->has_activations && u->b == &e->batch[BATCH_SAMPLE] &&
         (u->sampled_own || !e->own_activations);
}

void record_begin(Update *u) {
  u->one_pass = policy_sampled_this(u) && !update_wants_full_kl(u); /* a full KL is not recorded */
  u->replay = policy_sampled_this(u) && has_activations(u);
}

bool record_needs_forward(const Update *u, int unit) {
  const LossOptions *l = &u->o->loss;
  if (u->o->older_sampler && u->iteration == 0) return true;
  return !u->plan.silent[unit] || u->values || u->o->loss_fn || u->routers || l->kl != 0 ||
         l->entropy != 0 || l->kl_cov_ratio > 0;
}

void record_use(Update *u, const Unit *unit) {
  const size_t at = (size_t)unit->token0, bytes = (size_t)unit->tokens * sizeof(real);
  memcpy(u->plan.logp + at, u->plan.old_logp + at, bytes);
  memcpy(u->plan.entropy + at, u->plan.old_entropy + at, bytes);
}

void record_result(Update *u, const Unit *unit, const Tensor *out) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  memcpy(u->plan.logp + at, out->data, n * sizeof(real));
  memcpy(u->plan.entropy + at, out->data + n, n * sizeof(real));
  for (size_t t = at; u->plan.sampled && t < at + n; t++)
    if (is_injected(&u->plan, t)) u->plan.logp[t] = u->plan.entropy[t] = 0;
  if (!u->o->older_sampler || u->iteration > 0) return;
  memcpy(u->plan.old_logp + at, u->plan.logp + at, n * sizeof(real));
  memcpy(u->plan.old_entropy + at, u->plan.entropy + at, n * sizeof(real));
}

bool record_agrees(const Update *u, const Unit *unit, const Tensor *out) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  for (size_t t = 0; t < n; t++) {
    if (is_injected(&u->plan, at + t)) continue;
    if (memcmp(u->plan.logp + at + t, out->data + t, sizeof(real)) != 0) return false;
    if (memcmp(u->plan.entropy + at + t, out->data + n + t, sizeof(real)) != 0) return false;
  }
  return true;
}

void record_silence_injected(const Update *u, const Unit *unit, real *seed, size_t rows) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  for (size_t t = 0; u->plan.sampled && t < n; t++)
    if (is_injected(&u->plan, at + t))
      for (size_t r = 0; r < rows; r++) seed[r * n + t] = 0;
}

void record_check_ratio(Update *u) {
  if (u->o->older_sampler || lora_dropout(u->e->policy) > 0) {
    u->ratio_deviation = NAN;
    return;
  }
  for (int i = u->first; i < u->end; i++) {
    const Unit *unit = &u->plan.unit[u->plan.order[i]];
    for (int t = unit->token0; t < unit->token0 + unit->tokens; t++) {
      const double d = fabs(math_exp((double)u->plan.logp[t] - (double)u->plan.old_logp[t]) - 1);
      if (!(d <= u->ratio_deviation)) u->ratio_deviation = d;
    }
  }
  if (u->ratio_deviation > 0)
    log_message(LOG_WARNING,
                "step %llu: the first iteration's ratio is off 1 by %.3g: sampling and training "
                "disagree; please report this",
                (unsigned long long)u->o->step, u->ratio_deviation);
}

#include "rl/user_loss.h"

#include <string.h>

#include "grad/policy.h"
#include "grad/policy_terms.h"

enum { NVALUES = 7 };

static Status new_value(const real *data, int n, bool needs_grad, Value **out) {
  *out = NULL;
  if (!data) return GRPO_OK;
  try(value_new(out, 1, &n));
  Tensor *t = value_tensor(*out);
  memcpy(t->data, data, (size_t)n * sizeof *data);
  t->needs_grad = needs_grad;
  return GRPO_OK;
}

static Status call_user(Update *u, const LossInput *in, double *value) {
  Value *loss = NULL;
  Status s = u->o->loss_fn(u->o->loss_user, in, &loss);
  if (s == GRPO_OK && (!loss || value_tensor(loss)->n != 1))
    s = fail(GRPO_EARG,
             "train.loss: the function must return a tensor with one number; sum() or mean() it");
  if (s == GRPO_OK && !value_tensor(loss)->needs_grad)
    s = fail(
        GRPO_EARG,
        "train.loss: the result does not depend on t.logp or t.entropy: nothing would be learned");
  if (s == GRPO_OK) {
    *value = (double)value_tensor(loss)->data[0];
    u->loss += *value;
    s = value_backward(&u->e->loss_tape.cx, loss);
  }
  value_release(loss);
  return s;
}

/* Adds the metrics that a built-in loss would have added.  value: of the micro-batch, counted with
 * its first unit. */
static void measure(Update *u, const MicroBatch *mb, const MicroBatch *own, double value) {
  const Plan *p = &u->plan;
  for (int i = own->first; i < own->first + own->n; i++) {
    LossMetrics of_unit;
    loss_metrics_init(&of_unit);
    for (int t = p->unit[i].token0; t < p->unit[i].token0 + p->unit[i].tokens; t++) {
      if (p->mask[t] == 0) continue;
      of_unit.tokens++;
      of_unit.entropy_sum += (double)p->entropy[t];
      if (!p->ref_logp) continue;
      of_unit.kl_sum += kl_k3((double)p->logp[t] - (double)p->ref_logp[t]);
    }
    loss_metrics_add(&u->sums, &of_unit);
    if (u->of_place)
      u->of_place[i] = (UnitLoss){.loss = i == mb->first ? value : 0, .sums = of_unit};
  }
}

Status user_loss(Update *u, const MicroBatch *mb, const MicroBatch *own) {
  Plan *p = &u->plan;
  const Unit *first = &p->unit[mb->first], *last = first + mb->n - 1;
  const size_t at = (size_t)first->token0;
  const int n = last->token0 + last->tokens - first->token0;
  const real *const data[NVALUES] = {p->logp + at,
                                     p->entropy + at,
                                     p->old_logp + at,
                                     p->ref_logp ? p->ref_logp + at : NULL,
                                     plan_sampler_logp(p) + at,
                                     p->advantage + at,
                                     p->mask + at};
  Value *v[NVALUES] = {NULL};
  Status s = GRPO_OK;
  double value = 0;
  tape_reset(&u->e->loss_tape);
  for (int i = 0; i < NVALUES && s == GRPO_OK; i++) s = new_value(data[i], n, i < 2, &v[i]);
  if (s == GRPO_OK)
    s = call_user(u,
                  &(LossInput){.logp = v[0],
                               .entropy = v[1],
                               .old_logp = v[2],
                               .ref_logp = v[3],
                               .sampler_logp = v[4],
                               .advantage = v[5],
                               .mask = v[6],
                               .nseq = last->first + last->n - first->first,
                               .ntokens = n,
                               .lengths = p->length + first->first,
                               .num_sequences = p->num_sequences,
                               .num_tokens = p->num_tokens < 1 ? 1 : p->num_tokens,
                               .beta = u->o->loss.kl,
                               .max_new_tokens = u->o->loss.max_new_tokens},
                  &value);
  if (s == GRPO_OK) {
    update_store_gradient(value_tensor(v[0]), p->dlogp + at);
    update_store_gradient(value_tensor(v[1]), p->dentropy + at);
    measure(u, mb, own, value);
  }
  for (int i = 0; i < NVALUES; i++) value_release(v[i]);
  return s;
}

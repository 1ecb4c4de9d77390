#include "rl/accumulate.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"
#include "os/comm.h"
#include "rl/engine_impl.h"

/* Takes the memory of the sum when it is first needed. */
static Status want_sum(Engine *e) {
  try(engine_check_policy(e));
  if (!e->optimizer) return fail(GRPO_EARG, "update: the engine was made without an optimizer");
  if (e->critic || comm_size() > 1)
    return fail(GRPO_EARG, "update: gradients are not accumulated with a critic or over ranks");
  if (e->gradient_sum) return GRPO_OK;
  const size_t bytes = (size_t)model_count_trainable(e->policy) * sizeof(real);
  e->gradient_sum = mem_alloc_aligned(bytes);
  if (!e->gradient_sum)
    return fail(GRPO_ENOMEM, "update: no memory for %zu MiB of gradients", bytes >> 20);
  mem_zero(e->gradient_sum, bytes);
  return GRPO_OK;
}

Status engine_accumulate(Engine *e) {
  Param *p;
  try(want_sum(e));
  real *sum = e->gradient_sum;
  for (int i = 0; (p = model_next_trainable(e->policy, &i)); sum += p->t.n)
    vec_acc(&e->tape.cx, p->t.n, p->t.grad, sum);
  return GRPO_OK;
}

Status engine_gradient(Engine *e, const Param *p, real *values, bool set) {
  const Param *each;
  try(want_sum(e));
  real *sum = e->gradient_sum;
  for (int i = 0; (each = model_next_trainable(e->policy, &i)); sum += each->t.n) {
    if (each != p) continue;
    memcpy(set ? sum : values, set ? values : sum, p->t.n * sizeof *sum);
    return GRPO_OK;
  }
  return fail(GRPO_EARG, "%s is frozen, so it has no gradient", p->name);
}

Status engine_apply(Engine *e, double lr, double max_grad_norm, double *norm) {
  Param *p;
  try(want_sum(e));
  real *sum = e->gradient_sum;
  for (int i = 0; (p = model_next_trainable(e->policy, &i)); sum += p->t.n)
    memcpy(p->t.grad, sum, p->t.n * sizeof *sum);
  try(optimizer_grad_norm(e->optimizer, &e->tape.cx, norm));
  if (!isfinite(*norm))
    return fail(GRPO_EDIVERGED,
                "the norm of the accumulated gradient is not finite, so the weights were not "
                "changed; set it to finite numbers");
  try(optimizer_step(e->optimizer, &e->tape.cx, lr, max_grad_norm, *norm));
  mem_zero(e->gradient_sum, (size_t)model_count_trainable(e->policy) * sizeof *sum);
  return GRPO_OK;
}

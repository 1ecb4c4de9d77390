#include "rl/report.h"

#include <math.h>

static double ratio_of(double a, double b) { return b > 0 ? a / b : NAN; }

/* A completion's length counts the tokens that the model sampled.  Returns their sum. */
static double length_metrics(const Batch *b, StepMetrics *m) {
  double sum = 0, cut = 0, terminated = 0;
  m->min_length = INFINITY;
  m->max_length = m->num_tokens = 0;
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    const int sampled = batch_sampled(b, i);
    sum += sampled;
    if (c->finish == FINISH_LENGTH)
      cut++;
    else
      terminated += sampled;
    m->min_length = fmin(m->min_length, sampled);
    m->max_length = fmax(m->max_length, sampled);
    m->num_tokens += c->len + b->prompt_len[i / b->group];
  }
  m->mean_length = sum / batch_size(b);
  m->clipped_ratio = cut / batch_size(b);
  m->mean_terminated_length = batch_size(b) > cut ? terminated / (batch_size(b) - cut) : 0;
  m->time_generate = b->seconds;
  m->tokens_per_second_generate = ratio_of(sum, b->seconds);
  return sum;
}

void update_report(const Update *u, int iterations, double norm, double seconds, StepMetrics *m) {
  step_metrics_init(m);
  const double sampled = length_metrics(u->b, m);
  loss_metrics_report(&u->sums, u->plan.ref_logp || update_wants_full_kl(u), m);
  m->loss = update_loss(u) / iterations;
  m->grad_norm = norm / iterations;
  if (u->routers) m->aux_loss = u->aux_loss / iterations;
  m->learning_rate = u->o->lr;
  m->beta = u->o->loss.kl;
  m->ratio_max_deviation = u->ratio_deviation;
  m->trained_tokens = u->tokens;
  m->time_train = seconds;
  m->time_forward = u->forward;
  m->time_backward = u->backward;
  m->time_optimizer = u->optimizer;
  m->tokens_per_second_train = ratio_of(sampled, seconds);
}

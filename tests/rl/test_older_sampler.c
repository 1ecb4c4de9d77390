/* UpdateOptions.older_sampler: a batch that older weights have sampled.  A loss reads what the
 * batch has recorded and what the weights before the update give, and nothing else. */
#include "steps.h"

enum { MOST = 2048 }; /* tokens of a batch */

/* A loss has been given this in the first iteration. */
typedef struct Seen {
  const Ctx *cx;
  int calls, n;
  real old[MOST], sampler[MOST], mask[MOST];
  bool same; /* log-probabilities and old ones have the same bits */
  bool kept; /* in the second iteration the old ones still are those of the first */
} Seen;

static Status look(void *user, const LossInput *in, Value **loss) {
  Seen *s = user;
  const size_t bytes = (size_t)in->ntokens * sizeof(real);
  const real *now = value_tensor(in->logp)->data, *old = value_tensor(in->old_logp)->data;
  CHECK(in->ntokens <= MOST);
  if (s->calls++ == 0) {
    s->n = in->ntokens;
    s->same = memcmp(now, old, bytes) == 0;
    memcpy(s->old, old, bytes);
    memcpy(s->sampler, value_tensor(in->sampler_logp)->data, bytes);
    memcpy(s->mask, value_tensor(in->mask)->data, bytes);
  } else {
    s->kept = memcmp(s->old, old, bytes) == 0 && memcmp(now, old, bytes) != 0;
  }
  return own_loss((void *)(uintptr_t)s->cx, in, loss);
}

/* Trains once on a batch, so that older weights have sampled it. */
static Batch *leave_behind(Tiny *t, const Setup *s, double *adv, UpdateOptions *o) {
  StepMetrics m;
  open_engine(t, s);
  update_options_init(o, LOSS_grpo);
  o->lr = 1e-2;
  Batch *b = roll_out(t, s, 1);
  tiny_advantages(b, adv);
  o->advantage = adv;
  OK(engine_update(t->engine, b, o, &m));
  CHECK(m.ratio_max_deviation == 0 && isnan(m.sampler_mean));
  return b;
}

/* The sampler's log-probabilities as the batch has recorded them. */
static void check_sampler(const Batch *b, const Seen *seen) {
  int at = 0;
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    for (int t = 0; t < c->len; t++, at++) {
      const real want = c->sampled && !c->sampled[t] ? 0 : c->logp[t];
      CHECK(memcmp(&seen->sampler[at], &want, sizeof want) == 0);
    }
  }
  CHECK(at == seen->n);
}

static void check_correction(const Setup *s, const Seen *seen) {
  double adv[64], sum = 0, count = 0, least = INFINITY, most = -INFINITY;
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  Batch *b = leave_behind(&t, s, adv, &o);
  o.older_sampler = true;
  o.loss.sampler_mode = SAMPLER_TOKEN_TRUNCATE;
  OK(engine_update(t.engine, b, &o, &m));
  for (int i = 0; i < seen->n; i++) {
    if (seen->mask[i] == 0) continue;
    const double w = exp((double)seen->old[i] - (double)seen->sampler[i]);
    sum += w, count++;
    least = fmin(least, w), most = fmax(most, w);
  }
  CHECK(isnan(m.ratio_max_deviation) && m.clip_region_mean == 0);
  CHECK(fabs(m.sampler_mean - sum / count) < 1e-12);
  CHECK(m.sampler_min == least && m.sampler_max == most && least < 1 && most > 1);
  tiny_close(&t);
}

TEST_BOTH(a_batch_of_older_weights_has_the_old_log_probabilities_computed) {
  const Setup setups[] = {
      {.micro_batch_tokens = 100000},
      {.micro_batch_tokens = 100000, .lora = true},
      {.micro_batch_tokens = 100000, .turns = true},
      {.micro_batch_tokens = 100000, .truncated = true, .capped = true},
      {.micro_batch_tokens = 100000, .checkpointing = true},
      {.micro_batch_tokens = 100000, .reuse = REUSE_ON},
  };
  static Seen seen;
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
    double adv[64];
    UpdateOptions o;
    StepMetrics m;
    Tiny t;
    Batch *b = leave_behind(&t, &setups[i], adv, &o);
    seen = (Seen){.cx = &t.engine->loss_tape.cx};
    o.loss_fn = look;
    o.loss_user = &seen;
    o.older_sampler = true;
    o.iterations = 2;
    OK(engine_update(t.engine, b, &o, &m));
    CHECK(seen.calls == 2 && seen.same && seen.kept);
    check_sampler(b, &seen);
    tiny_close(&t);
    check_correction(&setups[i], &seen);
  }
}

TEST(the_correction_of_a_sequence_is_measured_by_sequence) {
  const Setup s = {.micro_batch_tokens = 100000};
  double adv[64];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  Batch *b = leave_behind(&t, &s, adv, &o);
  o.older_sampler = true;
  o.loss.sampler_mode = SAMPLER_SEQUENCE_MASK;
  OK(engine_update(t.engine, b, &o, &m));
  CHECK(m.sampler_min <= m.sampler_mean && m.sampler_mean <= m.sampler_max && m.sampler_min > 0);
  tiny_close(&t);
}

/* Masked training: which tokens are masked, equal bits however a step is cut, no memory taken,
 * and that it learns. */
#include <stdlib.h>

#include "base/mem.h"
#include "denoise/denoise.h"
#include "denoise/masked.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_copy.h"
#include "rl/tiny.h"

enum { ROWS = 40, LENGTH = 32, MASK = 257 };

static int32_t text[ROWS][LENGTH];

/* Texts whose lengths depend on the step; a few tokens of each are always seen. */
static void some_texts(uint32_t step, int n, Example *x) {
  for (int i = 0; i < n; i++) {
    const int len = 4 + (int)((step * 11 + (uint32_t)i * 7) % (LENGTH - 3)), seen = i % 4;
    for (int t = 0; t < len; t++) text[i][t] = (int32_t)((i * 31 + t * t * 5 + (int)step) % 250);
    x[i] = (Example){text[i], text[i] + seen, seen, len - seen, NULL};
  }
}

static MaskOptions masks(double low, double high) {
  return (MaskOptions){
      .mask_id = MASK, .vocab = 256, .low = low, .high = high, .seed = 9, .step = 1};
}

static Corrupted corrupted(Arena *a, int n, const Example *x, const MaskOptions *o) {
  const Config c = tiny_config();
  Corrupted out = {0};
  OK(corrupt(a, &c, n, x, o, &out));
  return out;
}

/* ---- corruption ------------------------------------------------------------------ */

TEST(masked_tokens_are_those_of_the_list_and_no_others) {
  Arena a = {0};
  Example x[ROWS];
  some_texts(3, ROWS, x);
  for (int round = 1; round <= 20; round++) {
    MaskOptions o = masks(0.05 * round, 0.05 * round);
    o.random = 0.1, o.keep = 0.2, o.step = (uint64_t)round;
    const Corrupted c = corrupted(&a, ROWS, x, &o);
    int out = 0;
    for (int i = 0; i < ROWS; i++) {
      CHECK(c.out_at[i] == out && c.out_at[i + 1] > out); /* at least one of each text */
      for (int t = 0; t < x[i].prompt_len + x[i].target_len; t++) {
        const int row = c.at[i] + t;
        const bool is = out < c.nout && c.rows[out] == row;
        if (is) CHECK(t >= x[i].prompt_len && c.targets[out] == text[i][t]);
        if (is) CHECK(c.ids[row] == MASK || (c.ids[row] >= 0 && c.ids[row] < 256));
        if (!is) CHECK(c.ids[row] == text[i][t]);
        out += is;
      }
    }
    CHECK(out == c.nout);
    if (round == 20) CHECK(c.nout == c.at[ROWS] - 60); /* 0 + 1 + 2 + 3 of every four are seen */
    arena_reset(&a);
  }
  arena_free(&a);
}

/* Over many steps: the ratio, and the shares of what happens to a masked token. */
TEST(ratios_and_shares_are_what_was_asked_for) {
  static const double range[][2] = {{0.15, 0.15}, {0.5, 0.5}, {0.1, 0.9}};
  Arena a = {0};
  Example x[ROWS];
  for (int i = 0; i < ROWS; i++) {
    for (int t = 0; t < LENGTH; t++) text[i][t] = 0;
    x[i] = (Example){NULL, text[i], 0, LENGTH, NULL};
  }
  for (int k = 0; k < 3; k++) {
    double masked = 0, all = 0, hidden = 0, kept = 0, least = 1, most = 0;
    MaskOptions o = masks(range[k][0], range[k][1]);
    o.random = 0.1, o.keep = 0.2;
    for (o.step = 1; o.step <= 200; o.step++) {
      const Corrupted c = corrupted(&a, ROWS, x, &o);
      all += c.at[ROWS], masked += c.nout;
      for (int i = 0; i < c.nout; i++) {
        hidden += c.ids[c.rows[i]] == MASK;
        kept += c.ids[c.rows[i]] == 0;
      }
      for (int i = 0; i < ROWS; i++) {
        const double share = (double)(c.out_at[i + 1] - c.out_at[i]) / LENGTH;
        least = fmin(least, share), most = fmax(most, share);
      }
      arena_reset(&a);
    }
    CHECK_NEAR(masked / all, (range[k][0] + range[k][1]) / 2, 0.005);
    CHECK_NEAR(hidden / masked, 0.7, 0.01);
    CHECK_NEAR(kept / masked, 0.2 + 0.1 / 256, 0.01);
    if (k == 2) CHECK(least < 0.07 && most > 0.95);
  }
  arena_free(&a);
}

TEST(a_text_is_masked_by_its_number_and_the_step_whatever_is_beside_it) {
  Arena a = {0};
  Example x[ROWS];
  some_texts(5, ROWS, x);
  MaskOptions o = masks(0.3, 0.3), held = o, later = o;
  held.held_out = true;
  later.step++;
  const Corrupted c = corrupted(&a, ROWS, x, &o), h = corrupted(&a, ROWS, x, &held),
                  l = corrupted(&a, ROWS, x, &later);
  CHECK(h.nout != c.nout || memcmp(h.rows, c.rows, (size_t)c.nout * sizeof *c.rows) != 0);
  CHECK(l.nout != c.nout || memcmp(l.rows, c.rows, (size_t)c.nout * sizeof *c.rows) != 0);
  for (int i = 0; i < ROWS; i++) {
    o.first = i;
    const Corrupted one = corrupted(&a, 1, x + i, &o);
    CHECK(one.nout == c.out_at[i + 1] - c.out_at[i]);
    CHECK(!memcmp(one.ids, c.ids + c.at[i], (size_t)one.at[1] * sizeof *one.ids));
  }
  arena_free(&a);
}

/* ---- a step ---------------------------------------------------------------------- */

typedef struct Run {
  int threads, micro_batch_tokens, rows;
  bool checkpointing, lora;
  double dropout;
} Run;

static void open_run(Tiny *t, const Run *r) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.group_size = 1;
  t->o.prompts_per_step = r->rows;
  t->o.micro_batch_tokens = r->micro_batch_tokens;
  t->o.gradient_checkpointing = r->checkpointing;
  tiny_models(t, r->threads, NULL, false);
  if (r->lora) tiny_lora(t, r->dropout);
  tiny_engine(t);
}

/* Returns the mask ratio. */
static double step_at(Tiny *t, uint32_t step, double lr, StepMetrics *m) {
  double ratio = 0;
  Example x[ROWS];
  MaskOptions o = masks(0.1, 0.9);
  const SftOptions train = {.lr = lr, .max_grad_norm = 1, .seed = 9, .step = step};
  o.step = step;
  some_texts(step, t->o.prompts_per_step, x);
  OK(engine_denoise(t->engine, t->o.prompts_per_step, x, &o, &train, m, &ratio));
  return ratio;
}

TEST_BOTH(a_step_gives_the_same_bits_however_it_is_run) {
  static const Run runs[] = {{1, 0, ROWS, false, false, 0},  {2, 0, ROWS, false, false, 0},
                             {2, 64, ROWS, false, false, 0}, {1, 5000, ROWS, true, false, 0},
                             {1, 0, ROWS, false, true, 0.1}, {2, 300, ROWS, true, true, 0.1}};
  for (int k = 0; k < 6; k += k < 4 ? 4 : 2) {
    Model *weights = NULL;
    StepMetrics first = {0}, m;
    double first_ratio = 0, ratio = 0;
    for (int i = k; i < (k < 4 ? 4 : 6); i++) {
      Tiny t;
      open_run(&t, &runs[i]);
      for (uint32_t s = 1; s <= 3; s++) ratio = step_at(&t, s, 1e-2, &m);
      if (i == k) {
        first = m;
        first_ratio = ratio;
        CHECK(!model_copy(&weights, t.model));
      }
      CHECK(same_weights(weights, t.model));
      CHECK(m.loss == first.loss && m.grad_norm == first.grad_norm && ratio == first_ratio);
      tiny_close(&t);
    }
    model_release(weights);
  }
}

TEST_BOTH(a_warm_step_of_masked_training_takes_no_memory) {
  for (int lora = 0; lora < 2; lora++) {
    const Run r = {1, 0, ROWS, false, lora, 0};
    Tiny t;
    StepMetrics m;
    uint64_t before = 0;
    open_run(&t, &r);
    for (uint32_t s = 1; s <= 12; s++) {
      if (s == 2) before = mem_allocations();
      step_at(&t, s, 1e-3, &m);
    }
    CHECK_NEAR(mem_allocations() - before, 0, 0);
    tiny_close(&t);
  }
}

/* Adds up the losses at the masked places of each text alone. */
static double nll_by_hand(Tiny *t, const Corrupted *c) {
  double nll = 0;
  Tape tape;
  CHECK(!tape_init(&tape, t->pool));
  tape.off = true;
  for (int i = 0; i < c->n; i++) {
    const MaskedSequence seq = {c->ids + c->at[i], c->at[i + 1] - c->at[i]};
    const int n = c->out_at[i + 1] - c->out_at[i];
    int32_t rows[LENGTH];
    Pack p;
    Tensor *h, *out = NULL;
    for (int k = 0; k < n; k++) rows[k] = c->rows[c->out_at[i] + k] - c->at[i];
    tape_reset(&tape);
    CHECK(!masked_pack(&tape.arena, model_config(t->model), 1, &seq, n, rows,
                       c->targets + c->out_at[i], &p));
    CHECK(!forward_hidden(t->model, &tape, &p, &h));
    CHECK(!forward_logp(t->model, &tape, &p, h, 1, NULL, NULL, &out));
    for (int k = 0; k < n; k++) nll -= (double)out->data[k];
  }
  tape_free(&tape);
  return nll;
}

TEST_BOTH(the_loss_of_a_step_is_the_mean_over_its_masked_tokens) {
  const Run r = {1, 0, ROWS, false, false, 0};
  Tiny t;
  StepMetrics m;
  Example x[ROWS];
  Arena a = {0};
  MaskedLoss sum = {0};
  MaskOptions o = masks(0.1, 0.9), fixed = masks(0.4, 0.4);
  open_run(&t, &r);
  step_at(&t, 1, 0, &m);
  some_texts(1, ROWS, x);
  Corrupted c = corrupted(&a, ROWS, x, &o);
  CHECK(m.trained_tokens == c.nout && m.num_tokens == c.at[ROWS]);
  CHECK_NEAR(m.loss, nll_by_hand(&t, &c) / c.nout, 1e-6);
  fixed.held_out = true; /* in two parts */
  c = corrupted(&a, ROWS, x, &fixed);
  CHECK(!engine_masked_loss(t.engine, 15, x, &fixed, &sum));
  fixed.first = 15;
  CHECK(!engine_masked_loss(t.engine, ROWS - 15, x + 15, &fixed, &sum));
  CHECK(sum.tokens == c.nout);
  CHECK_NEAR(sum.nll, nll_by_hand(&t, &c), 1e-4);
  arena_free(&a);
  tiny_close(&t);
}

TEST_BOTH(masked_training_learns_what_stands_between) {
  for (int lora = 0; lora < 2; lora++) {
    const Run r = {1, 0, 16, false, lora, 0};
    Tiny t;
    StepMetrics m;
    double ratio;
    MaskedLoss before = {0}, after = {0};
    Example x[16];
    MaskOptions o = masks(0.2, 0.8), held = masks(0.15, 0.15);
    held.held_out = true;
    open_run(&t, &r);
    for (int i = 0; i < 16; i++) {
      for (int k = 0; k < LENGTH; k++) text[i][k] = (i + k) % 5 + 10;
      x[i] = (Example){NULL, text[i], 0, LENGTH, NULL};
    }
    CHECK(!engine_masked_loss(t.engine, 16, x, &held, &before));
    for (o.step = 1; o.step <= 150; o.step++) {
      const SftOptions train = {.lr = 1e-2, .max_grad_norm = 1, .seed = 9, .step = o.step};
      CHECK(!engine_denoise(t.engine, 16, x, &o, &train, &m, &ratio));
    }
    CHECK(!engine_masked_loss(t.engine, 16, x, &held, &after));
    CHECK(before.tokens == after.tokens && before.tokens > 40);
    const double limit = lora ? 1 : 0.1; /* nats; an adapter of some weights learns more slowly */
    CHECK(after.nll < limit * (double)after.tokens && before.nll > 5 * (double)before.tokens);
    CHECK(after.right * 4 > after.tokens * 3);
    tiny_close(&t);
  }
}

TEST(senseless_masked_training_is_refused) {
  static const Run r = {1, 0, 4, false, false, 0};
  Tiny t;
  StepMetrics m;
  double ratio;
  open_run(&t, &r);
  for (int i = 0; i < 12; i++) {
    Example x[4];
    MaskOptions o = masks(0.1, 0.9);
    SftOptions train = {.lr = 1e-3, .max_grad_norm = 1};
    some_texts(1, 4, x);
    if (i == 0) o.mask_id = -1;
    if (i == 1) o.mask_id = TINY_VOCAB;
    if (i == 2) o.low = 0;
    if (i == 3) o.low = 0.95;
    if (i == 4) o.high = 1.5;
    if (i == 5) o.random = 0.6, o.keep = 0.6;
    if (i == 6) o.low = o.high = (double)NAN;
    if (i == 7) x[2].target_len = 0;
    if (i == 8) text[1][2] = TINY_VOCAB;
    if (i == 9) train.lr = -1;
    if (i == 10) x[3].target_len = 65;
    if (i == 11) o.vocab = 1;
    CHECK(engine_denoise(t.engine, 4, x, &o, &train, &m, &ratio) == GRPO_EARG);
  }
  CHECK(engine_denoise(t.engine, 0, NULL, &(MaskOptions){0}, &(SftOptions){0}, &m, &ratio) ==
        GRPO_EARG);
  tiny_close(&t);
}

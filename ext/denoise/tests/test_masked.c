/* A pass that sees both ways, and filling in masks. */
#include "base/trigonometry.h"
#include "denoise/masked.h"
#include "denoise/unmask.h"
#include "model/forward.h"
#include "model/model_struct.h"
#include "model/modeltest.h"

enum { SEQS = 4, MOST = 40, WIDE = 64 };
static const int lens[SEQS] = {17, 1, 40, 26};

typedef struct Texts {
  int32_t ids[SEQS][MOST];
  MaskedSequence seq[SEQS];
  int rows;
} Texts;

static void texts_init(Texts *x, int vocab) {
  x->rows = 0;
  for (int i = 0; i < SEQS; i++) {
    some_ids(x->ids[i], lens[i], vocab, (uint64_t)i + 1);
    x->seq[i] = (MaskedSequence){x->ids[i], lens[i]};
    x->rows += lens[i];
  }
}

/* Hidden states of sequences first .. first + n - 1, in the tape's arena. */
static const real *hidden_of(Model *m, Tape *t, const Texts *x, int first, int n) {
  Pack p;
  Tensor *h = NULL;
  tape_reset(t);
  OK(masked_pack(&t->arena, model_config(m), n, x->seq + first, 0, NULL, NULL, &p));
  OK(forward_hidden(m, t, &p, &h));
  return h ? h->data : NULL;
}

TEST(layers_with_a_state_refuse_to_see_both_ways) {
  static Texts x;
  Model *m = small_model(tiny_qwen3_5, NULL, 6);
  Tape t;
  Pack p;
  Tensor *h;
  OK(tape_init(&t, NULL));
  texts_init(&x, model_config(m)->vocab_size);
  OK(masked_pack(&t.arena, model_config(m), 1, x.seq, 0, NULL, NULL, &p));
  REFUSED(forward_hidden(m, &t, &p, &h), GRPO_EARG, "qwen3_5_text models cannot fill in masks");
  tape_free(&t);
  model_release(m);
}

TEST_BOTH(a_sequence_seen_both_ways_has_the_same_bits_in_any_company) {
  for (int k = 0; k < STATELESS_SHAPES; k++)
    for (int threads = 1; threads <= 2; threads++) {
      static Texts x;
      static real all[SEQS * MOST * WIDE];
      Tape t;
      Pool *pool;
      OK(pool_new(&pool, threads));
      Model *m = small_model(*small_shapes[k], pool, 6);
      const size_t c = (size_t)model_config(m)->hidden_size;
      OK(tape_init(&t, pool));
      texts_init(&x, model_config(m)->vocab_size);
      memcpy(all, hidden_of(m, &t, &x, 0, SEQS), (size_t)x.rows * c * sizeof(real));
      for (int i = 0, at = 0; i < SEQS; at += lens[i++]) {
        const real *alone = hidden_of(m, &t, &x, i, 1);
        CHECK(!memcmp(alone, all + (size_t)at * c, (size_t)lens[i] * c * sizeof(real)));
      }
      tape_free(&t);
      model_release(m);
      pool_free(pool);
    }
}

TEST(what_follows_changes_what_comes_before) {
  for (int k = 0; k < STATELESS_SHAPES; k++) {
    static Texts x;
    static real before[MOST * WIDE];
    Tape t;
    Model *m = small_model(*small_shapes[k], NULL, 6);
    const size_t c = (size_t)model_config(m)->hidden_size;
    OK(tape_init(&t, NULL));
    texts_init(&x, model_config(m)->vocab_size);
    memcpy(before, hidden_of(m, &t, &x, 2, 1), MOST * c * sizeof(real));
    x.ids[2][MOST - 1] = (x.ids[2][MOST - 1] + 1) % model_config(m)->vocab_size;
    const real *after = hidden_of(m, &t, &x, 2, 1);
    CHECK(memcmp(before + (MOST - 2) * c, after + (MOST - 2) * c, c * sizeof(real)) != 0);
    /* a windowed layer passes it on by its window; three of them do not reach the first token */
    CHECK((memcmp(before, after, c * sizeof(real)) != 0) || config_window(model_config(m), 1) > 0);
    tape_free(&t);
    model_release(m);
  }
}

/* The weighted sum of the log-probabilities of all tokens at their own places. */
static double weighted(Model *m, Tape *t, const Texts *x, bool backward) {
  static int32_t rows[SEQS * MOST], targets[SEQS * MOST];
  Pack p;
  Tensor *h, *out = NULL;
  double sum = 0;
  for (int i = 0, r = 0; i < SEQS; i++)
    for (int k = 0; k < lens[i]; k++, r++) rows[r] = r, targets[r] = x->ids[i][k];
  tape_reset(t);
  OK(masked_pack(&t->arena, model_config(m), SEQS, x->seq, x->rows, rows, targets, &p));
  OK(forward_hidden(m, t, &p, &h));
  OK(forward_logp(m, t, &p, h, 1, NULL, NULL, &out));
  real *seed = arena_zalloc(&t->arena, out->n * sizeof *seed);
  for (int i = 0; i < x->rows; i++) {
    seed[i] = (real)(math_sin(1.7 * i) + 0.3);
    sum += (double)seed[i] * (double)out->data[i];
  }
  if (backward) OK(tape_backward_from(t, out, seed));
  return sum;
}

/* Along the gradient the sum must rise by the square of its norm. */
TEST(the_gradient_of_a_bidirectional_pass_agrees_with_differences) {
  for (int k = 0; k < STATELESS_SHAPES; k++)
    for (int checkpointing = 0; checkpointing < 2; checkpointing++) {
      static Texts x;
      Tape t;
      Model *m = small_model(*small_shapes[k], NULL, 6);
      double sum[2], square = 0, h;
      OK(tape_init(&t, NULL));
      texts_init(&x, model_config(m)->vocab_size);
      OK(model_set_trainable(m, true));
      model_set_checkpointing(m, checkpointing);
      model_zero_grad(m);
      weighted(m, &t, &x, true);
      for (size_t i = 0; i < m->weight_reals; i++)
        square += (double)m->grads[i] * (double)m->grads[i];
      h = 1e-3 / sqrt(square);
      real *start = malloc(m->weight_reals * sizeof *start);
      memcpy(start, m->weights, m->weight_reals * sizeof *start);
      for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < m->weight_reals; i++)
          m->weights[i] = start[i] + (real)((side ? h : -h) * (double)m->grads[i]);
        model_updated(m);
        sum[side] = weighted(m, &t, &x, false);
      }
      CHECK_NEAR((sum[1] - sum[0]) / (2 * h) / square, 1, 0.02);
      free(start);
      tape_free(&t);
      model_release(m);
    }
}

TEST(what_was_kept_while_decoding_is_of_no_use_both_ways) {
  static Texts x;
  Tape t;
  Pack p;
  Replay r = {0};
  Tensor *h;
  Model *m = small_model(tiny_llama, NULL, 6);
  OK(tape_init(&t, NULL));
  texts_init(&x, 101);
  OK(masked_pack(&t.arena, model_config(m), 1, x.seq, 0, NULL, NULL, &p));
  p.replay = &r;
  CHECK(forward_hidden(m, &t, &p, &h) == GRPO_EARG);
  tape_free(&t);
  model_release(m);
}

/* ---- filling in ------------------------------------------------------------------------ */

enum { MASK = 96 };

typedef struct Filled {
  int32_t ids[SEQS * MOST];
  float logp[SEQS * MOST];
} Filled;

/* Every third token stays. */
static void masked_texts(const Texts *x, int32_t *ids) {
  for (int i = 0, r = 0; i < SEQS; i++)
    for (int k = 0; k < lens[i]; k++, r++) ids[r] = k % 3 == 1 ? x->ids[i][k] % MASK : MASK;
}

static Filled fill(Model *m, Pool *pool, const UnmaskOptions *o) {
  static Texts x;
  Filled f;
  Tape t;
  OK(tape_init(&t, pool));
  texts_init(&x, 97);
  masked_texts(&x, f.ids);
  OK(unmask(m, &t, SEQS, lens, f.ids, f.logp, o));
  for (int i = 0, r = 0; i < SEQS; i++)
    for (int k = 0; k < lens[i]; k++, r++) {
      CHECK(f.ids[r] >= 0 && f.ids[r] < MASK);
      CHECK(k % 3 == 1 ? f.ids[r] == x.ids[i][k] % MASK && f.logp[r] == 0 : f.logp[r] < 0);
    }
  tape_free(&t);
  return f;
}

static int rows_of_all(void) {
  int n = 0;
  for (int i = 0; i < SEQS; i++) n += lens[i];
  return n;
}

static bool same(const Filled *a, const Filled *b) {
  const size_t n = (size_t)rows_of_all();
  return !memcmp(a->ids, b->ids, n * sizeof *a->ids) &&
         !memcmp(a->logp, b->logp, n * sizeof *a->logp);
}

TEST_BOTH(masks_are_filled_in_and_the_seed_decides_how) {
  Pool *two;
  OK(pool_new(&two, 2));
  Model *m = small_model(tiny_gpt2, NULL, 3), *other = small_model(tiny_gpt2, two, 3);
  for (int order = 0; order < 3; order++)
    for (int steps = 1; steps <= 50; steps += 7) {
      UnmaskOptions o;
      unmask_init(&o);
      o.mask_id = MASK, o.steps = steps, o.order = (UnmaskOrder)order, o.seed = 5;
      o.noise = order == 0 ? steps % 3 : 0;
      const Filled a = fill(m, NULL, &o), b = fill(other, two, &o);
      CHECK(same(&a, &b));
      o.seed = 6;
      const Filled c = fill(m, NULL, &o);
      CHECK(!same(&a, &c));
    }
  model_release(m);
  model_release(other);
  pool_free(two);
}

/* Greedily from the left, one a forward: the same by hand. */
TEST(filling_in_from_the_left_is_a_forward_for_every_mask) {
  enum { N = 11 };
  static Texts x;
  Model *m = small_model(tiny_gpt2, NULL, 3);
  const Tensor *head = &model_find(m, "transformer.wte.weight")->t;
  int32_t ids[N], want[N];
  const int len = N;
  Tape t;
  UnmaskOptions o;
  OK(tape_init(&t, NULL));
  texts_init(&x, 97);
  for (int i = 0; i < N; i++) ids[i] = want[i] = i % 2 ? MASK : x.ids[2][i] % MASK;
  for (int i = 1; i < N; i += 2) {
    memcpy(x.ids[0], want, sizeof want);
    x.seq[0].len = N;
    const real *h = hidden_of(m, &t, &x, 0, 1) + (size_t)i * 48;
    double best = -HUGE_VAL;
    for (int v = 0; v < MASK; v++) {
      double z = 0;
      for (int c = 0; c < 48; c++) z += (double)h[c] * (double)head->data[v * 48 + c];
      if (z > best) best = z, want[i] = v;
    }
  }
  unmask_init(&o);
  o.mask_id = MASK, o.steps = 1000, o.order = UNMASK_LEFT, o.sampling.temperature = 0;
  OK(unmask(m, &t, 1, &len, ids, NULL, &o));
  CHECK(!memcmp(ids, want, sizeof ids));
  tape_free(&t);
  model_release(m);
}

TEST(only_tokens_of_the_vocabulary_are_filled_in) {
  Model *m = small_model(tiny_gpt2, NULL, 3);
  UnmaskOptions o;
  unmask_init(&o);
  o.mask_id = MASK, o.vocab = 7;
  static Texts x;
  int32_t ids[SEQS * MOST];
  Tape t;
  OK(tape_init(&t, NULL));
  texts_init(&x, 97);
  masked_texts(&x, ids);
  OK(unmask(m, &t, SEQS, lens, ids, NULL, &o));
  for (int i = 0, r = 0; i < SEQS; i++)
    for (int k = 0; k < lens[i]; k++, r++) CHECK(k % 3 == 1 || ids[r] < 7);
  tape_free(&t);
  model_release(m);
}

TEST(senseless_options_of_unmask_are_refused) {
  Model *m = small_model(tiny_gpt2, NULL, 3);
  const int len = 3;
  volatile int cancel = 1;
  Tape t;
  OK(tape_init(&t, NULL));
  for (int i = 0; i < 8; i++) {
    int32_t ids[] = {1, MASK, 2};
    UnmaskOptions o;
    unmask_init(&o);
    o.mask_id = MASK;
    if (i == 0) o.steps = 0;
    if (i == 1) o.mask_id = 97;
    if (i == 2) o.mask_id = -1;
    if (i == 3) o.vocab = 98;
    if (i == 4) o.noise = -1;
    if (i == 5) o.sampling.temperature = -1;
    if (i == 6) o.cancel = &cancel;
    if (i == 7) ids[0] = 1000;
    CHECK(unmask(m, &t, 1, &len, ids, NULL, &o) == (i == 6 ? GRPO_ELIMIT : GRPO_EARG));
  }
  tape_free(&t);
  model_release(m);
}

/* Distillation in an update: the divergence of the policy from a teacher, which may read prompts of
 * its own.  Values are compared with TRL's, and with sums over the logits of both models. */
#include <math.h>

#include "base/mem.h"
#include "formats/json.h"
#include "kern/logits.h"
#include "model/forward_logits.h"
#include "model/model_copy.h"
#include "os/file.h"
#include "tiny.h"

/* ---- what TRL computes: tests/oracles/divergence.py ----------------------------------------- */

enum { MOST_TOKENS = 64 };

static int read_numbers(const Json *list, float *out) {
  int n = 0;
  for (const Json *x = json_child(list); x && n < MOST_TOKENS; x = json_next(x))
    out[n++] = (float)json_number(x);
  return n;
}

static void check_case(const Json *j) {
  float z[MOST_TOKENS], q[MOST_TOKENS], want[MOST_TOKENS], got[MOST_TOKENS] = {0};
  float lse, ref_lse, kl, mean, one = 1;
  int32_t top[MOST_TOKENS];
  const int v = read_numbers(json_get(j, "student"), z);
  const float inv_temp = (float)(1 / json_number(json_get(j, "temperature")));
  const Divergence d = {(float)json_number(json_get(j, "beta")),
                        (int)json_number(json_get(j, "top_k"))};
  const Ctx cx = {0};
  CHECK(read_numbers(json_get(j, "teacher"), q) == v);
  CHECK(read_numbers(json_get(j, "gradient"), want) == v);
  logits_logp(&cx, 1, v, NULL, z, inv_temp, NULL, NULL, NULL, &lse);
  logits_logp(&cx, 1, v, NULL, q, inv_temp, NULL, NULL, NULL, &ref_lse);
  logits_kl(&cx, 1, v, NULL, &d, z, q, inv_temp, &lse, &ref_lse, top, &kl, &mean);
  logits_kl_grad(&cx, 1, v, NULL, &d, z, q, inv_temp, &lse, &ref_lse, &mean, &one, top, got);
  CHECK_NEAR(kl, json_number(json_get(j, "value")), 4e-6);
  for (int i = 0; i < v; i++) CHECK_NEAR(got[i], want[i], 2e-6);
}

TEST(divergences_and_gradients_are_those_of_trl) {
  Buf text = {0};
  int cases = 0;
  OK(file_read("tests/cases/divergence/trl.jsonl", 0, &text));
  for (char *line = text.data, *end; line < text.data + text.len; line = end + 1, cases++) {
    Json *j = NULL;
    end = memchr(line, '\n', text.len - (size_t)(line - text.data));
    OK(json_parse(line, (size_t)(end - line), "case", &j));
    check_case(j);
    json_free(j);
  }
  CHECK(cases == 40);
  buf_free(&text);
}

/* ---- a step, and the same sums over all logits ---------------------------------------------- */

enum { SEQUENCES = TINY_PROMPTS * TINY_GROUP, REF_PROMPT = 30 };

typedef struct Case {
  double beta, temperature;
  int top_k, iterations, threads, micro_batch_tokens;
  bool own_prompts;   /* the teacher reads others than the policy */
  bool by_completion; /* one for each completion; some have no teacher */
  bool lora, live;    /* live: the policy is the teacher */
  double advantage;   /* 0: the divergence alone is learned */
} Case;

/* Writes the prompt of the teacher for completion i; returns its length, 0: there is none. */
static int teacher_prompt(const Case *c, int i, int32_t *ids) {
  const int group = i / TINY_GROUP, k = c->by_completion ? i % TINY_GROUP : 0;
  const int len = c->by_completion && i % 5 == 2 ? 0 : 9 + group * 4 + k;
  for (int t = 0; t < len; t++) ids[t] = (19 * group + 7 * k + 3 * t + 5) % 256;
  return len;
}

static void open_case(Tiny *t, const Case *c) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.micro_batch_tokens = c->micro_batch_tokens;
  if (c->own_prompts) t->o.ref_prompt_tokens = REF_PROMPT;
  tiny_models(t, c->threads ? c->threads : 2, NULL, !c->live);
  if (c->lora) tiny_lora(t, 0);
  if (c->live) t->reference = model_retain(t->model);
  tiny_engine(t);
}

static Batch *roll_out(Tiny *t, const Case *c) {
  Batch *b = tiny_rollout(t, 1);
  int32_t ids[REF_PROMPT];
  for (int i = 0; c->own_prompts && i < batch_size(b); i++)
    OK(batch_set_ref_prompt(b, i, ids, teacher_prompt(c, i, ids)));
  b->has_ref_prompts = c->own_prompts;
  if (c->temperature > 0) b->temperature = c->temperature, b->version = 0;
  return b;
}

static void set_options(const Case *c, UpdateOptions *o, double *advantage) {
  update_options_init(o, LOSS_dapo);
  for (int i = 0; i < SEQUENCES; i++) advantage[i] = c->advantage * (i % 3 - 1);
  o->advantage = advantage;
  o->loss.kl = 1;
  o->loss.kl_estimator = KL_FULL;
  o->distill = (DistillOptions){c->beta, c->top_k};
  o->iterations = c->iterations ? c->iterations : 1;
  o->lr = 1e-2;
}

/* The logits [len, vocabulary] that predict a completion behind a prompt. */
static void logits_of(Tiny *t, Model *m, const int32_t *prompt, int n, const Completion *c,
                      double *out) {
  int32_t ids[MOST_TOKENS], pos[MOST_TOKENS];
  Tensor *logits;
  memcpy(ids, prompt, (size_t)n * sizeof *ids);
  memcpy(ids + n, c->ids, (size_t)c->len * sizeof *ids);
  for (int i = 0; i < n + c->len; i++) pos[i] = i;
  const PackSpan span = {.prefix = -1, .n = n + c->len};
  const Pack p = {.nrows = n + c->len, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  tape_reset(&t->engine->tape);
  t->engine->tape.off = true;
  OK(forward_logits(m, &t->engine->tape, &p, &logits));
  t->engine->tape.off = false;
  for (int i = 0; i < c->len * TINY_VOCAB; i++)
    out[i] = (double)logits->data[(n - 1) * TINY_VOCAB + i];
}

static void to_probabilities(double *z, double temperature) {
  double most = -HUGE_VAL, sum = 0;
  for (int i = 0; i < TINY_VOCAB; i++) most = fmax(most, z[i]);
  for (int i = 0; i < TINY_VOCAB; i++) sum += z[i] = exp((z[i] - most) / temperature);
  for (int i = 0; i < TINY_VOCAB; i++) z[i] /= sum;
}

static double part(double p, double q, double beta) {
  const double m = beta * q + (1 - beta) * p;
  if (beta == 0) return q * log(q / p);
  if (beta == 1) return p * log(p / q);
  return beta * q * log(q / m) + (1 - beta) * p * log(p / m);
}

static double divergence(const double *p, const double *q, double beta, int top_k) {
  double sum = 0, rest_p = 0, rest_q = 0;
  for (int i = 0; i < TINY_VOCAB; i++) {
    int better = 0;
    for (int k = 0; top_k && k < TINY_VOCAB; k++) better += q[k] > q[i];
    if (!top_k || better < top_k)
      sum += part(p[i], q[i], beta);
    else
      rest_p += p[i], rest_q += q[i];
  }
  return sum + (top_k ? part(rest_p, rest_q, beta) : 0);
}

/* The mean over all tokens; completions without a teacher count as 0. */
static double expected(Tiny *t, const Batch *b, const Case *c) {
  static double p[TINY_NEW * TINY_VOCAB], q[TINY_NEW * TINY_VOCAB];
  double sum = 0, tokens = 0;
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *x = &b->completion[i];
    int32_t own[REF_PROMPT];
    int n, of_teacher;
    const int32_t *prompt = batch_prompt(b, i / b->group, &n);
    of_teacher = c->own_prompts ? teacher_prompt(c, i, own) : n;
    tokens += x->len;
    if (!of_teacher) continue;
    logits_of(t, t->model, prompt, n, x, p);
    logits_of(t, t->reference, c->own_prompts ? own : prompt, of_teacher, x, q);
    for (int k = 0; k < x->len; k++) {
      to_probabilities(p + k * TINY_VOCAB, b->temperature);
      to_probabilities(q + k * TINY_VOCAB, b->temperature);
      sum += divergence(p + k * TINY_VOCAB, q + k * TINY_VOCAB, c->beta, c->top_k);
    }
  }
  return sum / tokens;
}

/* With lr 0 the weights stay, so that some gradients can be compared with differences. */
static void check_step(const Case *c) {
  double advantage[SEQUENCES];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_case(&t, c);
  const Batch *b = roll_out(&t, c);
  set_options(c, &o, advantage);
  const double before = expected(&t, b, c);
  o.lr = 0;
  OK(engine_update(t.engine, engine_batch(t.engine, BATCH_SAMPLE), &o, &m));
  CHECK_NEAR(m.kl, before, 1e-5 * fmax(1, before));
  CHECK_NEAR(m.loss, before, 1e-5 * fmax(1, before));
  for (int i = 0; !c->live && i < model_num_params(t.model); i++) {
    Param *p = model_param(t.model, i);
    if (!p->trainable) continue;
    const size_t at = 13 % p->t.n;
    const real was = p->t.data[at], h = (real)4e-3;
    p->t.data[at] = was + h, model_updated(t.model);
    const double above = expected(&t, b, c);
    p->t.data[at] = was - h, model_updated(t.model);
    const double below = expected(&t, b, c);
    p->t.data[at] = was, model_updated(t.model);
    CHECK_NEAR(p->t.grad[at], (above - below) / (2 * (double)h), 2e-3 * fmax(1, before));
  }
  tiny_close(&t);
}

TEST(the_loss_is_the_mean_divergence_and_its_gradient_the_true_one) {
  check_step(&(Case){.beta = 1});
  check_step(&(Case){.beta = 0, .temperature = 0.7});
  check_step(&(Case){.beta = 0.5});
  check_step(&(Case){.beta = 0.3, .top_k = 7, .temperature = 1.3});
  check_step(&(Case){.beta = 0, .top_k = 1});
}

TEST(the_teacher_reads_its_own_prompts) {
  check_step(&(Case){.beta = 1, .own_prompts = true});
  check_step(&(Case){.beta = 0.5, .own_prompts = true, .by_completion = true});
  check_step(&(Case){.beta = 0.5, .top_k = 9, .own_prompts = true, .by_completion = true});
  check_step(&(Case){.beta = 1, .own_prompts = true, .by_completion = true, .lora = true});
}

TEST(the_policy_itself_can_be_the_teacher_of_another_prompt) {
  check_step(&(Case){.beta = 1, .own_prompts = true, .live = true});
  check_step(&(Case){.beta = 0, .own_prompts = true, .by_completion = true, .live = true});
}

/* ---- the same bits -------------------------------------------------------------------------- */

static Model *trained(const Case *c, int threads, int micro_batch_tokens, double *loss) {
  double advantage[SEQUENCES];
  Case some = *c;
  UpdateOptions o;
  StepMetrics m;
  Model *copy;
  Tiny t;
  some.threads = threads, some.micro_batch_tokens = micro_batch_tokens;
  open_case(&t, &some);
  Batch *b = roll_out(&t, &some);
  set_options(&some, &o, advantage);
  OK(engine_update(t.engine, b, &o, &m));
  OK(model_copy(&copy, t.model));
  tiny_close(&t);
  *loss = m.loss;
  return copy;
}

TEST(threads_and_micro_batches_change_no_bit) {
  const Case cases[] = {{.beta = 0.5, .own_prompts = true, .by_completion = true, .iterations = 3},
                        {.beta = 0, .top_k = 5, .iterations = 2},
                        {.beta = 1, .own_prompts = true, .advantage = 1, .iterations = 2},
                        {.beta = 0.2, .own_prompts = true, .live = true, .iterations = 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double loss, other;
    Model *one = trained(&cases[i], 1, 0, &loss);
    for (int k = 1; k <= 3; k++) {
      Model *more = trained(&cases[i], k, k * 90, &other);
      CHECK(same_weights(one, more));
      CHECK(loss == other);
      model_release(more);
    }
    model_release(one);
  }
}

/* A teacher that is given the policy's prompts has the bits of one that is given none. */
TEST(the_same_prompts_have_the_same_bits) {
  double advantage[SEQUENCES];
  Model *copy[2];
  for (int own = 0; own < 2; own++) {
    const Case c = {.beta = 0.5, .own_prompts = own};
    UpdateOptions o;
    StepMetrics m;
    Tiny t;
    open_case(&t, &c);
    Batch *b = tiny_rollout(&t, 1);
    for (int i = 0; own && i < batch_size(b); i++) {
      int n;
      const int32_t *ids = batch_prompt(b, i / b->group, &n);
      OK(batch_set_ref_prompt(b, i, ids, n));
    }
    b->has_ref_prompts = own;
    set_options(&c, &o, advantage);
    OK(engine_update(t.engine, b, &o, &m));
    OK(model_copy(&copy[own], t.model));
    tiny_close(&t);
  }
  CHECK(same_weights(copy[0], copy[1]));
  model_release(copy[0]);
  model_release(copy[1]);
}

/* ---- the sampled token alone ---------------------------------------------------------------- */

TEST(log_probabilities_of_the_teacher_are_those_behind_its_prompts) {
  static double q[TINY_NEW * TINY_VOCAB];
  const Case c = {.beta = 1, .own_prompts = true, .by_completion = true};
  Tiny t;
  open_case(&t, &c);
  Batch *b = roll_out(&t, &c);
  OK(engine_reference(t.engine, b));
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *x = &b->completion[i];
    int32_t own[REF_PROMPT];
    const int n = teacher_prompt(&c, i, own);
    if (!n) continue;
    logits_of(&t, t.reference, own, n, x, q);
    for (int k = 0; k < x->len; k++) {
      to_probabilities(q + k * TINY_VOCAB, 1);
      CHECK_NEAR(b->ref_logp[i * b->max_new + k], log(q[k * TINY_VOCAB + x->ids[k]]), 2e-5);
    }
  }
  tiny_close(&t);
}

/* ---- packs ------------------------------------------------------------------------------- */

enum { LONG = 600, PACKED = 8 };

/* The rows of all packs of a group of PACKED completions of 3 tokens, with prompts of LONG tokens
 * that differ or not; the second completion has no teacher if `gap`. */
static int packed_rows(bool differ, bool gap, RefPacks *out) {
  Arena a = {0};
  Batch b = {0};
  Unit u;
  int32_t ids[LONG] = {0};
  Config c = tiny_config();
  c.max_position_embeddings = LONG + 8;
  OK(batch_reserve(&b, 1, PACKED, LONG, 4, 0));
  OK(batch_reserve_ref_prompts(&b, LONG));
  b.nprompts = 1, b.group = PACKED, b.prompt_len[0] = 1, b.longest = 4, b.has_ref_prompts = true;
  for (int i = 0; i < PACKED; i++) {
    b.completion[i].len = 3;
    memset(b.completion[i].ids, 0, 3 * sizeof *ids);
    ids[0] = differ ? i : 0;
    OK(batch_set_ref_prompt(&b, i, ids, gap && i == 1 ? 0 : LONG));
  }
  CHECK(units_of_batch(&b, 0, &u) == 1);
  OK(unit_pack_reference(&a, &c, &b, &u, out));
  int rows = 0;
  for (int i = 0; i < out->n; i++) {
    CHECK(out->pack[i].pack.nrows <= UNIT_ROWS);
    CHECK(out->pack[i].at + out->pack[i].pack.nout <= u.tokens);
    rows += out->pack[i].pack.nrows;
  }
  arena_free(&a);
  batch_free(&b);
  return rows;
}

TEST(equal_prompts_share_a_prefill_and_others_are_packed_in_parts) {
  RefPacks p;
  CHECK(packed_rows(false, false, &p) == LONG + PACKED * 2 && p.n == 1);
  CHECK(packed_rows(true, false, &p) == PACKED * (LONG + 2) && p.n == 3);
  CHECK(packed_rows(false, true, &p) == 2 * LONG + (PACKED - 1) * 2 && p.n == 2);
}

/* ---- memory and mistakes -------------------------------------------------------------------- */

TEST(later_steps_take_no_memory) {
  const Case c = {.beta = 0.5, .top_k = 4, .own_prompts = true, .by_completion = true};
  double advantage[SEQUENCES];
  uint64_t before = 0;
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_case(&t, &c);
  set_options(&c, &o, advantage);
  for (int i = 0; i < 4; i++) {
    if (i == 2) before = mem_allocations();
    OK(engine_update(t.engine, roll_out(&t, &c), &o, &m));
  }
  CHECK(mem_allocations() == before);
  tiny_close(&t);
}

TEST(what_cannot_be_is_refused) {
  const Case c = {.beta = 1};
  const int32_t ids[REF_PROMPT + 1] = {1};
  double advantage[SEQUENCES];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_case(&t, &c);
  Batch *b = roll_out(&t, &c);
  CHECK(batch_set_ref_prompt(b, 0, ids, 1) == GRPO_EARG);
  set_options(&c, &o, advantage);
  o.distill.beta = 1.5;
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EARG);
  CHECK(strstr(err_message(), "train.distill.beta"));
  tiny_close(&t);
  open_case(&t, &(Case){.own_prompts = true});
  b = tiny_rollout(&t, 1);
  CHECK(batch_set_ref_prompt(b, 0, ids, REF_PROMPT + 1) == GRPO_EARG);
  CHECK(strstr(err_message(), "max_prompt_tokens"));
  tiny_close(&t);
}

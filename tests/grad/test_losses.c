/* test_losses.c - every loss variant of the oracle: value, gradients, metrics; and what policy_loss
 * and policy.h promise beside. */
#include <stdlib.h>

#include "base/mem.h"
#include "formats/json.h"
#include "grad/policy.h"
#include "testing.h"

enum { MAX_TOKENS = 128, MAX_SEQUENCES = 16 };

static Tape tape;

/* ---- a problem of the oracle -------------------------------------------------- */

typedef struct Problem {
  int nseq, n, padded_width;
  int lengths[MAX_SEQUENCES];
  real mask[MAX_TOKENS], tool_mask[MAX_TOKENS], logp[MAX_TOKENS], entropy[MAX_TOKENS];
  real old[MAX_TOKENS], ref[MAX_TOKENS], sampler[MAX_TOKENS];
  real advantage[MAX_TOKENS], token_advantage[MAX_TOKENS];
} Problem;

/* A ragged list as one row of numbers; returns how many. */
static int read_ragged(const Json *rows, real *to) {
  int n = 0;
  for (const Json *row = json_child(rows); row; row = json_next(row))
    for (const Json *x = json_child(row); x; x = json_next(x))
      if (n < MAX_TOKENS) to[n++] = (real)json_number(x);
  return n;
}

static void read_problem(const Json *j, Problem *p) {
  struct {
    const char *key;
    real *to;
  } arrays[] = {{"mask", p->mask},
                {"tool_mask", p->tool_mask},
                {"logps", p->logp},
                {"entropies", p->entropy},
                {"old_logps", p->old},
                {"ref_logps", p->ref},
                {"sampling_logps", p->sampler},
                {"per_token_advantages", p->token_advantage}};
  *p = (Problem){.padded_width = (int)json_number(json_get(j, "padded_width"))};
  for (const Json *x = json_child(json_get(j, "lengths")); x; x = json_next(x))
    p->n += p->lengths[p->nseq++] = (int)json_number(x);
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
    CHECK(read_ragged(json_get(j, arrays[k].key), arrays[k].to) == p->n);
  int at = 0, i = 0;
  for (const Json *x = json_child(json_get(j, "advantages")); x; x = json_next(x), i++)
    for (int t = 0; t < p->lengths[i]; t++) p->advantage[at++] = (real)json_number(x);
}

/* ---- a variant's settings in our words ---------------------------------------- */

typedef struct Settings {
  const Json *own, *defaults;
} Settings;

static const Json *setting(Settings s, const char *key) {
  const Json *j = json_get(s.own, key);
  return j ? j : json_get(s.defaults, key);
}
static double number(Settings s, const char *key) { return json_number(setting(s, key)); }
static bool flag(Settings s, const char *key) { return json_bool(setting(s, key)); }
static bool is(Settings s, const char *key, const char *value) {
  const char *text = json_string(setting(s, key));
  return text && strcmp(text, value) == 0;
}

static int index_of(Settings s, const char *key, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (is(s, key, names[i])) return i;
  test_fail(__FILE__, __LINE__, "%s has a value this test does not know", key);
  return 0;
}

static LossOptions options_of(Settings s, int max_new_tokens) {
  static const char *const levels[] = {"token", "sequence", "sequence_token"};
  static const char *const modes[] = {"none", "token_truncate", "token_mask", "sequence_truncate",
                                      "sequence_mask"};
  LossOptions o;
  LossKind kind = LOSS_grpo;
  const char *name = json_string(setting(s, is(s, "trainer", "grpo") ? "loss_type" : "trainer"));
  CHECK(loss_kind_from_name(name, &kind) == GRPO_OK);
  loss_options_init(&o, kind);
  o.importance = (Importance)index_of(s, "importance_sampling_level", levels, 3);
  o.clip = number(s, "epsilon");
  o.clip_high = isnan(number(s, "epsilon_high")) ? o.clip : number(s, "epsilon_high");
  o.cispo_cap = number(s, "epsilon_high");
  o.delta = isnan(number(s, "delta")) ? 0 : number(s, "delta");
  o.kl = number(s, "beta");
  o.kl_bias_correction = flag(s, "use_bias_correction_kl");
  o.off_policy_mask = number(s, "off_policy_mask_threshold");
  if (json_string(setting(s, "sampling_is_mode")))
    o.sampler_mode = (SamplerMode)index_of(s, "sampling_is_mode", modes, 5);
  o.sampler_min = number(s, "sampling_is_clip_min");
  o.sampler_max = number(s, "sampling_is_clip_max");
  o.entropy = number(s, "entropy_coef");
  o.sapo_pos = number(s, "sapo_temperature_pos");
  o.sapo_neg = number(s, "sapo_temperature_neg");
  o.vespo_k_pos = number(s, "vespo_k_pos");
  o.vespo_lambda_pos = number(s, "vespo_lambda_pos");
  o.vespo_k_neg = number(s, "vespo_k_neg");
  o.vespo_lambda_neg = number(s, "vespo_lambda_neg");
  o.max_new_tokens = max_new_tokens;
  return o;
}

static int by_value(const void *a, const void *b) {
  const real x = *(const real *)a, y = *(const real *)b;
  return x < y ? -1 : x > y;
}

/* Tokens whose entropy is above the quantile of the masked ones. */
static void keep_top_entropy(const Problem *p, const real *mask, double share, real *kept) {
  real sorted[MAX_TOKENS];
  int n = 0;
  for (int i = 0; i < p->n; i++)
    if (mask[i] != 0) sorted[n++] = p->entropy[i];
  qsort(sorted, (size_t)n, sizeof *sorted, by_value);
  const double rank = (1 - share) * (n - 1);
  const int at = (int)rank, next = at + 1 < n ? at + 1 : at;
  const double threshold = sorted[at] + (rank - at) * (sorted[next] - sorted[at]);
  for (int i = 0; i < p->n; i++) kept[i] = p->entropy[i] >= threshold;
}

/* ---- one variant -------------------------------------------------------------- */

typedef struct Variant {
  const char *name;
  const Json *json;
  Settings s;
  real mask[MAX_TOKENS], kept[MAX_TOKENS];
  LossMetrics metrics;
  PolicyLossAttr a;
  double loss;
  real dlogp[MAX_TOKENS], dentropy[MAX_TOKENS];
} Variant;

static double total(const real *x, const real *y, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += x[i] * (y ? y[i] : 1);
  return s;
}

static void prepare(const Problem *p, Variant *v) {
  const double top = number(v->s, "top_entropy_quantile");
  const LossOptions o = options_of(v->s, (int)number(v->s, "max_completion_length"));
  for (int i = 0; i < p->n; i++)
    v->mask[i] = p->mask[i] * (flag(v->s, "use_tool_mask") ? p->tool_mask[i] : 1);
  if (top < 1) keep_top_entropy(p, v->mask, top, v->kept);
  loss_metrics_init(&v->metrics);
  v->a = (PolicyLossAttr){
      .options = o,
      .nseq = p->nseq,
      .lengths = p->lengths,
      .mask = v->mask,
      .kept = top < 1 ? v->kept : NULL,
      .advantage = flag(v->s, "per_token_advantages") ? p->token_advantage : p->advantage,
      .old_logp = flag(v->s, "use_old_logps") ? p->old : NULL,
      .ref_logp = o.kl != 0 ? p->ref : NULL,
      .sampler_logp = p->sampler,
      .num_sequences = p->nseq,
      .num_tokens = total(v->mask, NULL, p->n),
      .num_kept_tokens = total(v->mask, top < 1 ? v->kept : NULL, p->n),
      .batch_tokens = total(v->mask, NULL, p->n),
      .batch_share = 1,
      .metrics = &v->metrics,
  };
}

static Tensor *leaf(const real *data, int n) {
  Tensor *t = NULL;
  CHECK(tape_tensor(&tape, 1, &n, &t) == GRPO_OK);
  memcpy(t->data, data, (size_t)n * sizeof *data);
  t->needs_grad = true;
  return t;
}

static void check_gradient(const Variant *v, const char *key, const real *got, int tokens) {
  real want[MAX_TOKENS];
  double top = 0;
  const int n = read_ragged(json_get(v->json, key), want);
  CHECK(n == tokens);
  for (int i = 0; i < n; i++) top = fmax(top, fabs((double)want[i]));
  for (int i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)want[i]) <= 1e-4 * top))
      test_fail(__FILE__, __LINE__, "%s: %s[%d] is %.9g, want %.9g", v->name, key, i,
                (double)got[i], (double)want[i]);
}

static void check_metric(const Variant *v, const char *key, double got) {
  const Json *want = json_get(json_get(v->json, "metrics"), key);
  if (want && !(fabs(got - json_number(want)) <= 1e-5))
    test_fail(__FILE__, __LINE__, "%s: %s is %.9g, want %.9g", v->name, key, got,
              json_number(want));
}

static void check_metrics(const Variant *v) {
  const LossMetrics *m = &v->metrics;
  check_metric(v, "kl", m->kl_sum / m->tokens);
  check_metric(v, "entropy", m->entropy_sum / m->tokens);
  check_metric(v, "clip_ratio/low_mean", m->clip_low / m->clip_count);
  check_metric(v, "clip_ratio/high_mean", m->clip_high / m->clip_count);
  check_metric(v, "clip_ratio/region_mean", (m->clip_low + m->clip_high) / m->clip_count);
  check_metric(v, "clip_ratio/low_min", m->clip_low_min);
  check_metric(v, "clip_ratio/high_max", m->clip_high_max);
  check_metric(v, "cispo_clip_ratio", m->clip_high / m->clip_count);
}

/* Adds the loss of the tokens from `at` on, and its gradients. */
static Status add_loss(const Problem *p, Variant *v, const PolicyLossAttr *a, int at, int n) {
  const Attr attr = {.p = a};
  Tensor *logp = leaf(p->logp + at, n), *entropy = leaf(p->entropy + at, n), *loss;
  try(tape_apply(&tape, OP_policy_loss, (Tensor *[]){logp, entropy, NULL}, &attr, &loss));
  try(tape_backward(&tape, loss));
  v->loss += (double)loss->data[0];
  memcpy(v->dlogp + at, logp->grad, (size_t)n * sizeof(real));
  if (entropy->grad) memcpy(v->dentropy + at, entropy->grad, (size_t)n * sizeof(real));
  return GRPO_OK;
}

/* TRL's luspo averages the KL over the padded batch: a sequence of `mass` tokens gets the share
 * mass / width of it.  Losses add up over sequences, so each is asked for with a kl of its own. */
static Status padded_loss(const Problem *p, Variant *v) {
  for (int i = 0, at = 0; i < p->nseq; at += p->lengths[i++]) {
    PolicyLossAttr one = v->a;
    const int n = p->lengths[i];
    const double mass = total(v->mask + at, NULL, n);
    one.options.kl *= mass * fmax(mass, 1) / p->padded_width;
    one.nseq = 1;
    one.lengths += i;
    one.mask += at;
    one.advantage += at;
    one.sampler_logp += at;
    if (one.kept) one.kept += at;
    if (one.old_logp) one.old_logp += at;
    if (one.ref_logp) one.ref_logp += at;
    try(add_loss(p, v, &one, at, n));
  }
  return GRPO_OK;
}

/* TRL's value of losses with one term per sequence counts -A of a sequence whose tokens are all
 * masked, which has no gradient.  Such a sequence is left out here. */
static double without_masked(const Problem *p, const Variant *v, double loss) {
  if (v->a.options.kind != LOSS_gmpo && v->a.options.kind != LOSS_rloo) return loss;
  for (int i = 0, at = 0; i < p->nseq; at += p->lengths[i++])
    if (total(v->mask + at, NULL, p->lengths[i]) == 0) loss += (double)p->advantage[at] / p->nseq;
  return loss;
}

static void check_variant(const Problem *p, const Json *defaults, const Json *json) {
  Variant v = {.name = json_string(json_get(json, "name")),
               .json = json,
               .s = {json_get(json, "settings"), defaults}};
  prepare(p, &v);
  tape_reset(&tape);
  const bool padded = v.a.options.kind == LOSS_luspo && v.a.options.kl != 0;
  if (padded ? padded_loss(p, &v) : add_loss(p, &v, &v.a, 0, p->n)) {
    test_fail(__FILE__, __LINE__, "%s: %s", v.name, err_message());
    return;
  }
  const double want = without_masked(p, &v, json_number(json_get(json, "loss")));
  if (!(fabs(v.loss - want) <= 1e-4 * fmax(fabs(want), .3)))
    test_fail(__FILE__, __LINE__, "%s: loss %.9g, want %.9g", v.name, v.loss, want);
  check_gradient(&v, "dlogp", v.dlogp, p->n);
  if (json_get(json, "dentropy")) check_gradient(&v, "dentropy", v.dentropy, p->n);
  check_metrics(&v);
}

TEST(every_loss_variant_agrees_with_the_oracle) {
  Json *root = NULL;
  size_t done = 0;
  if (!test_shared()) {
    test_skip("no oracles: GRPO_SHARED is not set");
    return;
  }
  CHECK(json_read_file(test_path("%s/oracles/loss/cases.json", test_shared()), 0, &root) ==
        GRPO_OK);
  if (!root) return;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  const Json *defaults = json_get(root, "defaults"), *problems = json_get(root, "problems");
  CHECK(json_count(problems) >= 3);
  for (const Json *j = json_child(problems); j; j = json_next(j)) {
    Problem p;
    read_problem(j, &p);
    const Json *variants = json_get(j, "variants");
    CHECK(json_count(variants) >= 44);
    for (const Json *v = json_child(variants); v; v = json_next(v), done++) {
      for (const Json *s = json_child(json_get(v, "settings")); s; s = json_next(s))
        if (!json_get(defaults, json_key(s)))
          test_fail(__FILE__, __LINE__, "setting %s is not mapped", json_key(s));
      CHECK(number((Settings){json_get(v, "settings"), defaults}, "num_microbatches") == 1);
      check_variant(&p, defaults, v);
    }
  }
  CHECK(done >= 136);
  json_free(root);
  tape_free(&tape);
}

/* ---- properties --------------------------------------------------------------- */

static const int lengths[] = {3, 2, 1, 2};
static const real logp0[] = {-1, -2, -.5f, -1.5f, -.7f, -2.5f, -.3f, -1.1f};
static const real old0[] = {-1.1f, -1.6f, -.9f, -1.5f, -.6f, -2.2f, -.35f, -1};
static const real advantage0[] = {1, 1, 1, -.5f, -.5f, .25f, -2, -2};

static PolicyLossAttr batch(LossKind kind, int nseq, int first) {
  PolicyLossAttr a = {.nseq = nseq,
                      .lengths = lengths + first,
                      .num_sequences = 4,
                      .num_tokens = 8,
                      .num_kept_tokens = 8,
                      .batch_tokens = 8,
                      .batch_share = 1};
  loss_options_init(&a.options, kind);
  a.options.max_new_tokens = 4;
  a.advantage = advantage0;
  a.old_logp = old0;
  return a;
}

static double loss_of(const PolicyLossAttr *a, const real *logp, int n, real *grad) {
  const Attr attr = {.p = a};
  Tensor *x = leaf(logp, n), *loss = NULL;
  CHECK(tape_apply(&tape, OP_policy_loss, (Tensor *[]){x, NULL, NULL}, &attr, &loss) == GRPO_OK);
  CHECK(tape_backward(&tape, loss) == GRPO_OK);
  memcpy(grad, x->grad, (size_t)n * sizeof *grad);
  return (double)loss->data[0];
}

TEST(micro_batches_add_up_to_the_whole_step) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int kind = 0; kind < LOSS_COUNT; kind++) {
    if (kind == LOSS_bnpo) continue; /* means over its micro-batch, by definition */
    real whole[8], parts[8];
    PolicyLossAttr all = batch((LossKind)kind, 4, 0), first = batch((LossKind)kind, 2, 0);
    PolicyLossAttr second = batch((LossKind)kind, 2, 2);
    second.advantage += 5;
    second.old_logp += 5;
    const double want = loss_of(&all, logp0, 8, whole);
    const double got = loss_of(&first, logp0, 5, parts) + loss_of(&second, logp0 + 5, 3, parts + 5);
    CHECK_NEAR(got, want, 1e-6);
    for (int i = 0; i < 8; i++) CHECK_NEAR(parts[i], whole[i], 0);
  }
  tape_free(&tape);
}

TEST(a_masked_token_has_no_influence_even_as_nan) {
  const real mask[] = {1, 0, 1, 1, 1, 1, 1, 0};
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int kind = 0; kind < LOSS_COUNT; kind++) {
    real plain[8], odd[8], changed[8];
    PolicyLossAttr a = batch((LossKind)kind, 4, 0);
    a.mask = mask;
    memcpy(changed, logp0, sizeof changed);
    changed[1] = (real)NAN;
    changed[7] = -1000;
    CHECK_NEAR(loss_of(&a, changed, 8, odd), loss_of(&a, logp0, 8, plain), 0);
    for (int i = 0; i < 8; i++) CHECK(odd[i] == plain[i]);
    CHECK(odd[1] == 0 && odd[7] == 0);
  }
  tape_free(&tape);
}

TEST(a_token_that_is_nan_makes_the_loss_nan) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int kind = 0; kind < LOSS_COUNT; kind++) {
    real grad[8], bad[8];
    PolicyLossAttr a = batch((LossKind)kind, 4, 0);
    memcpy(bad, logp0, sizeof bad);
    bad[3] = (real)NAN;
    if (!isnan(loss_of(&a, bad, 8, grad)))
      test_fail(__FILE__, __LINE__, "%s hides a NaN", loss_kind_name((LossKind)kind));
  }
  tape_free(&tape);
}

TEST(on_policy_the_ratio_is_one_and_the_gradient_is_not_zero) {
  LossMetrics m;
  real grad[8];
  loss_metrics_init(&m);
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  PolicyLossAttr a = batch(LOSS_grpo, 4, 0);
  a.old_logp = NULL;
  a.metrics = &m;
  const double mean = (1 - .5 + .25 - 2) / 4;
  CHECK_NEAR(loss_of(&a, logp0, 8, grad), -mean, 1e-6);
  CHECK(m.ratio_min == 1 && m.ratio_max == 1 && m.tokens == 8);
  CHECK_NEAR(grad[0], -1. / 3 / 4, 1e-7);
  tape_free(&tape);
}

TEST(wrong_losses_are_refused_with_what_is_missing) {
  Tensor *x = NULL, *out;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  PolicyLossAttr a = batch(LOSS_grpo, 4, 0);
  const Attr attr = {.p = &a};
  x = leaf(logp0, 8);
#define REFUSED(change, status, words)                                                             \
  do {                                                                                             \
    a = batch(LOSS_grpo, 4, 0);                                                                    \
    change;                                                                                        \
    CHECK(tape_apply(&tape, OP_policy_loss, (Tensor *[]){x, NULL, NULL}, &attr, &out) ==           \
          (status));                                                                               \
    if (!strstr(err_message(), words))                                                             \
      test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err_message(), words);               \
    CHECK(tape.n == 0);                                                                            \
  } while (0)
  REFUSED(a.advantage = NULL, GRPO_EARG, "needs advantages");
  REFUSED(a.nseq = 3, GRPO_ESHAPE, "add up to 6");
  REFUSED(a.options.kl = .1, GRPO_EARG, "ref_logp");
  REFUSED((a.options.kl = .1, a.options.kl_estimator = KL_FULL), GRPO_EARG, "full");
  REFUSED(a.options.sampler_mode = SAMPLER_TOKEN_MASK, GRPO_EARG, "sampler_logp");
  REFUSED(a.options.entropy = .1, GRPO_EARG, "entropies");
  REFUSED(a.num_sequences = 0, GRPO_EARG, "num_sequences");
  REFUSED((a.options.kind = LOSS_dr_grpo, a.options.max_new_tokens = 0), GRPO_EARG,
          "max_new_tokens");
  REFUSED((a.options.kind = LOSS_gmpo, a.advantage = old0), GRPO_EARG, "sequence 1 differ");
  REFUSED((a.options.kind = LOSS_rloo, a.options.sampler_mode = SAMPLER_TOKEN_MASK,
           a.sampler_logp = old0),
          GRPO_EARG, "sequence_truncate");
  tape_free(&tape);
}

TEST(losses_are_known_by_name) {
  LossKind kind = LOSS_COUNT;
  LossOptions o;
  CHECK(loss_kind_from_name("gspo_token", &kind) == GRPO_OK && kind == LOSS_gspo_token);
  CHECK_STR(loss_kind_name(LOSS_dr_grpo), "dr_grpo");
  CHECK(loss_kind_from_name("ppo", &kind) == GRPO_EARG);
  CHECK(strstr(err_message(), "'ppo'") && strstr(err_message(), "dapo"));
  loss_options_init(&o, LOSS_dapo);
  CHECK(o.clip == .2 && o.clip_high == .28 && o.importance == IMPORTANCE_TOKEN);
  loss_options_init(&o, LOSS_gspo);
  CHECK(o.clip == 3e-4 && o.clip_high == 4e-4 && o.importance == IMPORTANCE_SEQUENCE);
  loss_options_init(&o, LOSS_gmpo);
  CHECK(o.clip == .4 && o.clip_high == .4 && o.kl == 0 && isnan(o.off_policy_mask));
}

/* ---- from logits: on the tape and on values ----------------------------------- */

TEST(the_loss_of_logits_is_the_same_on_a_tape_and_on_values) {
  const int32_t targets[] = {0, 2, 1, 1, 0, 2, 2, 0};
  const TokenLogpAttr target = {targets, 1};
  const int dim[] = {8, 3};
  real before[24];
  Tensor *logits = NULL, *loss = NULL;
  Value *values = NULL, *result = NULL;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  PolicyLossAttr a = batch(LOSS_grpo, 4, 0);
  a.options.entropy = .1;
  CHECK(tape_tensor(&tape, 2, dim, &logits) == GRPO_OK);
  CHECK(value_new(&values, 2, dim) == GRPO_OK);
  for (int i = 0; i < 24; i++)
    logits->data[i] = value_tensor(values)->data[i] = before[i] = (real)((i * 7 % 11) * .3 - 1);
  logits->needs_grad = value_tensor(values)->needs_grad = true;
  CHECK(policy_loss_from_logits(&tape, logits, &target, &a, &loss) == GRPO_OK);
  CHECK(tape_backward(&tape, loss) == GRPO_OK);
  CHECK(policy_loss_from_logits_value(&tape.cx, values, &target, &a, true, &result) == GRPO_OK);
  CHECK(value_tensor(result)->data[0] == loss->data[0]);
  CHECK(value_backward(&tape.cx, result) == GRPO_OK);
  CHECK(memcmp(value_tensor(values)->grad, logits->grad, sizeof before) == 0);
  CHECK(memcmp(logits->data, before, sizeof before) == 0); /* inputs stay as they were */
  value_release(result);
  value_release(values);
  tape_free(&tape);
}

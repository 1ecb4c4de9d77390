/* The whole update against oracles/models: a batch filled by hand, one step that moves nothing, its
 * loss, gradient norm and metrics.  (tests/model holds every gradient to the oracle.) */
#include <stdlib.h>

#include "checkpoint/weights.h"
#include "formats/json.h"
#include "grad/policy.h"
#include "model/model_copy.h"
#include "rl/engine.h"
#include "rl/engine_impl.h"
#include "rl/update.h"
#include "testing.h"

enum { GROUP = 4, PROMPTS = 2, ROWS = GROUP * PROMPTS, MAX_NEW = 16, MAX_PROMPT = 16 };

typedef struct Problem {
  Json *problem, *expected;
  Model *model, *reference;
  Engine *engine;
  double advantage[ROWS], token_advantage[ROWS * MAX_NEW];
} Problem;

static Json *read_json(const char *name, const char *file) {
  Json *j = NULL;
  CHECK(!json_read_file(test_path("%s/oracles/models/%s/%s", test_shared(), name, file), 0, &j));
  return j;
}

static void open_problem(const char *name, Problem *p) {
  EngineOptions o;
  *p = (Problem){.problem = read_json(name, "grpo_problem.json"),
                 .expected = read_json(name, "grpo_expected.json")};
  CHECK(!weights_load(&p->model, NULL,
                      test_path("%s/oracles/models/%s/checkpoint", test_shared(), name),
                      STORE_F32));
  CHECK(!model_copy(&p->reference, p->model));
  engine_options_init(&o);
  o.prompts_per_step = PROMPTS;
  o.group_size = GROUP;
  o.max_prompt_tokens = MAX_PROMPT;
  o.max_new_tokens = MAX_NEW;
  o.micro_batch_tokens = 100000; /* bnpo: the whole step is one micro-batch */
  CHECK(!engine_new(&p->engine, NULL, p->model, p->reference, NULL, &o));
}

static void close_problem(Problem *p) {
  engine_free(p->engine);
  model_release(p->model);
  model_release(p->reference);
  json_free(p->problem);
  json_free(p->expected);
}

static int read_ids(const Json *list, int32_t *out) {
  int n = 0;
  for (const Json *x = json_child(list); x; x = json_next(x)) out[n++] = (int32_t)json_number(x);
  return n;
}

/* Rows of numbers, each row `stride` apart. */
static void read_rows(const Json *rows, float *out, size_t stride) {
  size_t i = 0;
  for (const Json *row = json_child(rows); row; row = json_next(row), i++) {
    size_t t = 0;
    for (const Json *x = json_child(row); x; x = json_next(x))
      out[i * stride + t++] = (float)json_number(x);
  }
}

static Batch *fill_batch(Problem *p, const Json *settings, const Json *expected) {
  Batch *b = engine_batch(p->engine, BATCH_SAMPLE);
  const bool old = !json_get(settings, "use_old_logps");
  b->nprompts = PROMPTS;
  b->group = GROUP;
  b->temperature =
      json_get(settings, "temperature") ? json_number(json_get(settings, "temperature")) : 1;
  const Json *row = json_child(json_get(p->problem, "prompts"));
  for (int i = 0; i < PROMPTS; i++, row = json_next(row)) {
    int32_t ids[MAX_PROMPT];
    CHECK(!batch_set_prompt(b, i, &(Prompt){.ids = ids, .len = read_ids(row, ids)}));
  }
  row = json_child(json_get(p->problem, "completions"));
  for (int i = 0; i < ROWS; i++, row = json_next(row)) {
    b->completion[i].len = read_ids(row, b->completion[i].ids);
    b->completion[i].finish = FINISH_EOS;
  }
  read_rows(old ? json_get(p->problem, "old_logps") : json_get(expected, "logps"), b->logp,
            MAX_NEW);
  read_rows(json_get(expected, "entropies"), b->entropy, MAX_NEW);
  read_rows(json_get(p->problem, "ref_logps"), b->ref_logp, MAX_NEW);
  b->has_ref = json_get(settings, "beta") != NULL;
  return b;
}

static void fill_advantages(Problem *p, const Json *settings) {
  int i = 0, at = 0;
  const bool by_token = json_get(settings, "per_token_advantages") != NULL;
  for (const Json *x = json_child(json_get(p->problem, "advantages")); x; x = json_next(x))
    p->advantage[i++] = by_token ? 0 : json_number(x);
  for (const Json *row = json_child(json_get(p->problem, "per_token_advantages")); row;
       row = json_next(row))
    for (const Json *x = json_child(row); x; x = json_next(x))
      p->token_advantage[at++] = json_number(x);
}

static double number(const Json *settings, const char *key, double otherwise) {
  const Json *v = json_get(settings, key);
  return v && json_type(v) == JSON_NUMBER ? json_number(v) : otherwise;
}

static const char *word(const Json *settings, const char *key, const char *otherwise) {
  const char *s = json_string(json_get(settings, key));
  return s ? s : otherwise;
}

static void loss_of(const Json *s, LossOptions *o) {
  LossKind kind = LOSS_grpo;
  const char *trainer = word(s, "trainer", "grpo"),
             *level = word(s, "importance_sampling_level", "token");
  CHECK(!loss_kind_from_name(strcmp(trainer, "grpo") ? trainer : word(s, "loss_type", "grpo"),
                             &kind));
  if (kind == LOSS_grpo && !strcmp(level, "sequence")) kind = LOSS_gspo;
  loss_options_init(o, kind);
  o->clip = number(s, "epsilon", 0.2);
  o->clip_high = number(s, "epsilon_high", o->clip);
  if (kind == LOSS_cispo) o->cispo_cap = o->clip_high;
  o->delta = number(s, "delta", 0);
  o->importance = !strcmp(level, "token")      ? IMPORTANCE_TOKEN
                  : !strcmp(level, "sequence") ? IMPORTANCE_SEQUENCE
                                               : IMPORTANCE_SEQUENCE_TOKEN;
  o->kl = number(s, "beta", 0);
  o->kl_bias_correction = json_bool(json_get(s, "use_bias_correction_kl"));
  o->off_policy_mask = number(s, "off_policy_mask_threshold", NAN);
  o->entropy = number(s, "entropy_coef", 0);
  o->sapo_pos = number(s, "sapo_temperature_pos", o->sapo_pos);
  o->sapo_neg = number(s, "sapo_temperature_neg", o->sapo_neg);
  o->vespo_k_pos = number(s, "vespo_k_pos", o->vespo_k_pos);
  o->vespo_lambda_pos = number(s, "vespo_lambda_pos", o->vespo_lambda_pos);
  o->vespo_k_neg = number(s, "vespo_k_neg", o->vespo_k_neg);
  o->vespo_lambda_neg = number(s, "vespo_lambda_neg", o->vespo_lambda_neg);
  o->max_new_tokens = MAX_NEW;
}

/* Inside a run the sampler is the policy, all of a completion is the model's own, and luspo's KL is
 * averaged as grpo's: variants about anything else are not a step's. */
static bool is_a_step(const Json *v) {
  const Json *s = json_get(v, "settings");
  const bool luspo = !strcmp(word(s, "loss_type", ""), "luspo");
  return json_get(v, "metrics") && !json_get(s, "sampling_is_mode") &&
         !json_get(s, "use_tool_mask") && !(luspo && json_get(s, "beta"));
}

static void near_value(const char *name, const char *what, double got, double want) {
  if (!(fabs(got - want) <= 1e-4 * fmax(fabs(want), 0.3)))
    test_fail(__FILE__, __LINE__, "%s: %s is %.9g, want %.9g", name, what, got, want);
}

static void check_metrics(const char *name, const Json *want, const StepMetrics *m) {
  static const char *const names[] = {
#define METRIC(field, metric) metric,
#include "rl/metrics.def"
#undef METRIC
  };
  const double values[] = {
#define METRIC(field, metric) m->field,
#include "rl/metrics.def"
#undef METRIC
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (json_get(want, names[i]))
      near_value(name, names[i], values[i], json_number(json_get(want, names[i])));
}

static void run_variant(Problem *p, const Json *v) {
  const Json *s = json_get(v, "settings");
  const char *name = json_string(json_get(v, "name"));
  UpdateOptions o;
  StepMetrics m;
  update_options_init(&o, LOSS_grpo);
  loss_of(s, &o.loss);
  fill_advantages(p, s);
  o.lr = 0;
  o.advantage = p->advantage;
  o.token_advantage = json_get(s, "per_token_advantages") ? p->token_advantage : NULL;
  o.loss.top_entropy_quantile = number(s, "top_entropy_quantile", 1);
  Batch *b = fill_batch(
      p, s,
      json_get(p->problem, json_get(s, "temperature") ? "expected_temperature_0.7" : "expected"));
  const Status st = engine_update(p->engine, b, &o, &m);
  if (st) {
    test_fail(__FILE__, __LINE__, "%s: %s", name, err_message());
    return;
  }
  near_value(name, "loss", m.loss, json_number(json_get(v, "loss")));
  near_value(name, "grad_norm", m.grad_norm, json_number(json_get(v, "grad_norm")));
  check_metrics(name, json_get(v, "metrics"), &m);
}

static void check_model(const char *name) {
  Problem p;
  int n = 0;
  if (!test_oracle(name)) return;
  open_problem(name, &p);
  for (const Json *v = json_child(p.expected); v; v = json_next(v))
    if (is_a_step(v)) run_variant(&p, v), n++;
  CHECK(n == 37);
  close_problem(&p);
}

TEST(a_step_on_llama_is_the_reference_s) { check_model("llama"); }
TEST(a_step_on_gpt2_is_the_reference_s) { check_model("gpt2"); }
TEST(a_step_on_qwen3_is_the_reference_s) { check_model("qwen3"); }
TEST(a_step_on_a_windowed_mistral_is_the_reference_s) { check_model("mistral_window"); }
TEST(a_step_on_gemma2_is_the_reference_s) { check_model("gemma2"); }
TEST(a_step_on_gemma3_is_the_reference_s) { check_model("gemma3_text_bf16"); }

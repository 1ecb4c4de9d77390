/* The families of tests/cases/families, of which oracles/ has none: tests/oracles/families.py wrote
 * these figures with transformers. */
#include "checkpoint/weights.h"
#include "formats/json.h"
#include "grad/balance.h"
#include "model/forward.h"
#include "model/modeltest.h"

static double norm_of(const Tensor *t) {
  double sum = 0;
  for (size_t i = 0; i < t->n; i++) sum += (double)t->grad[i] * (double)t->grad[i];
  return sqrt(sum);
}

/* The first id is the prompt; the sum of the log-probabilities of the others is differentiated, or
 * the auxiliary loss. */
static void run(Model *m, Tape *t, const Ints *ids, const Reals *want, const Json *aux_loss) {
  const int32_t *completion[] = {ids->at + 1};
  const int n = ids->n - 1;
  const PackGroup g = {ids->at, 1, 1, completion, &n, 0, 0};
  Pack p;
  Tensor *h, *out;
  REQUIRE(pack_groups(&t->arena, model_config(m), 1, &g, &p));
  if (aux_loss) OK(balance_new(&t->arena, model_config(m)->num_experts, p.sequences, &p.balance));
  REQUIRE(forward_hidden(m, t, &p, &h));
  REQUIRE(forward_logp(m, t, &p, h, 1, NULL, NULL, &out));
  CHECK_NEAR(worst_difference(out->data, want->at, (size_t)n), 0, 2e-5);
  real *seed = arena_alloc(&t->arena, out->n * sizeof *seed);
  for (size_t i = 0; i < out->n; i++) seed[i] = i < (size_t)n && !aux_loss;
  if (aux_loss) CHECK_NEAR(balance_end(p.balance, 1), json_number(aux_loss), 1e-5);
  OK(tape_backward_from(t, out, seed));
}

/* aux_loss: NULL, or the gradients are its own */
static void check_gradients(const char *dir, const Json *j, const Json *aux_loss) {
  Model *m = NULL;
  Tape t;
  OK(weights_load(&m, NULL, dir, STORE_F32));
  Ints ids = ints_of(json_get(j, "ids"));
  Reals logps = reals_of(json_get(j, "logps"));
  OK(tape_init(&t, NULL));
  OK(model_set_trainable(m, true));
  run(m, &t, &ids, &logps, aux_loss);
  const Json *gradients = json_get(j, aux_loss ? "aux_gradients" : "gradients");
  CHECK((size_t)model_num_params(m) == json_count(gradients));
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    const double want = json_number(json_get(gradients, p->name));
    CHECK_NEAR(norm_of(&p->t), want, 1e-4 * want + 1e-7);
  }
  free(ids.at), free(logps.at);
  tape_free(&t);
  model_release(m);
}

static void check_case(const char *family, bool routed) {
  const char *dir = test_path("tests/cases/families/%s", family);
  Json *j = NULL;
  OK(json_read_file(test_path("%s/expected.json", dir), 0, &j));
  check_gradients(dir, j, NULL);
  if (routed) check_gradients(dir, j, json_get(j, "aux_loss"));
  json_free(j);
}

TEST(families_have_the_reference_s_log_probabilities_and_gradients) {
  check_case("nanochat", false);
  check_case("arcee", false);
  check_case("granitemoehybrid", false);
  check_case("mixtral", true);
  check_case("qwen2_moe", true);
  check_case("granitemoe", true);
}

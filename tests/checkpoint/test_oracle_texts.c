/* The oracles' checkpoints: logits, log-probabilities, entropies, greedy texts and routes.
 * Tolerances in bf16: test_oracles.c. */
#include "grad/balance.h"
#include "model/decode.h"
#include "model/forward.h"
#include "oracletest.h"

/* ---- forward.json --------------------------------------------------------------------- */

/* A plain sequence as a pack: a prompt of one token and the rest as its completion. */
static Status pack_plain(Arena *a, const Config *c, Ints ids, Pack *p) {
  const int32_t *rest = ids.at + 1;
  const int len = ids.n - 1;
  const PackGroup g = {ids.at, 1, 1, &rest, &len, 0, 0};
  return pack_groups(a, c, 1, &g, p);
}

static void check_logits(Model *m, Tape *t, Ints ids, const StTensor *want, const char *name) {
  const PackSpan span = {0, ids.n, -1};
  int32_t pos[512];
  for (int i = 0; i < ids.n; i++) pos[i] = i;
  const Pack p = {.nrows = ids.n, .ids = ids.at, .pos = pos, .nspans = 1, .spans = &span};
  Tensor *logits;
  REQUIRE(forward_logits(m, t, &p, &logits));
  CHECK(logits->n == want->n);
  real *w = malloc(want->n * sizeof *w);
  st_read(want, 0, want->n, w);
  const double d = test_compute == COMPUTE_BF16 ? relative_error(logits->data, w, want->n)
                                                : worst_difference(logits->data, w, want->n);
  if (!(d <= within(5e-5, 1.5e-2)))
    test_fail(__FILE__, __LINE__, "%s: logits differ by %g", name, d);
  free(w);
}

static void check_forward(const char *name) {
  if (!test_oracle(name)) return;
  Model *m = load(name, NULL);
  Json *j = read(name, "forward.json");
  Safetensors f;
  Tape t;
  OK(tape_init(&t, NULL));
  REQUIRE(safetensors_open(&f, test_oracle_path(name, "forward.safetensors")));
  const Json *lp = json_child(json_get(j, "next_token_logprobs"));
  const Json *en = json_child(json_get(j, "entropies"));
  int i = 0;
  for (const Json *s = json_child(json_get(j, "input_ids")); s; s = json_next(s), i++) {
    Ints ids = ints_of(s);
    Reals want_lp = reals_of(lp), want_en = reals_of(en);
    Pack p;
    Tensor *h, *out;
    const StTensor *want = safetensors_find(&f, test_path("logits.%d", i));
    CHECK(want != NULL || (i > 0 && is_newer(name)));
    if (want) check_logits(m, &t, ids, want, name);
    REQUIRE(pack_plain(&t.arena, model_config(m), ids, &p));
    REQUIRE(forward_hidden(m, &t, &p, &h));
    REQUIRE(forward_logp(m, &t, &p, h, 1, NULL, NULL, &out));
    CHECK(p.nout == want_lp.n);
    const double lp_tolerance = within(5e-5, 8e-2), en_tolerance = within(5e-5, 6e-2);
    CHECK_NEAR(worst_difference(out->data, want_lp.at, (size_t)p.nout), 0, lp_tolerance);
    CHECK_NEAR(worst_difference(out->data + p.nout, want_en.at, (size_t)p.nout), 0, en_tolerance);
    free(ids.at), free(want_lp.at), free(want_en.at);
    lp = json_next(lp), en = json_next(en);
    tape_reset(&t);
  }
  CHECK(i == 3);
  tape_free(&t);
  safetensors_close(&f);
  json_free(j);
  model_release(m);
}

TEST_BOTH(logits_log_probabilities_and_entropies_are_the_reference_s) {
  NEEDS_ORACLES;
  for (int i = 0; i < ORACLES; i++) check_forward(oracle_names[i]);
}

/* All three sequences at once; none ends early, so end tokens are switched off. */
static void check_greedy(const char *name) {
  if (!test_oracle(name)) return;
  Model *m = load(name, NULL);
  Json *j = read(name, "forward.json");
  Request r[3];
  Completion out[3] = {0};
  Ints ids[3], want[3];
  Decoder *d;
  Sampling s;
  int i = 0;
  ((Config *)model_config(m))->num_eos = 0;
  const Json *g = json_child(json_get(j, "greedy"));
  for (const Json *e = json_child(json_get(j, "input_ids")); e; e = json_next(e), i++) {
    ids[i] = ints_of(e);
    want[i] = ints_of(json_get(g, "new_tokens"));
    r[i] = (Request){ids[i].at, ids[i].n, 1, {0}, NULL, 0};
    out[i].ids = malloc(8 * sizeof(int32_t));
    out[i].logp = malloc(8 * sizeof(float));
    g = json_next(g);
  }
  sampling_init(&s);
  s.temperature = 0;
  s.max_new_tokens = 8;
  const int longest = model_config(m)->max_position_embeddings < 80 ? 64 : 80;
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){2, 3, longest, 8}));
  REQUIRE(decoder_run(d, 3, r, &s, out, NULL));
  for (i = 0; i < 3; i++) {
    CHECK(out[i].len == 8 && out[i].finish == FINISH_LENGTH);
    for (int k = 0; k < 8; k++)
      if (out[i].ids[k] != want[i].at[k])
        test_fail(__FILE__, __LINE__, "%s: sequence %d, token %d is %d, want %d", name, i, k,
                  out[i].ids[k], want[i].at[k]);
    free(ids[i].at), free(want[i].at), free(out[i].ids), free(out[i].logp);
  }
  decoder_free(d);
  json_free(j);
  model_release(m);
}

TEST(greedy_continuations_are_the_reference_s) {
  NEEDS_ORACLES;
  for (int i = 0; i < ORACLES; i++) check_greedy(oracle_names[i]);
}

/* ---- routes.json: which experts the tokens of the first sequence take --------------------- */

typedef struct Routes {
  const Json *experts, *weights; /* [layers that route, tokens, top_k]: the next layer's */
  const char *name;
} Routes;

/* The file has experts in the order of their weights, we in that of the choice, which a bias may
 * change. */
static int find_expert(const real *y, int top_k, double expert) {
  for (int i = 0; i < top_k; i++)
    if ((double)y[top_k + i] == expert) return i;
  return -1;
}

static Status compare_route(void *user, const Tape *t, const Node *nd, int at, bool backward) {
  Routes *r = user;
  (void)t, (void)at, (void)backward;
  if (strcmp(nd->op->name, "route") != 0) return GRPO_OK;
  const int top_k = nd->out->dim[1] / 2;
  const real *y = nd->out->data;
  const Json *e = json_child(r->experts), *w = json_child(r->weights);
  for (int token = 0; token < nd->out->dim[0]; token++, y += 2 * top_k) {
    Reals experts = reals_of(e), weights = reals_of(w);
    CHECK(experts.n == top_k && weights.n == top_k);
    for (int i = 0; i < top_k; i++) {
      const int k = find_expert(y, top_k, experts.at[i]);
      if (k < 0 || !(fabs(y[k] - weights.at[i]) <= 2e-5))
        test_fail(__FILE__, __LINE__, "%s: token %d takes expert %g with %g, want %g", r->name,
                  token, experts.at[i], k < 0 ? 0 : (double)y[k], weights.at[i]);
    }
    free(experts.at), free(weights.at);
    e = json_next(e), w = json_next(w);
  }
  CHECK(!e || !json_next(e)); /* the last token predicts nothing and is not in the pack */
  r->experts = json_next(r->experts), r->weights = json_next(r->weights);
  return GRPO_OK;
}

static void check_routes(const char *name) {
  if (!test_oracle(name)) return;
  Model *m = load(name, NULL);
  Json *j = read(name, "routes.json"), *texts = read(name, "forward.json");
  Routes r = {json_child(json_get(j, "experts")), json_child(json_get(j, "weights")), name};
  Ints ids = ints_of(json_child(json_get(texts, "input_ids")));
  Tape t;
  Pack p;
  Tensor *h;
  OK(tape_init(&t, NULL));
  t.look = compare_route;
  t.look_user = &r;
  REQUIRE(pack_plain(&t.arena, model_config(m), ids, &p));
  REQUIRE(forward_hidden(m, &t, &p, &h));
  CHECK(!r.experts && !r.weights);
  free(ids.at);
  tape_free(&t);
  json_free(j);
  json_free(texts);
  model_release(m);
}

/* All tokens of the first sequence count, so that one more is what its last token predicts. */
static void check_aux_loss(const char *name) {
  if (!test_oracle(name)) return;
  Model *m = load(name, NULL);
  Json *j = read(name, "routes.json"), *texts = read(name, "forward.json");
  const Json *want = json_get(j, "aux_loss");
  Ints ids = ints_of(json_child(json_get(texts, "input_ids")));
  const int32_t *more[] = {ids.at};
  const PackGroup g = {ids.at, ids.n, 1, more, &(int){1}, 0, 0};
  const int experts = model_config(m)->num_experts;
  Tape t;
  Pack p;
  Tensor *h;
  CHECK(config_has_aux_loss(model_config(m)) == (json_type(want) == JSON_NUMBER));
  if (json_type(want) == JSON_NUMBER) {
    OK(tape_init(&t, NULL));
    REQUIRE(pack_groups(&t.arena, model_config(m), 1, &g, &p));
    OK(balance_new(&t.arena, experts, p.sequences, &p.balance));
    REQUIRE(forward_hidden(m, &t, &p, &h));
    CHECK_NEAR(balance_end(p.balance, 1), json_number(want), 1e-5);
    tape_free(&t);
  }
  free(ids.at);
  json_free(j);
  json_free(texts);
  model_release(m);
}

TEST(tokens_take_the_reference_s_experts) {
  static const char *const names[] = {"qwen3_moe",   "olmoe",   "qwen3_5_moe", "qwen3_next",
                                      "deepseek_v3", "gpt_oss", "gemma4_moe",  "lfm2_moe"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    check_routes(names[i]);
    check_aux_loss(names[i]);
  }
}

TEST(newer_families_have_the_reference_s_logits_and_texts) {
  for (int i = 0; i < NEWER; i++) {
    check_forward(newer_names[i]);
    check_greedy(newer_names[i]);
  }
}

/* Latent attention against a model in double that makes every head's keys and values, as
 * transformers' DeepseekV2 does: logits, and the gradients of every weight by differences. */
#include "kern/kv.h"
#include "model/cache.h"
#include "model/forward.h"
#include "model/layer_kind.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/modeltest.h"

enum { LEN = 13, WIDE = 400, HEADS = 4 };

/* ---- the model in double ---------------------------------------------------------------- */

static bool is_gpt2(Model *m) { return model_config(m)->family == FAMILY_GPT2_MLA; }

/* "%s" of a layer (< 0: of the model) in the family's own words. */
static const Param *weight(Model *m, int layer, const char *name) {
  const char *prefix = is_gpt2(m) ? "transformer." : "model.";
  const char *list = is_gpt2(m) ? "h" : "layers";
  return model_find(m, layer < 0 ? name : test_path("%s%s.%d.%s", prefix, list, layer, name));
}

/* y = W x + b of a module; its weight in either layout. */
static void project(Model *m, int layer, const char *module, const double *x, double *y) {
  const Param *w = weight(m, layer, test_path("%s.weight", module));
  const Param *b = weight(m, layer, test_path("%s.bias", module));
  const int out = w->t.dim[w->in_out ? 1 : 0], in = w->t.dim[w->in_out ? 0 : 1];
  for (int i = 0; i < out; i++) {
    y[i] = b ? (double)b->t.data[i] : 0;
    for (int k = 0; k < in; k++)
      y[i] += (double)w->t.data[w->in_out ? k * out + i : i * in + k] * x[k];
  }
}

/* RMSNorm, or LayerNorm where there is a bias */
static void norm(Model *m, int layer, const char *module, int n, double eps, const double *x,
                 double *y) {
  const Param *w = weight(m, layer, test_path("%s.weight", module));
  const Param *b = weight(m, layer, test_path("%s.bias", module));
  double mean = 0, ss = 0;
  for (int i = 0; b && i < n; i++) mean += x[i] / n;
  for (int i = 0; i < n; i++) ss += (x[i] - mean) * (x[i] - mean);
  for (int i = 0; i < n; i++)
    y[i] =
        (x[i] - mean) / sqrt(ss / n + eps) * (double)w->t.data[i] + (b ? (double)b->t.data[i] : 0);
}

/* Neighbours turn together. */
static void rotate(const Config *c, int pos, double *x) {
  const int r = c->qk_rope_head_dim;
  for (int i = 0; i < r; i += 2) {
    const double angle = pos / (pow(c->rope_theta, (double)i / r) * c->rope_factor), a = x[i];
    x[i] = a * cos(angle) - x[i + 1] * sin(angle);
    x[i + 1] = a * sin(angle) + x[i + 1] * cos(angle);
  }
}

typedef struct Heads {
  double q[LEN][WIDE];  /* [heads][nope + rope] */
  double kv[LEN][WIDE]; /* [heads][nope + v_head_dim] */
  double rope[LEN][WIDE];
} Heads;

static void make_heads(Model *m, int layer, int t, const double *h, Heads *y) {
  const Config *c = model_config(m);
  const char *at = is_gpt2(m) ? "attn" : "self_attn";
  const int qk = c->qk_nope_head_dim + c->qk_rope_head_dim;
  double low[WIDE], normed[WIDE];
  if (c->q_lora_rank) {
    project(m, layer, test_path("%s.q_a_proj", at), h, low);
    norm(m, layer, test_path("%s.q_a_layernorm", at), c->q_lora_rank, 1e-6, low, normed);
    project(m, layer, test_path("%s.q_b_proj", at), normed, y->q[t]);
  } else {
    project(m, layer, test_path("%s.q_proj", at), h, y->q[t]);
  }
  for (int k = 0; k < c->num_attention_heads; k++)
    rotate(c, t, y->q[t] + k * qk + c->qk_nope_head_dim);
  project(m, layer, test_path("%s.kv_a_proj_with_mqa", at), h, low);
  norm(m, layer, test_path("%s.kv_a_layernorm", at), c->kv_lora_rank, 1e-6, low, normed);
  project(m, layer, test_path("%s.kv_b_proj", at), normed, y->kv[t]);
  memcpy(y->rope[t], low + c->kv_lora_rank, (size_t)c->qk_rope_head_dim * sizeof(double));
  rotate(c, t, y->rope[t]);
}

/* The result of attention head k in row t. */
static void attend(const Config *c, const Heads *x, int t, int k, double *o) {
  const int nope = c->qk_nope_head_dim, rope = c->qk_rope_head_dim, v = c->v_head_dim;
  const double *q = x->q[t] + k * (nope + rope);
  double p[LEN], sum = 0;
  for (int j = 0; j <= t; j++) {
    p[j] = 0;
    for (int d = 0; d < nope; d++) p[j] += q[d] * x->kv[j][k * (nope + v) + d];
    for (int d = 0; d < rope; d++) p[j] += q[nope + d] * x->rope[j][d];
    sum += p[j] = exp(p[j] / sqrt(nope + rope));
  }
  for (int d = 0; d < v; d++) {
    o[d] = 0;
    for (int j = 0; j <= t; j++) o[d] += p[j] / sum * x->kv[j][k * (nope + v) + nope + d];
  }
}

static void mlp(Model *m, int layer, const double *h, double *y) {
  const int f = model_config(m)->intermediate_size;
  double up[WIDE], gate[WIDE];
  project(m, layer, is_gpt2(m) ? "mlp.c_fc" : "mlp.up_proj", h, up);
  if (!is_gpt2(m)) project(m, layer, "mlp.gate_proj", h, gate);
  for (int i = 0; i < f; i++)
    up[i] *= is_gpt2(m) ? 0.5 * (1 + tanh(sqrt(2 / M_PI) * (up[i] + 0.044715 * pow(up[i], 3))))
                        : gate[i] / (1 + exp(-gate[i]));
  project(m, layer, is_gpt2(m) ? "mlp.c_proj" : "mlp.down_proj", up, y);
}

static void add(double *x, const double *y, int n) {
  for (int i = 0; i < n; i++) x[i] += y[i];
}

static void layer_of(Model *m, int layer, int len, double (*x)[WIDE]) {
  static Heads heads;
  const Config *c = model_config(m);
  const int n = c->hidden_size;
  double h[WIDE], o[WIDE], y[WIDE];
  for (int t = 0; t < len; t++) {
    norm(m, layer, is_gpt2(m) ? "ln_1" : "input_layernorm", n, c->norm_eps, x[t], h);
    make_heads(m, layer, t, h, &heads);
  }
  for (int t = 0; t < len; t++) {
    for (int k = 0; k < c->num_attention_heads; k++) attend(c, &heads, t, k, o + k * c->v_head_dim);
    project(m, layer, is_gpt2(m) ? "attn.c_proj" : "self_attn.o_proj", o, y);
    add(x[t], y, n);
    norm(m, layer, is_gpt2(m) ? "ln_2" : "post_attention_layernorm", n, c->norm_eps, x[t], h);
    mlp(m, layer, h, y);
    add(x[t], y, n);
  }
}

/* logits [len, vocab] */
static void want_logits(Model *m, const int32_t *ids, int len, double *logits) {
  static double x[LEN][WIDE];
  const Config *c = model_config(m);
  const int n = c->hidden_size;
  const char *table = is_gpt2(m) ? "transformer.wte" : "model.embed_tokens";
  const real *wte = weight(m, -1, test_path("%s.weight", table))->t.data;
  const Param *wpe = weight(m, -1, "transformer.wpe.weight");
  double h[WIDE];
  for (int t = 0; t < len; t++)
    for (int i = 0; i < n; i++)
      x[t][i] = (double)wte[ids[t] * n + i] + (wpe ? (double)wpe->t.data[t * n + i] : 0);
  for (int i = 0; i < c->num_hidden_layers; i++) layer_of(m, i, len, x);
  for (int t = 0; t < len; t++) {
    norm(m, -1, is_gpt2(m) ? "transformer.ln_f" : "model.norm", n, c->norm_eps, x[t], h);
    project(m, -1, weight(m, -1, "lm_head.weight") ? "lm_head" : table, h,
            logits + t * c->vocab_size);
  }
}

/* ---- logits ------------------------------------------------------------------------------ */

TEST(latent_attention_agrees_with_expanded_keys_and_values_in_double) {
  for (int k = 0; k < LATENT_SHAPES; k++) {
    double want[LEN * 13], worst = 0;
    int32_t ids[LEN], pos[LEN];
    const PackSpan span = {0, LEN, -1};
    const Pack p = {.nrows = LEN, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
    Model *m = small_model(latent_shapes[k], NULL, 3);
    Tape t;
    Tensor *y;
    for (int i = 0; i < LEN; i++) pos[i] = i;
    some_ids(ids, LEN, model_config(m)->vocab_size, 5);
    want_logits(m, ids, LEN, want);
    OK(tape_init(&t, NULL));
    REQUIRE(forward_logits(m, &t, &p, &y));
    for (size_t i = 0; i < y->n; i++) worst = fmax(worst, fabs((double)y->data[i] - want[i]));
    CHECK_NEAR(worst, 0, 2e-5);
    tape_free(&t);
    model_release(m);
  }
}

/* ---- every weight's gradient --------------------------------------------------------------- */

enum { PROMPT = 4, G = 3 };
static const int lens[G] = {6, 1, 9};

typedef struct Group {
  int32_t prompt[PROMPT], ids[G][9];
} Group;

static double weight_of(int i) { return sin(1.7 * i) + 0.3; }

/* The weighted sum of the log-probabilities of a group's tokens, each completion by itself. */
static double want_loss(Model *m, const Group *g) {
  const int vocab = model_config(m)->vocab_size;
  double z[LEN * 13], loss = 0;
  int32_t all[LEN];
  for (int i = 0, out = 0; i < G; i++) {
    memcpy(all, g->prompt, sizeof g->prompt);
    memcpy(all + PROMPT, g->ids[i], (size_t)lens[i] * sizeof *all);
    want_logits(m, all, PROMPT + lens[i] - 1, z);
    for (int t = 0; t < lens[i]; t++, out++) {
      const double *row = z + (PROMPT + t - 1) * vocab;
      double sum = 0;
      for (int v = 0; v < vocab; v++) sum += exp(row[v]);
      loss += weight_of(out) * (row[g->ids[i][t]] - log(sum));
    }
  }
  return loss;
}

static Status backward(Model *m, Tape *t, const Group *g) {
  const int32_t *completion[G] = {g->ids[0], g->ids[1], g->ids[2]};
  const PackGroup group = {.prompt = g->prompt,
                           .prompt_len = PROMPT,
                           .n = G,
                           .completion = completion,
                           .completion_len = lens};
  Pack p;
  Tensor *h, *out;
  try(pack_groups(&t->arena, model_config(m), 1, &group, &p));
  try(forward_hidden(m, t, &p, &h));
  try(forward_logp(m, t, &p, h, 1, NULL, NULL, &out));
  real *seed = arena_zalloc(&t->arena, out->n * sizeof *seed);
  for (int i = 0; i < p.nout; i++) seed[i] = (real)weight_of(i);
  return tape_backward_from(t, out, seed);
}

static void check_weight(Model *m, const Group *g, Param *p) {
  const double scale = fmax(largest_of(p->t.grad, p->t.n), 1e-2);
  for (size_t i = 0; i < p->t.n; i += 1 + p->t.n / 50) {
    const real at = p->t.data[i], up = at + (real)0x1p-10, down = at - (real)0x1p-10;
    p->t.data[i] = up;
    const double high = want_loss(m, g);
    p->t.data[i] = down;
    const double want = (high - want_loss(m, g)) / ((double)up - (double)down);
    p->t.data[i] = at;
    if (!(fabs((double)p->t.grad[i] - want) <= 1e-4 * scale))
      test_fail(__FILE__, __LINE__, "%s, %zu: gradient %g, by differences %g", p->name, i,
                (double)p->t.grad[i], want);
  }
}

TEST(gradients_of_every_weight_of_a_packed_group_agree_with_differences_in_double) {
  for (int k = 0; k < LATENT_SHAPES; k++) {
    Model *m = small_model(latent_shapes[k], NULL, 4);
    const int vocab = model_config(m)->vocab_size;
    Group g;
    Tape t;
    some_ids(g.prompt, PROMPT, vocab, 1);
    for (int i = 0; i < G; i++) some_ids(g.ids[i], lens[i], vocab, (uint64_t)(2 + i));
    OK(tape_init(&t, NULL));
    REQUIRE(model_set_trainable(m, true));
    REQUIRE(backward(m, &t, &g));
    for (int i = 0; i < model_num_params(m); i++) check_weight(m, &g, model_param(m, i));
    tape_free(&t);
    model_release(m);
  }
}

/* ---- files -------------------------------------------------------------------------------- */

TEST(names_and_shapes_are_those_of_deepseek_v2) {
  static const char *const names[] = {"q_a_proj.weight",       "q_a_proj.bias",
                                      "q_a_layernorm.weight",  "q_b_proj.weight",
                                      "kv_a_layernorm.weight", "kv_a_proj_with_mqa.weight",
                                      "kv_b_proj.weight",      "kv_a_proj_with_mqa.bias",
                                      "o_proj.weight",         "o_proj.bias"};
  static const int dims[][2] = {{9, 16},  {9, 0},  {9, 0},  {12, 9}, {8, 0},
                                {10, 16}, {16, 8}, {10, 0}, {16, 8}, {16, 0}};
  Model *m = small_model(latent_shapes[2], NULL, 1);
  for (int i = 0; i < 10; i++) {
    const Param *p = model_find(m, test_path("model.layers.0.self_attn.%s", names[i]));
    if (!p || p->t.dim[0] != dims[i][0] || (dims[i][1] && p->t.dim[1] != dims[i][1]))
      test_fail(__FILE__, __LINE__, "%s is missing or has another shape", names[i]);
  }
  CHECK(!model_find(m, "model.layers.0.self_attn.q_proj.weight"));
  CHECK(model_num_params(m) == 1 + 10 + 6 + 2 + 1);
  model_release(m);
}

/* ---- adapters ------------------------------------------------------------------------------- */

TEST(adapters_leave_out_the_weight_that_is_used_head_by_head) {
  Model *m = small_model(latent_shapes[0], NULL, 1);
  const char *all[] = {"all-linear"}, *named[] = {"q_b_proj", "kv_b_proj"};
  LoraOptions o = {.rank = 2, .alpha = 4, .ntargets = 2, .targets = named};
  REFUSED(lora_add(m, &o, 1), GRPO_EARG, "attn.kv_b_proj is not supported");
  CHECK(!lora_attached(m));
  o.ntargets = 1;
  o.targets = all;
  REQUIRE(lora_add(m, &o, 1));
  CHECK(m->lora->nmodules == 2 * 6); /* q_a, q_b, kv_a, c_proj, c_fc, c_proj */
  model_release(m);
}

/* ---- the cache ------------------------------------------------------------------------------- */

TEST(the_cache_holds_latents_and_rotary_keys_alone) {
  Config c;
  config_of(&c, latent_shapes[0]);
  CHECK(layer_cache_reals(&c, false) == 2 * (6 + 4));
  CHECK(layer_cache_reals(&c, true) == 2 * 3 * (5 + 4 + 3));
  config_of(&c, tiny_llama);
  CHECK(layer_cache_reals(&c, false) == 3 * 2 * 2 * 16);
  CHECK(layer_cache_reals(&c, true) == 3 * 4 * 2 * 16);
  config_of(&c, latent_shapes[1]);
  LayerCache layer[CONFIG_MAX_LAYERS];
  layer_caches(&c, COMPUTE_F32, NULL, layer);
  Cache a, b;
  REQUIRE(cache_new(&a, layer, c.num_hidden_layers, 1, 16, 0));
  REQUIRE(cache_new(&b, layer, c.num_hidden_layers, 1, 160, 0));
  CHECK(b.reals - a.reals == 144 * layer_cache_reals(&c, false));
  cache_free(&a);
  cache_free(&b);
}

/* No kind of layer has a state yet; the cache holds one beside layers with keys. */
TEST(a_layer_may_have_a_state_or_nothing_in_place_of_keys) {
  Config c;
  Cache mixed, keys;
  config_of(&c, tiny_llama);
  const LayerCache with_keys = layer_cache(&c, 0, COMPUTE_F32, NULL);
  const LayerCache layer[] = {with_keys, {.state = 5}, {.state = 0}, with_keys};
  const LayerCache alone[] = {with_keys, with_keys};
  REQUIRE(cache_new(&mixed, layer, 4, 2, 16, -1));
  REQUIRE(cache_new(&keys, alone, 2, 2, 16, -1));
  CHECK(cache_has_states(&mixed) && !cache_has_states(&keys));
  CHECK(mixed.reals == keys.reals + 2 * 16); /* a cache line for the state in each slot */
  CHECK(cache_take(&mixed) == 0 && cache_take(&mixed) == 1);
  for (int slot = 0; slot < 2; slot++) {
    const KvSeg *s = cache_segment(&mixed, slot);
    for (int k = 0; k < 5; k++) CHECK(s[1].k[k] == 0);
    CHECK((uintptr_t)s[1].k % 64 == 0 && (uintptr_t)s[3].k % 64 == 0);
    CHECK(s[2].k == s[3].k && s[3].k - s[1].k == 16); /* layer 2 keeps nothing */
  }
  cache_free(&mixed), cache_free(&keys);
}

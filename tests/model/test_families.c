/* The parts that families add to the common block, against small computations of its own: packed
 * matrices, partial rotary positions, longrope, windows, embedding scale. */
#include "model/modeltest.h"
#include "model/rope.h"

/* ---- logits of one plain sequence ------------------------------------------------------- */

enum { LEN = 40 };

static const Tensor *weight(Model *m, int layer, const char *name) {
  const char *full = layer < 0 ? name : test_path("model.layers.%d.%s", layer, name);
  const Param *p = model_find(m, full);
  if (!p) test_fail(__FILE__, __LINE__, "no parameter %s", full);
  return &p->t;
}

/* ---- phi3's packed matrices ---------------------------------------------------------------- */

static void copy_rows(Model *to, Model *from, int layer, const char *name, const char *packed,
                      size_t first) {
  const Tensor *x = weight(to, layer, name), *y = weight(from, layer, packed);
  memcpy(x->data, y->data + first * (size_t)y->dim[1], x->n * sizeof(real));
}

static void unpack_layer(Model *llama, Model *phi, int i, size_t q, size_t kv, size_t f) {
  static const char *const same[] = {"self_attn.o_proj.weight", "mlp.down_proj.weight",
                                     "input_layernorm.weight", "post_attention_layernorm.weight"};
  copy_rows(llama, phi, i, "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", 0);
  copy_rows(llama, phi, i, "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", q);
  copy_rows(llama, phi, i, "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", q + kv);
  copy_rows(llama, phi, i, "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", 0);
  copy_rows(llama, phi, i, "mlp.up_proj.weight", "mlp.gate_up_proj.weight", f);
  for (size_t k = 0; k < 4; k++) {
    const Tensor *x = weight(llama, i, same[k]);
    memcpy(x->data, weight(phi, i, same[k])->data, x->n * sizeof(real));
  }
}

TEST(packed_matrices_give_the_bits_of_their_parts) {
  static const char *const more = "\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":88,"
                                  "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                                  "\"num_key_value_heads\":2,\"initializer_range\":0.2,"
                                  "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5}";
  static const char *const ends[] = {"model.embed_tokens.weight", "model.norm.weight",
                                     "lm_head.weight"};
  Model *phi = small_model(test_path("{\"model_type\":\"phi3\",%s", more), NULL, 3);
  Model *llama = small_model(test_path("{\"model_type\":\"llama\",%s", more), NULL, 4);
  int32_t ids[LEN];
  for (int i = 0; i < 2; i++) unpack_layer(llama, phi, i, 64, 32, 88);
  for (int i = 0; i < 3; i++)
    memcpy(weight(llama, -1, ends[i])->data, weight(phi, -1, ends[i])->data,
           weight(phi, -1, ends[i])->n * sizeof(real));
  model_updated(llama);
  some_ids(ids, LEN, 101, 5);
  real *a = plain_logits(phi, ids, LEN), *b = plain_logits(llama, ids, LEN);
  CHECK(!memcmp(a, b, LEN * 101 * sizeof *a));
  CHECK(model_count(phi) == model_count(llama));
  free(a), free(b);
  model_release(phi);
  model_release(llama);
}

/* ---- one phi3 layer in double --------------------------------------------------------------- */

enum { H = 32, HEADS = 4, KV = 2, HD = 8, ROT = 4, FF = 24, VOCAB = 50, WINDOW = 9 };
static const char *const one_layer =
    "{\"model_type\":\"phi3\",\"vocab_size\":50,\"hidden_size\":32,\"intermediate_size\":24,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"max_position_embeddings\":128,\"initializer_range\":0.3,\"rope_theta\":100,"
    "\"sliding_window\":9,\"partial_rotary_factor\":0.5,"
    "\"original_max_position_embeddings\":%s,"
    "\"rope_scaling\":{\"type\":\"%s\",\"short_factor\":[1.5,0.8],\"long_factor\":[3,7]}}";

static void rms(const double *x, const Tensor *w, double *y) {
  double ss = 0;
  for (int i = 0; i < H; i++) ss += x[i] * x[i];
  for (int i = 0; i < H; i++) y[i] = x[i] / sqrt(ss / H + 1e-5) * (double)w->data[i];
}

static void times(const Tensor *w, const double *x, double *y) {
  for (int i = 0; i < w->dim[0]; i++) {
    y[i] = 0;
    for (int k = 0; k < w->dim[1]; k++) y[i] += (double)w->data[i * w->dim[1] + k] * x[k];
  }
}

/* factors: of the two pairs, then the original length */
static void rotate(double *x, int heads, int pos, const double *factors) {
  const double original = factors[ROT / 2];
  const double scale = sqrt(1 + log(128 / original) / log(original));
  for (int h = 0; h < heads; h++)
    for (int i = 0; i < ROT / 2; i++) {
      const double angle = pos / (factors[i] * pow(100, 2.0 * i / ROT));
      double *a = x + h * HD + i, *b = a + ROT / 2, a0 = *a, b0 = *b;
      *a = scale * (a0 * cos(angle) - b0 * sin(angle));
      *b = scale * (b0 * cos(angle) + a0 * sin(angle));
    }
}

/* qkv [LEN, (HEADS + 2 KV) HD] -> what head h of row t reads */
static void attend(double (*qkv)[(HEADS + 2 * KV) * HD], int t, int h, double *o) {
  const int kv = h / (HEADS / KV), from = t >= WINDOW ? t - WINDOW + 1 : 0;
  double p[LEN], sum = 0;
  for (int j = from; j <= t; j++) {
    p[j] = 0;
    for (int d = 0; d < HD; d++) p[j] += qkv[t][h * HD + d] * qkv[j][(HEADS + kv) * HD + d];
    sum += p[j] = exp(p[j] / sqrt(HD));
  }
  for (int d = 0; d < HD; d++) {
    o[d] = 0;
    for (int j = from; j <= t; j++) o[d] += p[j] / sum * qkv[j][(HEADS + KV + kv) * HD + d];
  }
}

static void want_logits(Model *m, const int32_t *ids, const double *factors, double *out) {
  static double x[LEN][H], qkv[LEN][(HEADS + 2 * KV) * HD];
  double h[H], o[H], y[H], gate[2 * FF];
  for (int t = 0; t < LEN; t++) {
    for (int i = 0; i < H; i++)
      x[t][i] = (double)weight(m, -1, "model.embed_tokens.weight")->data[ids[t] * H + i];
    rms(x[t], weight(m, 0, "input_layernorm.weight"), h);
    times(weight(m, 0, "self_attn.qkv_proj.weight"), h, qkv[t]);
    rotate(qkv[t], HEADS + KV, t, factors);
  }
  for (int t = 0; t < LEN; t++) {
    for (int k = 0; k < HEADS; k++) attend(qkv, t, k, o + k * HD);
    times(weight(m, 0, "self_attn.o_proj.weight"), o, y);
    for (int i = 0; i < H; i++) x[t][i] += y[i];
    rms(x[t], weight(m, 0, "post_attention_layernorm.weight"), h);
    times(weight(m, 0, "mlp.gate_up_proj.weight"), h, gate);
    for (int i = 0; i < FF; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * gate[FF + i];
    times(weight(m, 0, "mlp.down_proj.weight"), gate, y);
    for (int i = 0; i < H; i++) x[t][i] += y[i];
    rms(x[t], weight(m, -1, "model.norm.weight"), h);
    times(weight(m, -1, "lm_head.weight"), h, out + t * VOCAB);
  }
}

static void check_longrope(const char *type, const char *original, const double *factors) {
  static double want[LEN * VOCAB];
  int32_t ids[LEN];
  Model *m = small_model(test_path(one_layer, original, type), NULL, 8);
  some_ids(ids, LEN, VOCAB, 6);
  want_logits(m, ids, factors, want);
  real *got = plain_logits(m, ids, LEN);
  double worst = 0;
  for (int i = 0; i < LEN * VOCAB; i++) worst = fmax(worst, fabs((double)got[i] - want[i]));
  CHECK_NEAR(worst, 0, 2e-5);
  free(got);
  model_release(m);
}

TEST(phi3_with_partial_longrope_agrees_with_double) {
  check_longrope("longrope", "48", (const double[]){1.5, 0.8, 48});
  check_longrope("su", "17", (const double[]){3, 7, 17});
}

/* ---- rotary bases and windows by layer ------------------------------------------------------- */

TEST(gemma3_has_two_rotary_tables_and_scales_the_global_one) {
  Config c;
  double global[8], local[8];
  config_of(&c, tiny_gemma3);
  rope_frequencies(&c, false, false, global);
  rope_frequencies(&c, true, false, local);
  for (int i = 0; i < 8; i++) {
    CHECK_NEAR(global[i], pow(1e6, -i / 8.0) / 8, 1e-15);
    CHECK_NEAR(local[i], pow(100, -i / 8.0), 1e-15);
  }
}

/* A window at least as long as the sequence changes nothing; a shorter one changes rows past it. */
TEST(a_window_matters_from_its_length_on) {
  int32_t ids[LEN];
  some_ids(ids, LEN, 101, 7);
  for (int k = 5; k < WINDOWED_SHAPES; k++) {
    Model *m = small_model(*small_shapes[k], NULL, 2);
    Config *c = (Config *)model_config(m);
    const int w = c->sliding_window;
    real *narrow = plain_logits(m, ids, LEN);
    c->sliding_window = LEN;
    real *wide = plain_logits(m, ids, LEN);
    c->sliding_window = 0;
    real *none = plain_logits(m, ids, LEN);
    const size_t same = (size_t)w * 101, all = LEN * 101;
    if (config_has_local_rope(c)) /* without windows its layers would rotate as global ones */
      CHECK(memcmp(wide, none, all * sizeof *wide) != 0);
    else
      CHECK(!memcmp(wide, none, all * sizeof *wide));
    CHECK(!memcmp(wide, narrow, same * sizeof *wide));
    CHECK(memcmp(wide + same, narrow + same, 101 * sizeof *wide) != 0);
    free(narrow), free(wide), free(none);
    model_release(m);
  }
}

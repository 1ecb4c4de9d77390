/* Experts' weights in MXFP4: a small gpt-oss model, whose weights the format holds exactly, loads
 * from it as it does from float32. */
#include "checkpoint/mxfp4.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/model_struct.h"
#include "model/modeltest.h"

enum { EXPERTS = 3, HIDDEN = 64, WIDTH = 32, LAYERS = 2, BLOCK = 32 };
static const char *const config =
    "{\"model_type\":\"gpt_oss\",\"vocab_size\":11,\"hidden_size\":64,\"intermediate_size\":32,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":16,"
    "\"num_local_experts\":3,\"num_experts_per_tok\":2,\"max_position_embeddings\":64}";

/* Code and scale of value i of a weight, and what they stand for. */
static unsigned code_of(int seed, size_t i) {
  return (unsigned)(i * 7 + i / 13 + (size_t)seed) % 16;
}
static unsigned scale_of(int seed, size_t block) {
  return 110 + (unsigned)(block * 5 + (size_t)seed) % 20;
}
static double value_of(int seed, size_t i) {
  static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const unsigned code = code_of(seed, i);
  return (code & 8 ? -1 : 1) * ldexp(values[code & 7], (int)scale_of(seed, i / BLOCK) - 127);
}

/* The format has rows of outputs, the parameter of inputs. */
static void set_expert(Param *p, int seed, int n, int k) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++)
      p->t.data[j * n + i] =
          (real)value_of(seed, ((size_t)p->expert * (size_t)n + (size_t)i) * (size_t)k + (size_t)j);
}

static int seed_of(int layer, bool down) { return 2 * layer + down; }

static void set_experts(Model *m) {
  for (int l = 0; l < LAYERS; l++)
    for (int e = 0; e < EXPERTS; e++)
      for (int down = 0; down < 2; down++) {
        Param *p = model_find(m, test_path("model.layers.%d.mlp.experts.%d.%s", l, e,
                                           down ? "down_proj" : "gate_up_proj"));
        CHECK(p != NULL);
        if (p) set_expert(p, seed_of(l, down), down ? HIDDEN : 2 * WIDTH, down ? WIDTH : HIDDEN);
      }
}

static void put_codes(StWriter *w, int seed, size_t n) {
  unsigned char *bytes = malloc(n / 2);
  for (size_t i = 0; i < n; i += 2)
    bytes[i / 2] = (unsigned char)(code_of(seed, i) | code_of(seed, i + 1) << 4);
  OK(st_writer_put_bytes(w, bytes, n / 2));
  for (size_t i = 0; i < n / BLOCK; i++) bytes[i] = (unsigned char)scale_of(seed, i);
  OK(st_writer_put_bytes(w, bytes, n / BLOCK));
  free(bytes);
}

static bool is_packed(const char *name) {
  return strstr(name, ".experts.") && !strstr(name, "_bias");
}

/* Writes the tensors of `from` with the experts' weights in MXFP4. */
static void pack(const char *from, const char *to) {
  Safetensors f;
  StWriter *w;
  StEntry entries[64];
  char names[64][96];
  size_t n = 0;
  REQUIRE(safetensors_open(&f, test_path("%s/model.safetensors", from)));
  for (size_t i = 0; i < f.count; i++) {
    const StTensor *t = &f.tensor[i];
    entries[n] = (StEntry){.name = t->name, .type = t->type, .ndim = t->ndim};
    memcpy(entries[n].dim, t->dim, sizeof t->dim);
    if (is_packed(t->name)) { /* [experts, inputs, outputs] */
      snprintf(names[n], sizeof *names, "%s_blocks", t->name);
      snprintf(names[n + 1], sizeof *names, "%s_scales", t->name);
      const uint64_t blocks = t->dim[1] / BLOCK;
      entries[n] = (StEntry){names[n], ST_U8, 4, {EXPERTS, t->dim[2], blocks, BLOCK / 2}};
      n++;
      entries[n] = (StEntry){names[n], ST_U8, 3, {EXPERTS, t->dim[2], blocks}};
    }
    n++;
  }
  REQUIRE(st_writer_open(&w, test_path("%s/model.safetensors", to), n, entries, NULL));
  for (size_t i = 0; i < f.count; i++) {
    const StTensor *t = &f.tensor[i];
    real *x = malloc(t->n * sizeof *x);
    st_read(t, 0, t->n, x);
    if (is_packed(t->name))
      put_codes(w, seed_of(strstr(t->name, "layers.1.") != NULL, strstr(t->name, "down") != NULL),
                t->n);
    else
      OK(st_writer_put(w, x, t->n));
    free(x);
  }
  OK(st_writer_commit(w));
  safetensors_close(&f);
}

static void same_values(Model *a, Model *b) {
  for (int i = 0; i < a->nparams; i++) {
    const size_t n = a->param[i].t.n;
    real *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    OK(param_values(&(Ctx){0}, &a->param[i], x));
    OK(param_values(&(Ctx){0}, &b->param[i], y));
    if (memcmp(x, y, n * sizeof *x) != 0)
      test_fail(__FILE__, __LINE__, "%s differs", a->param[i].name);
    free(x), free(y);
  }
}

TEST(weights_in_mxfp4_are_read_as_what_they_stand_for) {
  char plain[FILE_PATH_BYTES], packed[FILE_PATH_BYTES]; /* test_path() has few buffers */
  snprintf(plain, sizeof plain, "%s/plain", test_tmp());
  snprintf(packed, sizeof packed, "%s/mxfp4", test_tmp());
  Config c;
  Model *m, *same;
  config_of(&c, config);
  REQUIRE(model_new(&m, NULL, &c, 1));
  set_experts(m);
  OK(save_model(m, plain, WEIGHT_F32, 0));
  OK(save_model(m, packed, WEIGHT_F32, 0));
  pack(plain, packed);
  for (Storage s = STORE_F32; s <= STORE_BF16; s++) {
    REQUIRE(weights_load(&same, NULL, packed, s));
    if (s != STORE_BF16) same_values(m, same); /* the other weights are rounded there */
    model_release(same);
  }
  model_release(m);
}

TEST(parts_that_do_not_fit_are_refused) {
  const StTensor blocks = {
      .name = "a.experts.x_blocks", .type = ST_U8, .ndim = 4, .dim = {2, 3, 4, 16}};
  StTensor scales = {.type = ST_U8, .ndim = 3, .dim = {2, 3, 4}};
  SourceTensor t = {.file = "f"};
  OK(mxfp4_describe(&blocks, &scales, &t));
  CHECK(t.ndim == 3 && t.dim[2] == 128);
  scales.type = ST_F8_E8M0; /* the bytes are the same */
  OK(mxfp4_describe(&blocks, &scales, &t));
  CHECK(mxfp4_describe(&blocks, NULL, &t) == GRPO_EFORMAT);
  scales.dim[2] = 5;
  CHECK(mxfp4_describe(&blocks, &scales, &t) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), "a.experts.x_blocks"));
}

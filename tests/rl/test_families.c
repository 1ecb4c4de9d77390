/* Family x what a run may ask of it, on every checkpoint of the oracles that loads: two steps in
 * each way of a table, in which ratios are exactly 1 and some ways have the bits of others; and
 * saving, which gives the file's tensors back byte for byte. */
#include "checkpoint/safetensors_source.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/model_copy.h"
#include "os/file.h"
#include "tiny.h"

typedef struct Way {
  const char *name;
  Storage storage;
  Compute compute;
  bool lora, widened; /* widened: the same values in float32 */
  int threads;
  bool checkpointing, reuse;
  int like; /* the way whose bits these steps have; its own number: none */
} Way;

static const Way ways[] = {
    {"f32", STORE_F32, COMPUTE_F32, 0, 0, 1, 0, 0, 0},
    {"f32, two threads", STORE_F32, COMPUTE_F32, 0, 0, 2, 0, 0, 0},
    {"f32, checkpointing", STORE_F32, COMPUTE_F32, 0, 0, 2, 1, 0, 0},
    {"f32, reuse", STORE_F32, COMPUTE_F32, 0, 0, 2, 0, 1, 0},
    {"bf16", STORE_F32, COMPUTE_BF16, 0, 0, 1, 0, 0, 4},
    {"bf16, two threads, reuse", STORE_F32, COMPUTE_BF16, 0, 0, 2, 0, 1, 4},
    {"nf4", STORE_NF4, COMPUTE_F32, 1, 0, 1, 0, 0, 6},
    {"nf4, widened", STORE_NF4, COMPUTE_F32, 1, 1, 2, 1, 0, 6},
    {"int8", STORE_INT8, COMPUTE_F32, 1, 0, 1, 0, 0, 8},
    {"int8, widened, reuse", STORE_INT8, COMPUTE_F32, 1, 1, 2, 0, 1, 8},
};
enum { WAYS = sizeof ways / sizeof *ways };

static Model *load(Pool *pool, const char *dir, const Way *w) {
  Model *m = NULL, *wide = NULL;
  OK(weights_load_compute(&m, pool, dir, w->storage, w->compute));
  if (!m || !w->widened) return m;
  OK(weights_load_compute(&wide, pool, dir, STORE_F32, w->compute));
  OK(model_copy_weights(wide, m));
  model_release(m);
  return wide;
}

static void add_adapter(Model *m) {
  static const char *const all[] = {"all-linear"};
  OK(lora_add(m, &(LoraOptions){.rank = 3, .alpha = 6, .ntargets = 1, .targets = all}, 5));
}

/* Two steps; the trained model. */
static Model *trained(const char *dir, const Way *w, const char *family) {
  Tiny t = {0};
  UpdateOptions o;
  tiny_options(&t.o);
  t.o.prompts_per_step = 3;
  t.o.gradient_checkpointing = w->checkpointing;
  t.o.reuse_rollout = w->reuse ? REUSE_ON : REUSE_OFF;
  OK(pool_new(&t.pool, w->threads));
  t.model = load(t.pool, dir, w);
  OK(tokenizer_bytes(&t.tok));
  if (w->lora) add_adapter(t.model);
  tiny_engine(&t);
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-2;
  o.loss.max_new_tokens = TINY_NEW;
  for (uint32_t k = 1; k <= 2; k++) {
    StepMetrics m = {0};
    tiny_step(&t, k, &o, &m);
    if (!(m.ratio_max_deviation == 0 && isfinite(m.grad_norm) && m.grad_norm > 0))
      test_fail(__FILE__, __LINE__, "%s, %s: a ratio differs from 1 by %g, the norm is %g", family,
                w->name, m.ratio_max_deviation, m.grad_norm);
  }
  Model *m = model_retain(t.model);
  tiny_close(&t);
  return m;
}

static void check_ways(const char *dir, const char *family) {
  Model *m[WAYS];
  for (int i = 0; i < WAYS; i++) {
    m[i] = trained(dir, &ways[i], family);
    if (!same_weights(m[i], m[ways[i].like]))
      test_fail(__FILE__, __LINE__, "%s: %s and %s differ", family, ways[i].name,
                ways[ways[i].like].name);
  }
  CHECK(!same_weights(m[0], m[4]));
  for (int i = 0; i < WAYS; i++) model_release(m[i]);
}

/* ---- saving -------------------------------------------------------------------------------- */

/* Some tensors are saved in float32 whatever the type of others is; the values are the file's. */
static bool same_tensor(const WeightSource *a, const SourceTensor *x, const WeightSource *b,
                        const SourceTensor *y) {
  uint64_t n = 1;
  bool same = y && (x->type == y->type || x->type == SOURCE_F32) && x->ndim == y->ndim;
  for (int i = 0; same && i < x->ndim; i++) same = x->dim[i] == y->dim[i], n *= x->dim[i];
  if (!same) return false;
  float *v = malloc(2 * n * sizeof *v);
  OK(a->read(a, x, 0, n, v));
  OK(b->read(b, y, 0, n, v + n));
  same = memcmp(v, v + n, n * sizeof *v) == 0;
  free(v);
  return same;
}

/* The published file's tensor of our name; files of multimodal models have longer names. */
static const SourceTensor *published(const WeightSource *s, const char *name) {
  const char *rest = strchr(name, '.'); /* "model.", mostly */
  const char *names[] = {name, test_path("language_model.%s", name),
                         test_path("model.language_model%s", rest ? rest : "")};
  for (size_t i = 0; i < s->count; i++)
    for (int k = 0; k < 3; k++)
      if (strcmp(s->tensor[i].name, names[k]) == 0) return &s->tensor[i];
  return NULL;
}

static void check_saved(const char *dir, const char *family) {
  static const WeightType types[] = {
      [SOURCE_F32] = WEIGHT_F32, [SOURCE_F16] = WEIGHT_F16, [SOURCE_BF16] = WEIGHT_BF16};
  const char *out = test_path("%s/saved", test_tmp());
  WeightSource a = {0}, b = {0};
  Model *m = load(NULL, dir, &ways[0]);
  OK(safetensors_source_open(&a, dir));
  OK(save_model(m, out, types[published(&a, model_param(m, 0)->name)->type], 0));
  OK(safetensors_source_open(&b, out));
  CHECK(b.count > 10);
  for (size_t i = 0; i < b.count; i++)
    if (!same_tensor(&b, &b.tensor[i], &a, published(&a, b.tensor[i].name)))
      test_fail(__FILE__, __LINE__, "%s: %s is not the file's", family, b.tensor[i].name);
  source_close(&a);
  source_close(&b);
  model_release(m);
}

/* ---- every checkpoint ------------------------------------------------------------------------ */

static bool loads(const char *dir) {
  Model *m = NULL;
  const bool ok = file_is_dir(dir) && weights_load(&m, NULL, dir, STORE_F32) == GRPO_OK;
  model_release(m);
  return ok;
}

/* The checkpoints in this folder, by name. */
static int check_all(const char *folder) {
  Buf names = {0};
  size_t count = 0;
  int seen = 0;
  OK(file_list(folder, &names, &count));
  for (const char *name = names.data; count > 0; name += strlen(name) + 1, count--) {
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/%s/checkpoint", folder, name);
    if (!loads(dir)) continue;
    check_ways(dir, name);
    check_saved(dir, name);
    seen++;
  }
  buf_free(&names);
  return seen;
}

TEST(every_family_trains_in_every_way_and_is_saved_as_it_was) {
  char models[1024];
  CHECK(check_all("tests/cases/families") == 2);
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set: no oracles");
    return;
  }
  snprintf(models, sizeof models, "%s/oracles/models", test_shared());
  CHECK(check_all(models) >= 10);
  CHECK(check_all(strcat(models, "2")) >= 26);
}

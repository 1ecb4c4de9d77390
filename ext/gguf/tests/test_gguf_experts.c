/* Experts in GGUF files: where their values stand, and files that lie about them. */
#include "checkpoint/weights.h"
#include "gguf/gguf.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_save.h"
#include "gguf/tests/gguf_values.h"
#include "model/modeltest.h"
#include "os/file.h"

enum { EXPERTS = 5, HIDDEN = 64, WIDTH = 32 };
static const char *const shape =
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"num_experts\":5,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"norm_topk_prob\":true}";

TEST(experts_are_one_tensor_in_their_order) {
  Model *m = small_model(shape, NULL, 3);
  Gguf g;
  OK(gguf_save(m, NULL, tmp("stack"), GGML_Q8_0));
  REQUIRE(gguf_open(&g, tmp("stack")));
  CHECK(gguf_tensor(&g, "blk.0.ffn_gate_inp.weight")->type == GGML_F32);
  OK(gguf_save(m, NULL, tmp("stack"), GGML_F32));
  gguf_close(&g);
  REQUIRE(gguf_open(&g, tmp("stack")));
  const GgufTensor *t = gguf_tensor(&g, "blk.0.ffn_down_exps.weight");
  CHECK(t && t->ndim == 3 && t->dim[0] == EXPERTS && t->dim[1] == HIDDEN && t->dim[2] == WIDTH);
  for (int i = 0; i < EXPERTS; i++) {
    const char *name = test_path("model.layers.0.mlp.experts.%d.down_proj.weight", i);
    const Param *p = model_find(m, name);
    float x;
    OK(gguf_read(t, (uint64_t)i * p->t.n + 77, 1, &x));
    CHECK(x == (float)p->t.data[77]);
  }
  gguf_close(&g);
  model_release(m);
}

/* Loads the file with another number under a key. */
static Status load_lie(const Buf *file, const char *key, uint32_t number) {
  char *at = memmem(file->data, file->len, key, strlen(key));
  uint32_t before;
  Model *m = NULL;
  if (!at) return fail(GRPO_EINTERNAL, "the file has no key '%s'", key);
  at += strlen(key) + 4; /* behind the type */
  memcpy(&before, at, sizeof before);
  memcpy(at, &number, sizeof number);
  OK(file_replace(tmp("lie"), file->data, file->len));
  memcpy(at, &before, sizeof before);
  const Status s = weights_load(&m, NULL, tmp("lie"), STORE_F32);
  model_release(m);
  return s;
}

TEST(keys_of_experts_that_lie_are_refused) {
  Model *m = small_model(shape, NULL, 3);
  Buf file = {0};
  OK(gguf_save(m, NULL, tmp("experts"), GGML_F32));
  OK(file_read(tmp("experts"), 0, &file));
  OK(load_lie(&file, "qwen3moe.expert_count", EXPERTS));
  REFUSED(load_lie(&file, "qwen3moe.expert_count", 4), GRPO_EFORMAT, "the first of 5");
  REFUSED(load_lie(&file, "qwen3moe.expert_count", 0), GRPO_EFORMAT, "num_local_experts = 0");
  REFUSED(load_lie(&file, "qwen3moe.expert_used_count", 6), GRPO_EFORMAT, "per_tok = 6");
  REFUSED(load_lie(&file, "qwen3moe.expert_feed_forward_length", 31), GRPO_EFORMAT, "has shape");
  buf_free(&file);
  model_release(m);
}

/* ---- weights in two tensors ---- */

#define COMMON                                                                                     \
  "\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4,"       \
  "\"intermediate_size\":32,\"num_experts_per_tok\":2,"

static void open_file(Gguf *g, Model *m, const char *name) {
  OK(gguf_save(m, NULL, tmp(name), GGML_F32));
  REQUIRE(gguf_open(g, tmp(name)));
}

/* The checkpoint has gate and up in turn, and inputs before outputs. */
TEST(gates_of_gpt_oss_are_where_llama_cpp_wants_them) {
  Model *m = small_model("{\"model_type\":\"gpt_oss\"," COMMON "\"num_key_value_heads\":2,"
                         "\"head_dim\":16,\"num_local_experts\":3}",
                         NULL, 3);
  const size_t rows = 2 * WIDTH, out = 7, in = 9; /* of expert 2 */
  Gguf g;
  open_file(&g, m, "oss");
  for (size_t up = 0; up < 2; up++) {
    const char *name = up ? "up" : "gate";
    const size_t row = 2 * out + up;
    CHECK(value(&g, test_path("blk.0.ffn_%s_exps.weight", name), (2 * WIDTH + out) * HIDDEN + in) ==
          weight(m, "mlp.experts.2.gate_up_proj", in * rows + row));
    CHECK(value(&g, test_path("blk.0.ffn_%s_exps.bias", name), 2 * WIDTH + out) ==
          weight(m, "mlp.experts.2.gate_up_proj_bias", row));
  }
  CHECK(value(&g, "blk.0.ffn_down_exps.weight", (2 * HIDDEN + out) * WIDTH + in) ==
        weight(m, "mlp.experts.2.down_proj", in * HIDDEN + out));
  CHECK(value(&g, "blk.0.attn_sinks.weight", 3) == weight(m, "self_attn.sinks", 3));
  CHECK(gguf_tensor(&g, "blk.0.ffn_up_exps.bias")->ndim == 2);
  gguf_close(&g);
  model_release(m);
}

TEST(keys_of_latents_are_turned_head_by_head) {
  enum { RANK = 12, KEYS = 20, VALUES = 14 };
  Model *m = small_model("{\"model_type\":\"deepseek_v3\"," COMMON "\"n_routed_experts\":4,"
                         "\"n_shared_experts\":1,\"n_group\":1,\"topk_group\":1,"
                         "\"moe_intermediate_size\":32,\"first_k_dense_replace\":0,"
                         "\"q_lora_rank\":24,\"kv_lora_rank\":12,\"qk_nope_head_dim\":20,"
                         "\"qk_rope_head_dim\":8,\"v_head_dim\":14}",
                         NULL, 3);
  const size_t head = 3, row = head * (KEYS + VALUES);
  Gguf g;
  open_file(&g, m, "latent");
  CHECK(value(&g, "blk.0.attn_k_b.weight", (head * RANK + 5) * KEYS + 7) ==
        weight(m, "self_attn.kv_b_proj.weight", (row + 7) * RANK + 5));
  CHECK(value(&g, "blk.0.attn_v_b.weight", (head * VALUES + 6) * RANK + 5) ==
        weight(m, "self_attn.kv_b_proj.weight", (row + KEYS + 6) * RANK + 5));
  CHECK(value(&g, "blk.0.exp_probs_b.bias", 2) == weight(m, "mlp.gate.e_score_correction_bias", 2));
  gguf_close(&g);
  model_release(m);
}

TEST(groups_of_qwen3_next_become_two_tensors) {
  enum { KEY = 10, PER_KEY = 3, VALUES = PER_KEY * KEY, GROUP = 2 * KEY + 2 * VALUES };
  Model *m = small_model("{\"model_type\":\"qwen3_next\"," COMMON "\"num_key_value_heads\":2,"
                         "\"head_dim\":16,\"num_experts\":4,\"moe_intermediate_size\":32,"
                         "\"shared_expert_intermediate_size\":32,\"full_attention_interval\":2,"
                         "\"linear_num_key_heads\":2,\"linear_num_value_heads\":6,"
                         "\"linear_key_head_dim\":10,\"linear_value_head_dim\":10}",
                         NULL, 3);
  static const struct {
    const char *name;
    size_t row, from; /* of the second key head, in the file and in the checkpoint */
  } parts[] = {{"qkv", KEY, 0},
               {"qkv", 2 * KEY + KEY, KEY},
               {"qkv", 4 * KEY + VALUES, 2 * KEY},
               {"gate", VALUES, 2 * KEY + VALUES}};
  Gguf g;
  open_file(&g, m, "next");
  for (size_t i = 0; i < 4; i++)
    for (size_t r = 0; r < KEY; r++)
      CHECK(value(&g, test_path("blk.0.attn_%s.weight", parts[i].name),
                  (parts[i].row + r) * HIDDEN + 3) ==
            weight(m, "linear_attn.in_proj_qkvz.weight", (GROUP + parts[i].from + r) * HIDDEN + 3));
  gguf_close(&g);
  model_release(m);
}

static const char *const stacked =
    "{\"model_type\":\"qwen3_5_moe_text\"," COMMON "\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"num_experts\":3,\"moe_intermediate_size\":32,\"shared_expert_intermediate_size\":48,"
    "\"full_attention_interval\":1}";

#define GATE   "blk.0.ffn_gate_exps.weight"
#define UP     "blk.0.ffn_up_exps.weight"
#define MERGED "blk.0.ffn_gate_up_exps.weight"

/* The name in a copy: without the tensor `drop`, and with gate and up in one where `merge` is set.
 * NULL: it is left out. */
static const char *name_in_copy(const char *name, const char *drop, bool merge) {
  if (strcmp(name, drop) == 0 || (merge && strcmp(name, UP) == 0)) return NULL;
  return merge && strcmp(name, GATE) == 0 ? MERGED : name;
}

static void put_values(GgufWriter *w, const GgufTensor *t, uint64_t from, uint64_t n) {
  float *x = malloc(n * sizeof *x);
  OK(gguf_read(t, from, n, x));
  OK(gguf_writer_put(w, x, n));
  free(x);
}

static void copy_values(GgufWriter *w, const Gguf *g, const GgufTensor *t, const char *name) {
  const GgufTensor *up = gguf_tensor(g, UP);
  const uint64_t one = t->n / t->dim[0]; /* of an expert */
  if (strcmp(name, MERGED) != 0) put_values(w, t, 0, t->n);
  for (uint64_t i = 0; strcmp(name, MERGED) == 0 && i < t->dim[0]; i++)
    put_values(w, t, i * one, one), put_values(w, up, i * one, one);
}

static void copy_file(const char *from, const char *to, const char *drop, bool merge) {
  GgufEntry e[32];
  GgufMeta meta = {0};
  GgufWriter *w = NULL;
  Gguf g;
  size_t n = 0;
  Config c;
  REQUIRE(gguf_open(&g, from));
  OK(weights_config(&c, from));
  gguf_put_string(&meta, "general.architecture", "qwen35moe", 9);
  gguf_config_write(&c, gguf_arch_of("qwen3_5_moe_text"), &meta);
  for (size_t i = 0; i < g.ntensors; i++) {
    const GgufTensor *t = &g.tensor[i];
    const char *name = name_in_copy(t->name, drop, merge);
    if (!name) continue;
    e[n] = (GgufEntry){.type = t->type, .ndim = t->ndim};
    memcpy(e[n].dim, t->dim, sizeof e[n].dim);
    if (strcmp(name, MERGED) == 0) e[n].dim[1] *= 2;
    snprintf(e[n++].name, sizeof e->name, "%s", name);
  }
  REQUIRE(gguf_writer_open(&w, to, &meta, n, e));
  for (size_t i = 0; i < g.ntensors; i++) {
    const char *name = name_in_copy(g.tensor[i].name, drop, merge);
    if (name) copy_values(w, &g, &g.tensor[i], name);
  }
  OK(gguf_writer_commit(w));
  gguf_close(&g);
  gguf_meta_free(&meta);
}

static Status load_copy(Model **m, const char *drop, bool merge) {
  *m = NULL;
  copy_file(tmp("whole"), tmp("copy"), drop, merge);
  return weights_load(m, NULL, tmp("copy"), STORE_F32);
}

TEST(gate_and_up_may_be_one_tensor) {
  Model *m = small_model(stacked, NULL, 3), *back;
  OK(gguf_save(m, NULL, tmp("whole"), GGML_F32));
  OK(load_copy(&back, "", true));
  if (back) OK(gguf_save(back, NULL, tmp("again"), GGML_F32));
  CHECK(same_file(tmp("whole"), tmp("again")));
  model_release(m), model_release(back);
}

TEST(one_half_of_a_weight_is_refused_by_name) {
  Model *m = small_model(stacked, NULL, 3), *none;
  OK(gguf_save(m, NULL, tmp("whole"), GGML_F32));
  REFUSED(load_copy(&none, UP, false), GRPO_EFORMAT,
          "'" GATE "' is one half of model.layers.0.mlp.experts.gate_up_proj");
  REFUSED(load_copy(&none, GATE, false), GRPO_EFORMAT,
          "'" UP "' is one half of model.layers.0.mlp.experts.gate_up_proj");
  model_release(m);
}

/* ---- MXFP4 ---- */

TEST(experts_in_mxfp4_stay_as_they_are) {
  Model *m = small_model("{\"model_type\":\"gpt_oss\"," COMMON "\"num_key_value_heads\":2,"
                         "\"head_dim\":16,\"num_local_experts\":3}",
                         NULL, 3);
  Model *back = NULL;
  Gguf g;
  OK(gguf_save(m, NULL, tmp("four"), GGML_MXFP4));
  REQUIRE(gguf_open(&g, tmp("four")));
  CHECK(gguf_tensor(&g, "blk.0.ffn_up_exps.weight")->type == GGML_MXFP4);
  CHECK(gguf_tensor(&g, "blk.0.ffn_up_exps.bias")->type == GGML_F32);
  CHECK(gguf_tensor(&g, "blk.0.attn_q.weight")->type == GGML_Q8_0);
  gguf_close(&g);
  OK(weights_load(&back, NULL, tmp("four"), STORE_AUTO));
  if (!back) return;
  const Param *p = model_find(back, "model.layers.0.mlp.experts.1.down_proj");
  CHECK(p->t.quant && p->t.quant->type == QUANT_BF16);
  OK(gguf_save(back, NULL, tmp("again"), GGML_MXFP4));
  CHECK(same_file(tmp("four"), tmp("again")));
  model_release(m), model_release(back);
}

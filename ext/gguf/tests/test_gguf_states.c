/* Layers with a state in GGUF files: where their values stand, and files that lie about them. */
#include "base/exponential.h"
#include "base/log.h"
#include "checkpoint/weights.h"
#include "gguf/gguf.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_save.h"
#include "gguf/gguf_write.h"
#include "gguf/tests/gguf_values.h"
#include "model/modeltest.h"

#define COMMON                                                                                     \
  "\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"      \
  "\"num_key_value_heads\":2,\"head_dim\":16,\"initializer_range\":0.2,"

enum { KEYS = 2, PER_KEY = 3, WIDTH = 10 }; /* of the DeltaNet below */
static const char *const delta = "{\"model_type\":\"qwen3_5_text\"," COMMON
                                 "\"num_hidden_layers\":2,\"full_attention_interval\":2,"
                                 "\"linear_num_key_heads\":2,\"linear_num_value_heads\":6,"
                                 "\"linear_key_head_dim\":10,\"linear_value_head_dim\":10}";
static const char *const lfm2 =
    "{\"model_type\":\"lfm2\"," COMMON "\"num_hidden_layers\":2,\"full_attn_idxs\":[1],"
    "\"block_auto_adjust_ff_dim\":false}";

/* llama.cpp repeats all keys for the first value heads, then for the second ones. */
TEST(value_heads_are_where_llama_cpp_wants_them) {
  Model *m = small_model(delta, NULL, 3);
  Gguf g;
  OK(gguf_save(m, NULL, tmp("heads"), GGML_F32));
  REQUIRE(gguf_open(&g, tmp("heads")));
  for (size_t h = 0; h < KEYS * PER_KEY; h++) {
    const size_t to = h % PER_KEY * KEYS + h / PER_KEY, rows = 2 * KEYS * WIDTH;
    const size_t row = h * WIDTH + 7, to_row = to * WIDTH + 7;
    CHECK(value(&g, "blk.0.ssm_dt.bias", to) == weight(m, "linear_attn.dt_bias", h));
    CHECK(value(&g, "blk.0.ssm_a", to) ==
          (float)-math_exp((double)weight(m, "linear_attn.A_log", h)));
    CHECK(value(&g, "blk.0.ssm_alpha.weight", to * 64 + 5) ==
          weight(m, "linear_attn.in_proj_a.weight", h * 64 + 5));
    CHECK(value(&g, "blk.0.ssm_beta.weight", to * 64) ==
          weight(m, "linear_attn.in_proj_b.weight", h * 64));
    CHECK(value(&g, "blk.0.attn_gate.weight", to_row * 64 + 9) ==
          weight(m, "linear_attn.in_proj_z.weight", row * 64 + 9));
    CHECK(value(&g, "blk.0.attn_qkv.weight", (rows + to_row) * 64) ==
          weight(m, "linear_attn.in_proj_qkv.weight", (rows + row) * 64));
    CHECK(value(&g, "blk.0.ssm_conv1d.weight", (rows + to_row) * 4 + 1) ==
          weight(m, "linear_attn.conv1d.weight", (rows + row) * 4 + 1));
    CHECK(value(&g, "blk.0.ssm_out.weight", 3 * KEYS * PER_KEY * WIDTH + to_row) ==
          weight(m, "linear_attn.out_proj.weight", 3 * KEYS * PER_KEY * WIDTH + row));
  }
  CHECK(value(&g, "blk.0.attn_qkv.weight", 39 * 64) ==
        weight(m, "linear_attn.in_proj_qkv.weight", 39 * 64));
  CHECK(value(&g, "blk.0.ssm_norm.weight", 4) == weight(m, "linear_attn.norm.weight", 4));
  CHECK(gguf_tensor(&g, "blk.0.ssm_conv1d.weight")->ndim == 2);
  gguf_close(&g);
  model_release(m);
}

TEST(a_convolution_is_a_layer_without_key_heads) {
  Model *m = small_model(lfm2, NULL, 3);
  const GgufValue *heads = NULL;
  Gguf g;
  OK(gguf_save(m, NULL, tmp("filters"), GGML_Q8_0));
  REQUIRE(gguf_open(&g, tmp("filters")));
  OK(gguf_get_array(&g, "lfm2.attention.head_count_kv", GGUF_I32, &heads));
  CHECK(heads && heads->count == 2 && !gguf_int_at(heads, 0) && gguf_int_at(heads, 1) == 2);
  CHECK(gguf_tensor(&g, "blk.0.shortconv.conv.weight")->type == GGML_F32);
  CHECK(gguf_tensor(&g, "token_embd_norm.weight") != NULL);
  gguf_close(&g);
  model_release(m);
}

/* Copies a file under new metadata, with one more tensor where `extra` is its name. */
static void copy_file(const char *from, const char *to, const GgufMeta *meta, const char *extra) {
  GgufEntry e[64];
  GgufWriter *w = NULL;
  Gguf g;
  REQUIRE(gguf_open(&g, from));
  const size_t n = g.ntensors;
  for (size_t i = 0; i < n + (extra != NULL); i++) {
    const GgufTensor *t = &g.tensor[i < n ? i : 0];
    e[i] = (GgufEntry){.type = t->type, .ndim = t->ndim};
    memcpy(e[i].dim, t->dim, sizeof e[i].dim);
    snprintf(e[i].name, sizeof e[i].name, "%s", i < n ? t->name : extra);
  }
  REQUIRE(gguf_writer_open(&w, to, meta, n + (extra != NULL), e));
  for (size_t i = 0; i < n + (extra != NULL); i++) {
    const GgufTensor *t = &g.tensor[i < n ? i : 0];
    float *x = malloc(t->n * sizeof *x);
    OK(gguf_read(t, 0, t->n, x));
    OK(gguf_writer_put(w, x, t->n));
    free(x);
  }
  OK(gguf_writer_commit(w));
  gguf_close(&g);
}

static void count_note(void *notes, LogLevel level, const char *message) {
  *(int *)notes += level == LOG_INFO && strstr(message, "are not loaded: 1 tensors") != NULL;
}

/* Files count layers that predict several tokens with the others. */
TEST(layers_behind_the_decoder_are_left_out_with_a_note) {
  Model *m = small_model(delta, NULL, 3), *back = NULL;
  const GgufArch *a = gguf_arch_of("qwen3_5_text");
  Config c = *model_config(m);
  int notes = 0;
  OK(gguf_save(m, NULL, tmp("plain"), GGML_F32));
  for (int beside = 0; beside < 2; beside++) {
    GgufMeta meta = {0};
    c.num_hidden_layers = 3, c.layer_kind[2] = LAYER_DELTA;
    gguf_put_string(&meta, "general.architecture", "qwen35", 6);
    gguf_config_write(&c, a, &meta);
    if (beside) gguf_put_u32(&meta, "qwen35.nextn_predict_layers", 1);
    copy_file(tmp("plain"), tmp("beside"), &meta, "blk.2.nextn.eh_proj.weight");
    gguf_meta_free(&meta);
    log_set_sink(count_note, &notes);
    const Status s = weights_load(&back, NULL, tmp("beside"), STORE_F32);
    log_set_sink(NULL, NULL);
    if (!beside) REFUSED(s, GRPO_EFORMAT, "blk.2.nextn.eh_proj.weight' does not belong");
  }
  CHECK(notes == 1 && back && model_config(back)->num_hidden_layers == 2);
  model_release(m), model_release(back);
}

/* Reads the metadata of a DeltaNet in which one key has another value. */
static Status read_lie(const char *key, uint32_t number, int sections) {
  const GgufArch *a = gguf_arch_of("qwen3_5_text");
  Config c;
  GgufMeta meta = {0}, all = {0};
  config_of(&c, delta);
  gguf_put_string(&meta, "general.architecture", "qwen35", 6);
  gguf_config_write(&c, a, &all);
  char *at = key ? memmem(all.bytes.data, all.bytes.len, key, strlen(key)) : NULL;
  CHECK(at != NULL);
  at += strlen(key) + (sections >= 0 ? 16 + 4 * sections : 4); /* behind the types and the count */
  memcpy(at, &number, sizeof number);
  buf_put(&meta.bytes, all.bytes.data, all.bytes.len);
  meta.count += all.count;
  copy_file(tmp("plain"), tmp("lie"), &meta, NULL);
  gguf_meta_free(&meta), gguf_meta_free(&all);
  return weights_config(&c, tmp("lie"));
}

TEST(keys_of_states_that_lie_are_refused) {
  Model *m = small_model(delta, NULL, 3);
  OK(gguf_save(m, NULL, tmp("plain"), GGML_F32));
  model_release(m);
  OK(read_lie("qwen35.ssm.inner_size", 60, -1));
  REFUSED(read_lie("qwen35.ssm.inner_size", 61, -1), GRPO_EFORMAT, "= 61 is not a multiple of 6");
  REFUSED(read_lie("qwen35.ssm.time_step_rank", 5, -1), GRPO_EFORMAT, "");
  REFUSED(read_lie("qwen35.ssm.state_size", 0, -1), GRPO_EFORMAT, "linear_key_head_dim");
  REFUSED(read_lie("qwen35.rope.dimension_sections", 0, 0), GRPO_EFORMAT,
          "'qwen35.rope.dimension_sections' leaves channels without rotary positions");
  REFUSED(read_lie("qwen35.rope.dimension_sections", UINT32_MAX, 0), GRPO_EFORMAT, "sections'");
}

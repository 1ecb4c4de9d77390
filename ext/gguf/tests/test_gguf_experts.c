/* Experts in GGUF files: where their values stand, and files that lie about them. */
#include "checkpoint/weights.h"
#include "gguf/gguf.h"
#include "gguf/gguf_save.h"
#include "model/modeltest.h"
#include "os/file.h"

enum { EXPERTS = 5, HIDDEN = 64, WIDTH = 32 };
static const char *const shape =
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"num_experts\":5,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"norm_topk_prob\":true}";

static const char *tmp(const char *name) { return test_path("%s/%s.gguf", test_tmp(), name); }

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

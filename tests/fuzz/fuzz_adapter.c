/* fuzz_adapter.c - any two files as an adapter of a tiny model: refused with one line that names
 * them, leaving the model as it was, or an adapter that computes and that, saved and loaded, is
 * saved as the same bytes.
 *
 * The input is an adapter_config.json, or one, a NUL and an adapter_model.safetensors.  Without the
 * second file the tensors are the ones that the configuration asks for. */
#include "checkpoint/peft.h"
#include "files.h"
#include "formats/json.h"
#include "model/config_read.h"
#include "model/forward_logits.h"
#include "model/lora.h"

static const char *const shape[] = {
    "{\"model_type\":\"llama\",\"vocab_size\":13,\"hidden_size\":8,\"intermediate_size\":12,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"max_position_embeddings\":16,\"tie_word_embeddings\":false}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":13,\"n_embd\":8,\"n_layer\":1,\"n_head\":2,"
    "\"n_positions\":16}"};

static Model *make_model(int k) {
  Json *j = NULL;
  Config c;
  Model *m = NULL;
  FUZZ_CHECK(json_parse(shape[k], strlen(shape[k]), "shape", &j) == GRPO_OK);
  FUZZ_CHECK(config_read(&c, j, "shape") == GRPO_OK);
  FUZZ_CHECK(model_new(&m, NULL, &c, 1) == GRPO_OK);
  json_free(j);
  return m;
}

static void check_forward(Model *m) {
  static const int32_t ids[3] = {1, 2, 3}, pos[3] = {0, 1, 2};
  const PackSpan span = {0, 3, -1};
  const Pack pack = {.nrows = 3, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  Tape t;
  Tensor *logits;
  FUZZ_CHECK(tape_init(&t, NULL) == GRPO_OK);
  FUZZ_CHECK(forward_logits(m, &t, &pack, &logits) == GRPO_OK && logits->n == 3 * 13);
  tape_free(&t);
}

static void read_saved(const char *name, Buf *out) {
  buf_clear(out);
  FUZZ_CHECK(file_read(fuzz_path(name), 0, out) == GRPO_OK);
}

static bool same(const Buf *a, const Buf *b) {
  return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* Saved, loaded onto a fresh model and saved once more: the same bytes. */
static void check_saved(const Model *m, int k) {
  Buf config = {0}, weights = {0}, again = {0};
  char dir[FUZZ_PATH];
  snprintf(dir, sizeof dir, "%s", fuzz_path("saved"));
  FUZZ_CHECK(peft_save(m, dir, NULL) == GRPO_OK);
  read_saved("saved/adapter_config.json", &config);
  read_saved("saved/adapter_model.safetensors", &weights);
  Model *other = make_model(k);
  FUZZ_CHECK(peft_load(other, dir) == GRPO_OK);
  FUZZ_CHECK(peft_save(other, dir, NULL) == GRPO_OK);
  read_saved("saved/adapter_config.json", &again);
  FUZZ_CHECK(same(&again, &config));
  read_saved("saved/adapter_model.safetensors", &again);
  FUZZ_CHECK(same(&again, &weights));
  model_release(other);
  buf_free(&config);
  buf_free(&weights);
  buf_free(&again);
}

/* A model of each shape, as good as new. */
static Model *base[2];
static void release_models(void) {
  for (int k = 0; k < 2; k++) model_release(base[k]);
}
static Model *base_model(int k) {
  static bool registered;
  if (!registered) registered = atexit(release_models) == 0;
  if (!base[k]) base[k] = make_model(k);
  return base[k];
}

static void check_result(Status s, int k, const char *where) {
  Model *m = base_model(k);
  FUZZ_CHECK(lora_attached(m) == (s == GRPO_OK));
  if (s != GRPO_OK) {
    FUZZ_CHECK(strstr(err_message(), where) && !strchr(err_message(), '\n'));
    return;
  }
  check_forward(m);
  check_saved(m, k);
  model_release(m);
  base[k] = NULL;
}

static void check_folder(int k) { check_result(peft_load(base_model(k), fuzz_dir), k, fuzz_dir); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char weights[] = "adapter_model.safetensors";
  const uint8_t *config;
  const size_t whole = size, n = fuzz_part(&data, &size, &config);
  if (n == whole) { /* no NUL */
    static const char name[] = "adapter_config.json";
    for (int k = 0; k < 2; k++) {
      Status s = peft_attach(base_model(k), (const char *)config, n, name);
      if (s == GRPO_OK) s = lora_allocate(base_model(k));
      check_result(s, k, name);
    }
    return 0;
  }
  fuzz_put_file("adapter_config.json", config, n);
  fuzz_put_file(weights, data, size);
  for (int k = 0; k < 2; k++) check_folder(k);
  fuzz_refit_file(weights, data, size);
  for (int k = 0; k < 2; k++) check_folder(k);
  return 0;
}

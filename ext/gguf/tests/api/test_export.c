/* grpo_model_export with this extension: GGUF files of a model, of an adapter, and of both. */
#include "host.h"

static bool begins_with_gguf(const char *path) {
  char magic[4] = "";
  FILE *f = fopen(path, "rb");
  const bool is = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
  if (f) fclose(f);
  return is;
}

/* The ids of the tokenizer that GGUF has a form for. */
enum { VOCAB = 258 };

static void open_bytes(Host *h) {
  *h = (Host){0};
  OK(NULL, grpo_context_new(NULL, &h->c));
  OK(h->c, grpo_tokenizer_bytes(h->c, &h->tok));
  OK(h->c, grpo_model_new(h->c, tiny_config, h->tok, NULL, &h->model));
}

/* The logits behind a token. */
static void logits_of(Host *h, grpo_model *m, float out[VOCAB]) {
  static const int32_t id = 3;
  OK(h->c, grpo_model_logits(m, &id, 1, out, VOCAB));
}

TEST(the_ending_of_a_path_chooses_gguf) {
  Host h;
  grpo_export_options o;
  grpo_model *m = NULL;
  float own[VOCAB], read[VOCAB];
  open_bytes(&h);
  const char *base = test_path("%s/base.gguf", test_tmp());
  grpo_tokenizer *chars = NULL;
  OK(h.c, grpo_tokenizer_chars(h.c, "abc", 3, &chars));
  OK(h.c, grpo_export_options_init(&o, sizeof o));
  o.tokenizer = chars;
  REFUSED(h.c, GRPO_EFORMAT, "no form for a 'chars' tokenizer",
          grpo_model_export(h.model, base, &o));
  grpo_tokenizer_free(chars);
  OK(h.c, grpo_model_export(h.model, base, NULL));
  CHECK(begins_with_gguf(base));
  OK(h.c, grpo_model_load(h.c, base, NULL, &m));
  logits_of(&h, h.model, own);
  logits_of(&h, m, read);
  CHECK(memcmp(own, read, sizeof own) == 0);
  OK(h.c, grpo_export_options_init(&o, sizeof o));
  o.dtype = "nf4";
  REFUSED(h.c, GRPO_EARG, "'nf4' is not a type of format 'gguf'",
          grpo_model_export(h.model, test_path("%s/no.gguf", test_tmp()), &o));
  o.format = "gguf", o.dtype = "bf16";
  OK(h.c, grpo_model_export(h.model, test_path("%s/named", test_tmp()), &o));
  CHECK(begins_with_gguf(test_path("%s/named", test_tmp())));
  grpo_model_free(m);
  host_close(&h);
}

TEST(an_adapter_becomes_a_file_for_llama_cpp_or_is_merged) {
  Host h;
  grpo_export_options o;
  grpo_model *m = NULL;
  float plain[VOCAB], adapted[VOCAB], merged[VOCAB];
  open_bytes(&h);
  logits_of(&h, h.model, plain);
  OK(h.c, grpo_model_add_lora(h.model, 2, 4, 0, "q_proj,v_proj", 1));
  int32_t n = 0;
  float b[64];
  OK(h.c, grpo_model_parameter_count(h.model, &n));
  for (int32_t i = 0; i < n; i++) { /* B begins with zeros */
    const char *name;
    size_t count;
    OK(h.c, grpo_model_parameter_at(h.model, i, &name, &count));
    if (!strstr(name, "lora_B")) continue;
    for (size_t k = 0; k < count && k < 64; k++) b[k] = 0.1F * (float)(k % 3);
    OK(h.c, grpo_model_parameter_set(h.model, name, b, count));
  }
  logits_of(&h, h.model, adapted);
  CHECK(memcmp(plain, adapted, sizeof plain) != 0);
  const char *alone = test_path("%s/alone.gguf", test_tmp());
  OK(h.c, grpo_model_export(h.model, alone, NULL));
  CHECK(begins_with_gguf(alone));
  OK(h.c, grpo_export_options_init(&o, sizeof o));
  o.merge = 1;
  const char *both = test_path("%s/both.gguf", test_tmp());
  OK(h.c, grpo_model_export(h.model, both, &o));
  OK(h.c, grpo_model_load(h.c, both, NULL, &m));
  logits_of(&h, m, merged);
  for (int i = 0; i < VOCAB; i++) CHECK(fabsf(merged[i] - adapted[i]) < 1e-4F);
  grpo_model_free(m);
  host_close(&h);
}

/* The parts: tokenizers, models, generation, losses on arrays, tensors, AdamW. */
#include "host.h"

TEST(tokenizers_encode_and_decode) {
  grpo_context *c = NULL;
  grpo_tokenizer *t = NULL, *u = NULL;
  int32_t ids[8], n = 0, id = 0;
  size_t count = 0, len = 0;
  char text[8];
  const char *dir = test_path("%s/tok", test_tmp());
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tokenizer_bytes(c, &t));
  OK(c, grpo_tokenizer_encode(t, "hi!", 3, 0, ids, 8, &count));
  CHECK(count == 3 && ids[0] == 'h' && ids[2] == '!');
  OK(c, grpo_tokenizer_encode(t, "hi!", 3, 0, NULL, 0, &count));
  CHECK(count == 3);
  REFUSED(c, GRPO_ELIMIT, "want 3", grpo_tokenizer_encode(t, "hi!", 3, 0, ids, 2, &count));
  CHECK(count == 3);
  OK(c, grpo_tokenizer_decode(t, ids, 3, 1, text, sizeof text, &len));
  CHECK_STR(text, "hi!");
  REFUSED(c, GRPO_ELIMIT, "want 3", grpo_tokenizer_decode(t, ids, 3, 1, text, 2, &len));
  OK(c, grpo_tokenizer_size(t, &n));
  OK(c, grpo_tokenizer_id(t, "eos", &id));
  CHECK(n == 258 && id == 256);
  OK(c, grpo_tokenizer_id(t, "no such", &id));
  CHECK(id == -1);
  OK(c, grpo_tokenizer_save(t, dir));
  OK(c, grpo_tokenizer_load(c, dir, &u));
  OK(c, grpo_tokenizer_encode(u, "a", 1, GRPO_ADD_SPECIAL, ids, 8, &count));
  CHECK(count == 1 && ids[0] == 'a');
  REFUSED(c, GRPO_EARG, "flags", grpo_tokenizer_encode(t, "a", 1, 64, ids, 8, &count));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_encode(t, NULL, 1, 0, ids, 8, &count));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_encode(t, "a", 1, 0, ids, 8, NULL));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_encode(t, "a", 1, 0, NULL, 8, &count));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_decode(t, NULL, 1, 0, text, 8, &len));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_decode(t, ids, 1, 0, text, 8, NULL));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_size(t, NULL));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_id(t, NULL, &id));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_chars(c, NULL, 3, &t));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_load(c, NULL, &t));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tokenizer_save(t, NULL));
  CHECK(grpo_tokenizer_size(NULL, &n) == GRPO_EARG && grpo_tokenizer_bytes(NULL, &t) == GRPO_EARG);
  grpo_tokenizer_free(t), grpo_tokenizer_free(u), grpo_tokenizer_free(NULL);
  grpo_context_free(c);
}

/* Logits that transformers computed: tests/cases/classifier/logits.jsonl. */
TEST(reward_models_score_ids_and_texts) {
  static const int32_t a[] = {9, 3}, b[] = {29, 7, 8}, wrong[] = {4000};
  const grpo_prompt texts[] = {{a, 2, 0, 0}, {b, 3, 0, 0}}, bad = {wrong, 1, 0, 0};
  static const char *const words[] = {"ab", "cab"};
  const char *dir = "tests/cases/classifier/llama";
  const char *copy = test_path("%s/judge", test_tmp());
  grpo_context *c = NULL;
  grpo_tokenizer *t = NULL;
  grpo_reward_model *r = NULL, *with = NULL;
  float logits[2] = {0}, of_words[2] = {0};
  int32_t n = 0, ids[4];
  size_t count = 0;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_reward_model_load(c, dir, NULL, &r));
  OK(c, grpo_reward_model_labels(r, &n));
  CHECK(n == 1);
  OK(c, grpo_reward_model_score_ids(r, texts, 2, logits, 2));
  CHECK_NEAR(logits[0], 0.578554869, 1e-5);
  CHECK_NEAR(logits[1], -0.02079181, 1e-5);
  OK(c, grpo_reward_model_score_ids(r, texts, 0, NULL, 0));
  REFUSED(c, GRPO_ELIMIT, "want 2", grpo_reward_model_score_ids(r, texts, 2, logits, 1));
  REFUSED(c, GRPO_EARG, "4000 is outside", grpo_reward_model_score_ids(r, &bad, 1, logits, 2));
  REFUSED(c, GRPO_EARG, "no tokenizer", grpo_reward_model_score(r, words, 2, logits, 2));
  REFUSED(c, GRPO_EARG, "NULL", grpo_reward_model_score_ids(r, NULL, 1, logits, 2));
  REFUSED(c, GRPO_ENOENT, "no/such", grpo_reward_model_load(c, "no/such", NULL, &with));
  /* the same with a tokenizer beside the weights */
  OK(c, grpo_tokenizer_chars(c, "abcdefgh", 8, &t));
  OK(c, grpo_tokenizer_save(t, copy));
  CHECK(system(test_path("cp tests/cases/classifier/llama/config.json "
                         "tests/cases/classifier/llama/model.safetensors %s",
                         copy)) == 0);
  OK(c, grpo_reward_model_load(c, copy, NULL, &with));
  OK(c, grpo_reward_model_score(with, words, 2, of_words, 2));
  for (int i = 0; i < 2; i++) {
    OK(c, grpo_tokenizer_encode(t, words[i], strlen(words[i]), GRPO_ADD_SPECIAL, ids, 4, &count));
    const grpo_prompt p = {ids, count, 0, 0};
    OK(c, grpo_reward_model_score_ids(r, &p, 1, logits, 2));
    CHECK(logits[0] == of_words[i]);
  }
  grpo_context_free(c);
  grpo_tokenizer_free(t);
  grpo_reward_model_free(with), grpo_reward_model_free(r), grpo_reward_model_free(NULL);
}

TEST(generation_records_the_log_probabilities_of_the_model) {
  Host h;
  static const int32_t prompt[] = {0, 3, 5};
  const grpo_prompt p = {prompt, 3, 0, 0};
  grpo_sampling o;
  grpo_samples *s = NULL;
  grpo_sample one = {.size = sizeof one};
  host_open(&h, 1);
  OK(h.c, grpo_sampling_init(&o, sizeof o));
  o.max_new_tokens = 6;
  o.n = 3;
  OK(h.c, grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  CHECK(grpo_samples_count(s) == 3 && grpo_samples_count(NULL) == 0);
  for (size_t i = 0; i < 3; i++) {
    int32_t ids[16] = {0, 3, 5};
    float logp[16];
    OK(h.c, grpo_samples_at(s, i, &one));
    CHECK(one.prompt == 0 && one.index == (int64_t)i && one.text && strlen(one.finish) > 2);
    memcpy(ids + 3, one.ids, one.length * sizeof *ids);
    OK(h.c, grpo_model_logprobs(h.model, ids, 3 + one.length, logp, 16));
    CHECK(memcmp(logp + 2, one.logprobs, one.length * sizeof *logp) == 0); /* the same bits */
  }
  REFUSED(h.c, GRPO_EARG, "there are 3", grpo_samples_at(s, 3, &one));
  grpo_samples_free(s);
  const char *const stop[] = {"a"};
  o.stop = stop;
  o.stops = 1;
  REFUSED(h.c, GRPO_EARG, "tokenizer", grpo_generate(h.model, NULL, &p, 1, &o, &s));
  OK(h.c, grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  grpo_samples_free(s);
  o.stops = 0;
  o.stop_regex = "(";
  REFUSED(h.c, GRPO_EARG, "regular", grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  o.stop_regex = NULL;
  o.temperature = -1;
  REFUSED(h.c, GRPO_EARG, "temperature", grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  o.temperature = 0;
  const grpo_prompt empty = {prompt, 0, 0, 0}, none = {NULL, 1, 0, 0};
  static const int32_t outside[] = {99};
  const grpo_prompt wild = {outside, 1, 0, 0};
  REFUSED(h.c, GRPO_EARG, "at least 1", grpo_generate(h.model, h.tok, &empty, 1, &o, &s));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_generate(h.model, h.tok, &none, 1, &o, &s));
  REFUSED(h.c, GRPO_EARG, "vocabulary", grpo_generate(h.model, h.tok, &wild, 1, &o, &s));
  REFUSED(h.c, GRPO_EARG, "prompts", grpo_generate(h.model, h.tok, &p, 0, &o, &s));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_generate(h.model, h.tok, NULL, 1, &o, &s));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_generate(h.model, h.tok, &p, 1, &o, NULL));
  grpo_samples_free(NULL);
  host_close(&h);
}

TEST(models_save_load_and_show_their_weights) {
  Host h;
  grpo_model *m = NULL;
  grpo_model_facts f = {.size = sizeof f};
  const char *dir = test_path("%s/model", test_tmp()), *name = NULL;
  size_t n = 0;
  int32_t count = 0;
  float v[16], logits[3 * 10], logp[2];
  static const int32_t ids[] = {1, 2, 3};
  host_open(&h, 1);
  OK(h.c, grpo_model_facts_get(h.model, &f));
  CHECK(f.vocab_size == 10 && f.hidden_size == 16 && f.layers == 2);
  CHECK(f.max_position_embeddings == 32 && f.parameters == f.trainable && f.parameters > 1000);
  OK(h.c, grpo_model_save(h.model, dir, "f32"));
  OK(h.c, grpo_model_load(h.c, dir, NULL, &m));
  CHECK(host_hash(m) == host_hash(h.model));
  OK(h.c, grpo_model_logits(m, ids, 3, logits, 30));
  OK(h.c, grpo_model_logprobs(m, ids, 3, logp, 2));
  for (int t = 0; t < 2; t++) { /* log softmax of the logits is the log-probability */
    double sum = 0;
    for (int k = 0; k < 10; k++) sum += exp((double)logits[10 * t + k]);
    CHECK_NEAR(logp[t], (double)logits[10 * t + ids[t + 1]] - log(sum), 1e-5);
  }
  OK(h.c, grpo_model_parameter_count(m, &count));
  OK(h.c, grpo_model_parameter_at(m, count - 1, &name, &n));
  CHECK_STR(name, "model.norm.weight");
  for (int i = 0; i < 16; i++) v[i] = (float)i;
  OK(h.c, grpo_model_parameter_set(m, name, v, n));
  memset(v, 0, sizeof v);
  OK(h.c, grpo_model_parameter_get(m, name, v, 16));
  CHECK(n == 16 && v[15] == 15);
  REFUSED(h.c, GRPO_ELIMIT, "want 16", grpo_model_parameter_get(m, name, v, 15));
  REFUSED(h.c, GRPO_ESHAPE, "16 elements", grpo_model_parameter_set(m, name, v, 15));
  REFUSED(h.c, GRPO_EARG, "no parameter", grpo_model_parameter_get(m, "x", v, 16));
  REFUSED(h.c, GRPO_EARG, "there are", grpo_model_parameter_at(m, count, &name, &n));
  REFUSED(h.c, GRPO_ELIMIT, "want 30", grpo_model_logits(m, ids, 3, logits, 29));
  REFUSED(h.c, GRPO_EARG, "want 2 to", grpo_model_logprobs(m, ids, 1, logp, 2));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_model_logits(m, NULL, 3, logits, 30));
  REFUSED(h.c, GRPO_EARG, "vocabulary", grpo_model_logits(m, (int32_t[]){10}, 1, logits, 30));
  REFUSED(h.c, GRPO_EARG, "dtype", grpo_model_save(m, dir, "f12"));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_model_save(m, NULL, "f32"));
  grpo_model_free(m);
  REFUSED(h.c, GRPO_ENOENT, "no/such", grpo_model_load(h.c, "no/such", NULL, &m));
  REFUSED(h.c, GRPO_EFORMAT, "config", grpo_model_new(h.c, "{", NULL, NULL, &m));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_model_new(h.c, NULL, NULL, NULL, &m));
  grpo_model_options o;
  OK(h.c, grpo_model_options_init(&o, sizeof o));
  o.storage = "int9";
  REFUSED(h.c, GRPO_EARG, "storage", grpo_model_load(h.c, dir, &o, &m));
  host_close(&h);
}

TEST(adapters_train_beside_a_frozen_base) {
  Host h;
  grpo_model *m = NULL;
  grpo_model_facts f = {.size = sizeof f};
  const char *base = test_path("%s/base", test_tmp()),
             *adapter = test_path("%s/adapter", test_tmp());
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, base, "f32"));
  OK(h.c, grpo_model_load(h.c, base, NULL, &m));
  REFUSED(h.c, GRPO_EARG, "no adapter", grpo_model_save_adapter(m, adapter));
  REFUSED(h.c, GRPO_EARG, "rank", grpo_model_add_lora(m, 0, 8, 0, NULL, 1));
  REFUSED(h.c, GRPO_EARG, "targets", grpo_model_add_lora(m, 2, 8, 0, " , ", 1));
  REFUSED(h.c, GRPO_EARG, "nothing_proj", grpo_model_add_lora(m, 2, 8, 0, "nothing_proj", 1));
  OK(h.c, grpo_model_add_lora(m, 2, 4, 0, "q_proj, v_proj", 1));
  OK(h.c, grpo_model_facts_get(m, &f));
  CHECK(f.trainable < f.parameters && f.trainable > 0);
  grpo_trainer_free(h.trainer);
  grpo_trainer_options o;
  OK(h.c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(h.c, grpo_trainer_new(m, h.reference, h.tok, &o, &h.trainer));
  host_step(&h, 0);
  OK(h.c, grpo_trainer_save(h.trainer, adapter));
  grpo_model *again = NULL;
  OK(h.c, grpo_model_load(h.c, base, NULL, &again));
  OK(h.c, grpo_model_load_adapter(again, adapter));
  CHECK(host_hash(again) == host_hash(m));
  grpo_model_free(again);
  grpo_model_free(m);
  host_close(&h);
}

TEST(an_adapter_brings_its_base) {
  Host h;
  grpo_model *m = NULL, *again = NULL;
  grpo_trainer_options o;
  const char *base = test_path("%s/whole", test_tmp()), *one = test_path("%s/one", test_tmp()),
             *two = test_path("%s/two", test_tmp());
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, base, NULL));
  OK(h.c, grpo_model_load(h.c, base, NULL, &m));
  OK(h.c, grpo_model_add_lora(m, 2, 4, 0, "q_proj", 1));
  grpo_trainer_free(h.trainer);
  OK(h.c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(h.c, grpo_trainer_new(m, h.reference, h.tok, &o, &h.trainer));
  host_step(&h, 0);
  OK(h.c, grpo_trainer_save(h.trainer, one));
  OK(h.c, grpo_model_save_adapter(m, two));
  OK(h.c, grpo_model_load(h.c, one, NULL, &again));
  CHECK(again && host_hash(again) == host_hash(m));
  grpo_model_free(again);
  OK(h.c, grpo_model_load(h.c, two, NULL, &again));
  CHECK(again && host_hash(again) == host_hash(m));
  OK(h.c, grpo_model_save_adapter(again, one)); /* which names the base, not the adapter */
  grpo_model_free(again);
  OK(h.c, grpo_model_load(h.c, one, NULL, &again));
  grpo_model_free(again);
  grpo_model_options mo;
  OK(h.c, grpo_model_options_init(&mo, sizeof mo));
  mo.storage = "int8"; /* of the base */
  OK(h.c, grpo_model_load(h.c, one, &mo, &again));
  grpo_model_free(again);
  CHECK(rename(base, test_path("%s/elsewhere", test_tmp())) == 0);
  REFUSED(h.c, GRPO_ENOENT, "the base model", grpo_model_load(h.c, one, NULL, &again));
  grpo_model_free(m);
  OK(h.c, grpo_model_clone(h.model, &m));
  OK(h.c, grpo_model_add_lora(m, 2, 4, 0, NULL, 1));
  OK(h.c, grpo_model_save_adapter(m, two)); /* of a model that no file has */
  REFUSED(h.c, GRPO_EFORMAT, "base_model_name_or_path", grpo_model_load(h.c, two, NULL, &again));
  grpo_model_free(m);
  host_close(&h);
}

TEST(an_adapter_does_not_come_beside_a_living_trainer) {
  static const int32_t ids[] = {0, 1, 2};
  const grpo_example x = {ids, 1, ids + 1, 2};
  const grpo_prompt p = {ids, 3, 0, 0};
  static const char part[] = "given an adapter";
  const char *dir = test_path("%s/unsaved", test_tmp());
  Host h;
  grpo_sampling s;
  grpo_update_options u;
  double mean;
  int64_t tokens;
  host_open(&h, 1);
  host_rollout(&h, 0);
  OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
  OK(h.c, grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
  OK(h.c, grpo_model_add_lora(h.model, 2, 4, 0, NULL, 1));
  OK(h.c, grpo_sampling_init(&s, sizeof s));
  OK(h.c, grpo_update_options_init(&u, sizeof u));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_update(h.trainer, &u, NULL));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_reference(h.trainer));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_sft(h.trainer, &x, 1, &u, NULL));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_evaluate(h.trainer, &x, 1, &mean, &tokens));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_save(h.trainer, dir));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_load(h.trainer, dir));
  REFUSED(h.c, GRPO_EARG, part, grpo_trainer_rollout(h.trainer, &p, 1, &s));
  REFUSED(h.c, GRPO_ENOENT, "unsaved", grpo_model_load(h.c, dir, NULL, &h.reference));
  host_close(&h);
}

TEST(a_saved_model_has_its_tokenizer) {
  const char *made = test_path("%s/made", test_tmp()), *copied = test_path("%s/copied", test_tmp()),
             *bare = test_path("%s/bare", test_tmp());
  Host h;
  grpo_model *m = NULL, *clone = NULL;
  grpo_tokenizer *t = NULL;
  int32_t size = 0;
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, made, NULL));
  OK(h.c, grpo_model_load(h.c, made, NULL, &m)); /* with the tokenizer beside its weights */
  OK(h.c, grpo_model_clone(m, &clone));
  grpo_model_free(m);
  OK(h.c, grpo_model_save(clone, copied, NULL));
  OK(h.c, grpo_tokenizer_load(h.c, copied, &t));
  OK(h.c, grpo_tokenizer_size(t, &size));
  CHECK(size == 10);
  grpo_tokenizer_free(t);
  grpo_model_free(clone);
  OK(h.c, grpo_model_new(h.c,
                         "{\"model_type\": \"llama\", \"hidden_size\": 8, \"vocab_size\": 10, "
                         "\"intermediate_size\": 8, \"num_hidden_layers\": 1, "
                         "\"num_attention_heads\": 1, \"max_position_embeddings\": 8}",
                         NULL, NULL, &m));
  OK(h.c, grpo_model_save(m, bare, NULL)); /* which has none */
  REFUSED(h.c, GRPO_ENOENT, "tokenizer.json", grpo_tokenizer_load(h.c, bare, &t));
  grpo_model_free(m);
  host_close(&h);
}

TEST(tokenizers_of_another_context_are_refused) {
  static const int32_t ids[] = {0, 1};
  const grpo_prompt p = {ids, 2, 0, 0};
  Host h;
  grpo_context *c = NULL;
  grpo_tokenizer *far = NULL;
  grpo_model *m = NULL;
  grpo_samples *s = NULL;
  host_open(&h, 1);
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tokenizer_chars(c, "abcdefgh", 8, &far));
  REFUSED(h.c, GRPO_EARG, "another context", grpo_model_new(h.c, tiny_config, far, NULL, &m));
  REFUSED(h.c, GRPO_EARG, "another context", grpo_generate(h.model, far, &p, 1, NULL, &s));
  grpo_tokenizer_free(far);
  grpo_context_free(c);
  host_close(&h);
}

/* ---- losses on arrays ------------------------------------------------------------- */

enum { N = 5, VOCAB = 4 };
static const float logp[N] = {-1.f, -.5f, -2.f, -.2f, -1.5f},
                   old[N] = {-1.1f, -.9f, -1.8f, -.2f, -1.f};
static const float advantage[N] = {1, 1, 1, -1, -1};
static const int32_t lengths[] = {3, 2}, targets[N] = {0, 3, 1, 2, 2};

static grpo_loss_batch batch_of(const float *old_logp) {
  grpo_loss_batch b;
  OK(NULL, grpo_loss_batch_init(&b, sizeof b));
  b.count = N;
  b.sequences = 2;
  b.lengths = lengths;
  b.advantage = advantage;
  b.old_logp = old_logp;
  return b;
}

TEST(the_grpo_loss_is_its_formula) {
  grpo_context *c = NULL;
  const grpo_loss_batch b = batch_of(old);
  double value = 0, want = 0;
  float d[N];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  for (int i = 0; i < N; i++) { /* mean over tokens of a sequence, then over the two sequences */
    const double r = exp((double)logp[i] - (double)old[i]), a = (double)advantage[i];
    const double clipped = fmin(fmax(r, 0.8), 1.2), share = 1.0 / (2 * lengths[i >= 3]);
    want -= share * fmin(r * a, clipped * a);
    CHECK_NEAR(d[i], r * a <= clipped * a ? -share * r * a : 0, 1e-6);
  }
  CHECK_NEAR(value, want, 1e-6);
  grpo_context_free(c);
}

static double loss_at(grpo_context *c, const grpo_loss_options *o, const float *logits) {
  const grpo_loss_batch b = batch_of(old);
  double value = NAN;
  OK(c, grpo_policy_loss_from_logits(c, o, &b, logits, VOCAB, targets, 0.7, &value, NULL));
  return value;
}

TEST(without_options_a_loss_is_grpo_by_any_door) {
  grpo_context *c = NULL;
  grpo_loss_options o;
  float logits[N * VOCAB];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_loss_options_init(&o, sizeof o));
  for (int i = 0; i < N * VOCAB; i++) logits[i] = (float)sin(1.7 * i);
  const double initial = loss_at(c, &o, logits), null = loss_at(c, NULL, logits);
  o.loss = "grpo";
  CHECK(null == initial && null == loss_at(c, &o, logits));
  o.loss = "dapo";
  CHECK(null != loss_at(c, &o, logits));
  grpo_context_free(c);
}

TEST(gradients_of_logits_agree_with_differences) {
  static const char *const names[] = {NULL, "grpo", "dapo", "dr_grpo", "gspo", "rloo"};
  grpo_context *c = NULL;
  OK(NULL, grpo_context_new(NULL, &c));
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    float logits[N * VOCAB], d[N * VOCAB];
    grpo_loss_options o;
    grpo_loss_batch b = batch_of(old);
    double value;
    OK(c, grpo_loss_options_init(&o, sizeof o));
    o.loss = names[k];
    o.clip = o.clip_high = 0.5;
    o.entropy = 0.01;
    for (int i = 0; i < N * VOCAB; i++) logits[i] = (float)sin(1.7 * i);
    OK(c, grpo_policy_loss_from_logits(c, &o, &b, logits, VOCAB, targets, 0.7, &value, d));
    for (int i = 0; i < N * VOCAB; i++) {
      const float at = logits[i];
      logits[i] = at + 1e-2f;
      const double up = loss_at(c, &o, logits);
      logits[i] = at - 1e-2f;
      const double down = loss_at(c, &o, logits);
      logits[i] = at;
      CHECK_NEAR(d[i], (up - down) / 2e-2, 2e-3);
    }
  }
  grpo_context_free(c);
}

TEST(wrong_losses_are_refused) {
  grpo_context *c = NULL;
  grpo_loss_options o;
  grpo_loss_batch b = batch_of(old);
  float x[N * VOCAB] = {0}, d[N];
  double value = 0;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_loss_options_init(&o, sizeof o));
  o.loss = "gpro";
  REFUSED(c, GRPO_EARG, "gpro", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.loss = "grpo";
  o.clip = -1;
  REFUSED(c, GRPO_EARG, "train.clip", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.clip = NAN;
  o.kl = 0.1;
  REFUSED(c, GRPO_EARG, "ref_logp", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.kl_estimator = "k1";
  REFUSED(c, GRPO_EARG, "k1", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.kl = 0;
  o.entropy = 1;
  REFUSED(c, GRPO_EARG, "entrop", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "entropy", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, d));
  o.entropy = 0;
  o.mask_truncated = 1;
  REFUSED(c, GRPO_EARG, "trainer", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "batch", grpo_policy_loss(c, NULL, NULL, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "logp", grpo_policy_loss(c, NULL, &b, NULL, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "value", grpo_policy_loss(c, NULL, &b, logp, NULL, NULL, d, NULL));
  b.advantage = NULL;
  REFUSED(c, GRPO_EARG, "advantages", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b = batch_of(old);
  b.count = N + 1;
  REFUSED(c, GRPO_ESHAPE, "add up", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b.lengths = NULL;
  REFUSED(c, GRPO_EARG, "lengths", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b = batch_of(old);
  REFUSED(c, GRPO_EARG, "vocabulary",
          grpo_policy_loss_from_logits(c, NULL, &b, x, 3, targets, 1, &value, NULL));
  REFUSED(c, GRPO_EARG, "temperature",
          grpo_policy_loss_from_logits(c, NULL, &b, x, VOCAB, targets, 0, &value, NULL));
  REFUSED(c, GRPO_EARG, "targets",
          grpo_policy_loss_from_logits(c, NULL, &b, x, VOCAB, NULL, 1, &value, NULL));
  grpo_context_free(c);
}

TEST(advantages_are_those_of_the_paper) {
  grpo_context *c = NULL;
  grpo_advantage_options o;
  const double rewards[] = {1, 0, 0, 1, 5, 5};
  double a[6], total[6];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_advantage_options_init(&o, sizeof o));
  o.group = 2;
  OK(c, grpo_advantages(c, &o, 6, rewards, total, a));
  const double unit = 0.5 / (sqrt(0.5) + 1e-4);
  CHECK_NEAR(a[0], unit, 1e-12);
  CHECK_NEAR(a[1], -unit, 1e-12);
  CHECK(a[4] == 0 && a[5] == 0 && total[5] == 5);
  REFUSED(c, GRPO_ESHAPE, "groups of 2", grpo_advantages(c, &o, 5, rewards, total, a));
  o.scale = "groups";
  REFUSED(c, GRPO_EARG, "group|batch|none", grpo_advantages(c, &o, 6, rewards, total, a));
  o.scale = NULL;
  REFUSED(c, GRPO_EARG, "rewards", grpo_advantages(c, &o, 6, NULL, total, a));
  REFUSED(c, GRPO_EARG, "infinite", grpo_advantages(c, &o, 2, (double[]){1, INFINITY}, total, a));
  grpo_context_free(c);
}

/* ---- tensors ---------------------------------------------------------------------- */

static grpo_tensor *tensor(grpo_context *c, int rows, int columns, double scale, int grad) {
  grpo_tensor *t = NULL;
  OK(c, grpo_tensor_randn(c, 2, (int32_t[]){rows, columns}, scale, (uint64_t)rows * 100 + 1, grad,
                          &t));
  return t;
}

TEST(the_loss_as_an_operation_is_the_loss_on_arrays) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *loss = NULL;
  float *data = NULL, d[N * VOCAB];
  const float *grad = NULL;
  double value = 0;
  const grpo_loss_batch b = batch_of(NULL);
  OK(NULL, grpo_context_new(NULL, &c));
  x = tensor(c, N, VOCAB, 1, 1);
  OK(c, grpo_tensor_policy_loss(x, targets, NULL, &b, 1, &loss));
  OK(c, grpo_tensor_data(x, &data, NULL));
  OK(c, grpo_policy_loss_from_logits(c, NULL, &b, data, VOCAB, targets, 1, &value, d));
  OK(c, grpo_tensor_backward(loss));
  OK(c, grpo_tensor_grad(x, &grad, NULL));
  CHECK(grad && memcmp(grad, d, sizeof d) == 0);
  OK(c, grpo_tensor_data(loss, &data, NULL));
  CHECK((double)data[0] == value);
  REFUSED(c, GRPO_EARG, "freed", grpo_tensor_backward(loss));
  grpo_tensor_free(x), grpo_tensor_free(loss), grpo_tensor_free(NULL);
  grpo_context_free(c);
}

TEST(cross_entropy_leaves_negative_targets_out) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *loss = NULL;
  const float logits[] = {0, 0, 1, 3}; /* two rows of two */
  float *v = NULL;
  const float *grad = NULL;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tensor_new(c, 2, (int32_t[]){2, 2}, logits, 1, &x));
  OK(c, grpo_tensor_cross_entropy(x, (int32_t[]){-1, 0}, 0, &loss));
  OK(c, grpo_tensor_data(loss, &v, NULL));
  CHECK_NEAR(v[0], log(1 + exp(2)), 1e-6);
  OK(c, grpo_tensor_backward(loss));
  OK(c, grpo_tensor_grad(x, &grad, NULL));
  CHECK(grad[0] == 0 && grad[1] == 0);
  CHECK_NEAR(grad[2], 1 / (1 + exp(2)) - 1, 1e-6);
  REFUSED(c, GRPO_EARG, "vocabulary", grpo_tensor_cross_entropy(x, (int32_t[]){2, 0}, 0, &loss));
  REFUSED(c, GRPO_EARG, "normalizer", grpo_tensor_cross_entropy(x, (int32_t[]){1, 0}, -1, &loss));
  grpo_tensor_free(x), grpo_tensor_free(loss);
  grpo_context_free(c);
}

TEST(adamw_takes_its_first_step_of_lr_against_the_sign) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *sum = NULL, *square = NULL;
  grpo_adamw *a = NULL;
  float *v = NULL;
  double norm = 0;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tensor_new(c, 1, (int32_t[]){2}, (float[]){3, -4}, 1, &x));
  OK(c, grpo_adamw_new(c, 1, &x, NULL, &a));
  OK(c, grpo_tensor_apply(c, "mul", 2, (grpo_tensor *[]){x, x}, 0, NULL, &square));
  OK(c, grpo_tensor_apply(c, "sum", 1, &square, 0, NULL, &sum));
  OK(c, grpo_tensor_backward(sum));
  OK(c, grpo_adamw_step(a, 0.5, 0, &norm));
  CHECK_NEAR(norm, 10, 1e-5);
  OK(c, grpo_tensor_data(x, &v, NULL));
  CHECK_NEAR(v[0], 2.5, 1e-5);
  CHECK_NEAR(v[1], -3.5, 1e-5);
  OK(c, grpo_adamw_step(a, 0.5, 0, &norm)); /* gradients are used up */
  CHECK(norm == 0 && v[0] == 2.5f);
  REFUSED(c, GRPO_EARG, "learning rate", grpo_adamw_step(a, NAN, 0, NULL));
  REFUSED(c, GRPO_EARG, "max_grad_norm", grpo_adamw_step(a, 0, -1, NULL));
  grpo_adamw_options o;
  grpo_adamw *other = NULL;
  OK(c, grpo_adamw_options_init(&o, sizeof o));
  o.beta1 = 1;
  REFUSED(c, GRPO_EARG, "beta1", grpo_adamw_new(c, 1, &x, &o, &other));
  grpo_tensor *fixed = tensor(c, 1, 1, 1, 0);
  REFUSED(c, GRPO_EARG, "gradient", grpo_adamw_new(c, 1, &fixed, NULL, &other));
  grpo_tensor_free(fixed);
  REFUSED(c, GRPO_EARG, "0 tensors", grpo_adamw_new(c, 0, &x, NULL, &other));
  grpo_adamw_free(a), grpo_adamw_free(NULL);
  grpo_tensor_free(x), grpo_tensor_free(sum), grpo_tensor_free(square);
  grpo_context_free(c);
}

TEST(layers_are_checked_and_attention_is_causal) {
  grpo_context *c = NULL, *other = NULL;
  grpo_tensor *out = NULL, *out2 = NULL;
  float *y = NULL, *z = NULL, *qd = NULL;
  int32_t ndim = 0, shape[4];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(NULL, grpo_context_new(NULL, &other));
  grpo_tensor *q = tensor(c, 4, 8, 1, 0), *k = tensor(c, 4, 8, 2, 0), *v = tensor(c, 4, 8, 3, 0);
  grpo_tensor *w = tensor(c, 3, 8, 1, 0), *far = tensor(other, 4, 8, 1, 0);
  OK(c, grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){4}, 1, &out));
  OK(c, grpo_tensor_data(k, &qd, NULL));
  qd[3 * 8] += 5; /* the last key: only the last row may see it */
  OK(c, grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){4}, 1, &out2));
  OK(c, grpo_tensor_data(out, &y, NULL));
  OK(c, grpo_tensor_data(out2, &z, NULL));
  CHECK(memcmp(y, z, 24 * sizeof *y) == 0 && memcmp(y + 24, z + 24, 8 * sizeof *y) != 0);
  grpo_tensor_free(out), grpo_tensor_free(out2);
  OK(c, grpo_tensor_linear(q, w, NULL, &out));
  OK(c, grpo_tensor_shape(out, &ndim, shape));
  CHECK(ndim == 2 && shape[0] == 4 && shape[1] == 3);
  grpo_tensor_free(out);
  REFUSED(c, GRPO_ESHAPE, "cover 3", grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){3}, 1, &out));
  REFUSED(c, GRPO_ESHAPE, "heads", grpo_tensor_attention(q, k, v, 3, 3, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "different", grpo_tensor_attention(q, q, v, 2, 2, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_attention(q, NULL, v, 2, 2, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "context", grpo_tensor_linear(q, far, NULL, &out));
  grpo_tensor *narrow = tensor(c, 2, 5, 1, 0);
  REFUSED(c, GRPO_ESHAPE, "linear", grpo_tensor_linear(w, narrow, NULL, &out));
  grpo_tensor_free(narrow);
  REFUSED(c, GRPO_EARG, "layernorm", grpo_tensor_layernorm(q, w, w, -1, &out));
  REFUSED(c, GRPO_EARG, "outside", grpo_tensor_embedding(w, (int32_t[]){3}, 1, NULL, NULL, &out));
  REFUSED(c, GRPO_EARG, "positions", grpo_tensor_embedding(w, (int32_t[]){1}, 1, w, NULL, &out));
  grpo_tensor_free(q), grpo_tensor_free(k), grpo_tensor_free(v);
  grpo_tensor_free(w), grpo_tensor_free(far);
  grpo_context_free(c), grpo_context_free(other);
}

TEST(small_operations_take_their_arguments) {
  grpo_context *c = NULL;
  grpo_tensor *out = NULL;
  int32_t ndim = 0, shape[4];
  OK(NULL, grpo_context_new(NULL, &c));
  grpo_tensor *x = tensor(c, 4, 6, 1, 1), *y = tensor(c, 6, 2, 1, 0), *pair[] = {x, y};
  const struct {
    const char *name;
    size_t inputs, nargs;
    double args[4];
    int ndim, first, last;
  } rows[] = {{"matmul", 2, 0, {0}, 2, 4, 2},       {"sum", 1, 0, {0}, 0, 0, 0},
              {"sum", 1, 1, {0}, 1, 6, 6},          {"softmax", 1, 1, {1}, 2, 4, 6},
              {"transpose", 1, 2, {0, 1}, 2, 6, 4}, {"reshape", 1, 3, {2, -1, 3}, 3, 2, 3},
              {"narrow", 1, 3, {1, 2, 3}, 2, 4, 3}, {"clamp", 1, 2, {-1, 1}, 2, 4, 6},
              {"quantile", 1, 1, {0.5}, 0, 0, 0},   {"gelu", 1, 0, {0}, 2, 4, 6}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    OK(c,
       grpo_tensor_apply(c, rows[i].name, rows[i].inputs, pair, rows[i].nargs, rows[i].args, &out));
    OK(c, grpo_tensor_shape(out, &ndim, shape));
    CHECK(ndim == rows[i].ndim);
    if (ndim) CHECK(shape[0] == rows[i].first && shape[ndim - 1] == rows[i].last);
    grpo_tensor_free(out);
  }
  const double half = 0.5, far = 7;
  REFUSED(c, GRPO_EARG, "not one of", grpo_tensor_apply(c, "linear", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "not one of", grpo_tensor_apply(c, "nothing", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "inputs", grpo_tensor_apply(c, "add", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_ESHAPE, "add", grpo_tensor_apply(c, "add", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "arguments", grpo_tensor_apply(c, "softmax", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "whole", grpo_tensor_apply(c, "softmax", 1, pair, 1, &half, &out));
  CHECK(grpo_tensor_apply(c, "softmax", 1, pair, 1, &far, &out) != GRPO_OK);
  CHECK(grpo_tensor_apply(c, "narrow", 1, pair, 3, (double[]){0, 3, 3}, &out) != GRPO_OK);
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_apply(c, NULL, 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_apply(c, "exp", 1, NULL, 0, NULL, &out));
  REFUSED(c, GRPO_ESHAPE, "dimensions", grpo_tensor_new(c, 5, shape, NULL, 0, &out));
  REFUSED(c, GRPO_ESHAPE, "shape[0]", grpo_tensor_new(c, 1, (int32_t[]){-1}, NULL, 0, &out));
  REFUSED(c, GRPO_ENOMEM, "elements",
          grpo_tensor_new(c, 3, (int32_t[]){1 << 30, 1 << 30, 1 << 30}, NULL, 0, &out));
  OK(c, grpo_set_recording(c, 0));
  OK(c, grpo_tensor_apply(c, "sum", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "gradient", grpo_tensor_backward(out));
  grpo_tensor_free(out), grpo_tensor_free(x), grpo_tensor_free(y);
  grpo_context_free(c);
}

TEST(trainers_check_what_they_are_made_of) {
  Host h;
  grpo_context *c = NULL;
  grpo_tokenizer *far = NULL;
  grpo_trainer *t = NULL;
  grpo_trainer_options o;
  host_open(&h, 1);
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tokenizer_bytes(c, &far));
  OK(h.c, grpo_trainer_options_init(&o, sizeof o));
  REFUSED(h.c, GRPO_EARG, "context of 32", grpo_trainer_new(h.model, NULL, h.tok, &o, &t));
  o.max_prompt_tokens = o.max_new_tokens = 8;
  REFUSED(h.c, GRPO_EARG, "policy itself", grpo_trainer_new(h.model, h.model, h.tok, &o, &t));
  REFUSED(h.c, GRPO_EARG, "another context", grpo_trainer_new(h.model, NULL, far, &o, &t));
  o.group_size = 0;
  REFUSED(h.c, GRPO_EARG, "group_size", grpo_trainer_new(h.model, NULL, h.tok, &o, &t));
  o.group_size = INT32_MAX;
  REFUSED(h.c, GRPO_EARG, "group_size", grpo_trainer_new(h.model, NULL, h.tok, &o, &t));
  o.prompts_per_step = o.max_prompt_tokens = o.max_new_tokens = INT32_MAX;
  REFUSED(h.c, GRPO_EARG, "want", grpo_trainer_new(h.model, NULL, h.tok, &o, &t));
  o.prompts_per_step = 2, o.max_prompt_tokens = o.max_new_tokens = 8;
  o.group_size = 2;
  o.micro_batch_tokens = INT32_MAX;
  OK(h.c, grpo_trainer_new(h.model, NULL, h.tok, &o, &t)); /* more than a step has: all at once */
  grpo_trainer_free(t);
  t = NULL;
  o.micro_batch_tokens = 0;
  o.beta2 = 1.5;
  REFUSED(h.c, GRPO_EARG, "beta2", grpo_trainer_new(h.model, NULL, h.tok, &o, &t));
  CHECK(!t && grpo_trainer_new(NULL, NULL, NULL, NULL, &t) == GRPO_EARG);
  static const int32_t ids[] = {0, 1};
  const grpo_prompt prompts[] = {{ids, 2, 0, 0}, {ids, 2, 1, 0}};
  grpo_sampling many;
  OK(h.c, grpo_sampling_init(&many, sizeof many));
  many.n = INT32_MAX;
  REFUSED(h.c, GRPO_EARG, "too many", grpo_trainer_rollout(h.trainer, prompts, 2, &many));
  grpo_samples *list = NULL;
  REFUSED(h.c, GRPO_EARG, "too many", grpo_generate(h.model, NULL, prompts, 2, &many, &list));
  grpo_update_options u;
  OK(h.c, grpo_update_options_init(&u, sizeof u));
  host_rollout(&h, 0);
  OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
  OK(h.c, grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
  u.lr = -1;
  REFUSED(h.c, GRPO_EARG, "lr", grpo_trainer_update(h.trainer, &u, NULL));
  u.lr = 0;
  u.max_grad_norm = NAN;
  REFUSED(h.c, GRPO_EARG, "max_grad_norm", grpo_trainer_update(h.trainer, &u, NULL));
  u.max_grad_norm = 1;
  u.iterations = 0;
  REFUSED(h.c, GRPO_EARG, "iterations", grpo_trainer_update(h.trainer, &u, NULL));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_save(h.trainer, NULL));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_load(h.trainer, NULL));
  grpo_tokenizer_free(far);
  grpo_context_free(c);
  host_close(&h);
}

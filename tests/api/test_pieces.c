/* The parts: tokenizers, models, generation, adapters, trainers. */
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

TEST(generation_keeps_to_an_expression_or_a_grammar) {
  Host h;
  static const int32_t prompt[] = {0, 3, 5};
  const grpo_prompt p = {prompt, 3, 0, 0};
  grpo_sampling o;
  grpo_samples *s = NULL;
  grpo_sample one = {.size = sizeof one};
  host_open(&h, 1);
  OK(h.c, grpo_sampling_init(&o, sizeof o));
  o.max_new_tokens = 6;
  o.regex = "a+b";
  OK(h.c, grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  OK(h.c, grpo_samples_at(s, 0, &one));
  CHECK(one.text[0] == 'a');
  grpo_samples_free(s);
  REFUSED(h.c, GRPO_EARG, "tokenizer", grpo_generate(h.model, NULL, &p, 1, &o, &s));
  o.grammar = "root ::= \"a\"";
  REFUSED(h.c, GRPO_EARG, "not both", grpo_generate(h.model, h.tok, &p, 1, &o, &s));
  o.regex = NULL;
  o.grammar = "root ::= root";
  REFUSED(h.c, GRPO_EARG, "sampling.grammar: the rule root",
          grpo_generate(h.model, h.tok, &p, 1, &o, &s));
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

/* Long calls as a host sees them: progress, cancel, tokens as they come; chat templates, exports,
 * and its own pointers on handles. */
#include <sys/stat.h>

#include "host.h"

/* ---- chat templates ---------------------------------------------------------------- */

static const char messages[] = "[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
                               "\"user\", \"content\": \"Hi\"}]";

static const char *chat(Host *h, const char *options) {
  static char text[4096];
  size_t n = 0;
  text[0] = 0;
  OK(h->c, grpo_tokenizer_chat(h->tok, messages, options, text, sizeof text, &n));
  CHECK(n == strlen(text));
  return text;
}

static grpo_status chat_in_callback(void *user, const grpo_sample *s, double *reward) {
  CHECK_STR(chat(user, "{\"chat_template\": \"{{ messages[1].content }}\"}"), "Hi");
  *reward = (double)s->index;
  return GRPO_OK;
}

TEST(conversations_are_rendered_by_templates) {
  Host h;
  char small[8];
  size_t n = 0;
  host_open(&h, 1);
  CHECK_STR(chat(&h, "{\"chat_template\": \"chatml\", \"generation_prompt\": true}"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  CHECK_STR(chat(&h, "{\"chat_template\": \"{% for t in tools %}{{ t | tojson }}{% endfor %}"
                     "{{ date }}{{ messages | length }}\", \"vars\": {\"date\": \"May\"},"
                     " \"tools\": [{\"z\": 1, \"a\": [true, null]}]}"),
            "{\"z\": 1, \"a\": [true, null]}May2");
  REFUSED(h.c, GRPO_EARG, "the tokenizer has no chat template",
          grpo_tokenizer_chat(h.tok, messages, NULL, NULL, 0, &n));
  CHECK(strstr(grpo_message(h.c), "option chat_template"));
  REFUSED(h.c, GRPO_EARG, "generation_prompt: want true or false",
          grpo_tokenizer_chat(h.tok, messages,
                              "{\"chat_template\": \"chatml\", \"generation_prompt\": 0}", NULL, 0,
                              &n));
  REFUSED(h.c, GRPO_EARG, "there is no option 'tool'",
          grpo_tokenizer_chat(h.tok, messages, "{\"chat_template\": \"chatml\", \"tool\": 1}", NULL,
                              0, &n));
  REFUSED(h.c, GRPO_EARG, "messages: JSON:1:2", grpo_tokenizer_chat(h.tok, "[", NULL, NULL, 0, &n));
  REFUSED(h.c, GRPO_EARG, "messages: got a dict",
          grpo_tokenizer_chat(h.tok, "{}", NULL, NULL, 0, &n));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_tokenizer_chat(h.tok, NULL, NULL, NULL, 0, &n));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_tokenizer_chat(NULL, messages, NULL, NULL, 0, &n));
  const char *two = "{\"chat_template\": \"{{ messages[0].content }}\"}";
  OK(h.c, grpo_tokenizer_chat(h.tok, messages, two, NULL, 0, &n));
  CHECK(n == 9);
  REFUSED(h.c, GRPO_ELIMIT, "room for 8, want 9",
          grpo_tokenizer_chat(h.tok, messages, two, small, sizeof small, &n));
  host_rollout(&h, 0);
  OK(h.c, grpo_trainer_score(h.trainer, chat_in_callback, &h));
  host_close(&h);
}

/* ---- tokens as they come, cancel, progress ----------------------------------------- */

typedef struct Heard {
  grpo_context *c;
  int calls, end; /* the call that ends it; 0: none */
  bool by_cancel;
  char text[64];
  int32_t ids[16];
  size_t length;
  int64_t done, of;
  char what[32];
} Heard;

static grpo_status on_token(void *user, const grpo_sample *s) {
  Heard *heard = user;
  CHECK(s->length == heard->length + 1 && s->prompt == 0 && s->index == 0 && !s->finish);
  CHECK(s->logprobs[s->length - 1] <= 0 && s->text && s->text[s->text_length] == 0);
  heard->length = s->length;
  memcpy(heard->ids, s->ids, s->length * sizeof *s->ids);
  snprintf(heard->text, sizeof heard->text, "%s", s->text);
  if (++heard->calls != heard->end) return GRPO_OK;
  if (!heard->by_cancel) return GRPO_EIO;
  grpo_cancel(heard->c);
  return GRPO_OK;
}

static grpo_status generate(Host *h, Heard *heard, grpo_samples **out) {
  static const int32_t ids[] = {0, 1, 2};
  const grpo_prompt prompt = {ids, 3, 0, 0};
  grpo_sampling o;
  OK(h->c, grpo_sampling_init(&o, sizeof o));
  CHECK(o.on_token == NULL);
  o.max_new_tokens = 8;
  o.seed = 5;
  if (heard) o.on_token = on_token;
  o.on_token_user = heard;
  return grpo_generate(h->model, h->tok, &prompt, 1, &o, out);
}

TEST(tokens_come_one_by_one_and_the_host_may_end_the_call) {
  Host h;
  grpo_samples *all = NULL, *none = NULL;
  grpo_sample s = {.size = sizeof s};
  host_open(&h, 1);
  Heard heard = {.c = h.c};
  OK(h.c, generate(&h, &heard, &all));
  OK(h.c, grpo_samples_at(all, 0, &s));
  CHECK(heard.length == s.length && memcmp(heard.ids, s.ids, s.length * sizeof *s.ids) == 0);
  CHECK_STR(heard.text, s.text);
  Heard ended = {.c = h.c, .end = 2};
  REFUSED(h.c, GRPO_ECANCELED, "on_token returned EIO", generate(&h, &ended, &none));
  CHECK(ended.calls == 2);
  Heard cancelled = {.c = h.c, .end = 2, .by_cancel = true};
  REFUSED(h.c, GRPO_ECANCELED, "grpo_cancel", generate(&h, &cancelled, &none));
  CHECK(cancelled.calls == 2 && !none);
  grpo_cancel(h.c); /* there is no call, so nothing happens */
  grpo_cancel(NULL);
  OK(h.c, generate(&h, NULL, &none));
  grpo_samples_free(none);
  grpo_samples_free(all);
  host_close(&h);
}

static grpo_status on_progress(void *user, const char *what, int64_t done, int64_t of) {
  Heard *heard = user;
  CHECK(done >= 0 && done <= of);
  if (strcmp(what, heard->what) == 0) CHECK(done >= heard->done && of == heard->of);
  snprintf(heard->what, sizeof heard->what, "%s", what);
  heard->done = done;
  heard->of = of;
  return ++heard->calls == heard->end ? GRPO_EIO : GRPO_OK;
}

/* A step of a trainer in a context that tells its progress. */
static void step_with_progress(Heard *heard, Host *h) {
  grpo_context_options co;
  grpo_trainer_options o;
  *h = (Host){0};
  OK(NULL, grpo_context_options_init(&co, sizeof co));
  co.progress = on_progress;
  co.progress_user = heard;
  OK(NULL, grpo_context_new(&co, &h->c));
  OK(h->c, grpo_tokenizer_chars(h->c, "abcdefgh", 8, &h->tok));
  OK(h->c, grpo_model_new(h->c, tiny_config, h->tok, NULL, &h->model));
  OK(h->c, grpo_model_clone(h->model, &h->reference));
  OK(h->c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(h->c, grpo_trainer_new(h->model, h->reference, h->tok, &o, &h->trainer));
}

TEST(progress_is_told_and_an_update_that_it_ends_changes_nothing) {
  Host h, plain;
  Heard heard = {0};
  grpo_update_options u;
  const char *directory = test_path("%s/saved", test_tmp());
  host_open(&plain, 1);
  step_with_progress(&heard, &h);
  host_rollout(&h, 0);
  CHECK_STR(heard.what, "sample");
  CHECK(heard.of == HOST_PROMPTS * HOST_GROUP * HOST_NEW);
  OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
  OK(h.c, grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
  OK(h.c, grpo_update_options_init(&u, sizeof u));
  heard.end = heard.calls + 2;
  const uint64_t before = host_hash(h.model);
  REFUSED(h.c, GRPO_ECANCELED, "the progress callback returned EIO",
          grpo_trainer_update(h.trainer, &u, NULL));
  CHECK_STR(heard.what, "update");
  CHECK(host_hash(h.model) == before);
  heard.end = heard.calls + 1;
  REFUSED(h.c, GRPO_ECANCELED, "progress", grpo_model_save(h.model, directory, NULL));
  heard.end = 0;
  host_step(&h, 0); /* the trainer is as before */
  host_step(&plain, 0);
  CHECK(host_hash(h.model) == host_hash(plain.model));
  OK(h.c, grpo_model_save(h.model, directory, NULL));
  CHECK_STR(heard.what, "save");
  grpo_model *m = NULL;
  OK(h.c, grpo_model_load(h.c, directory, NULL, &m));
  CHECK_STR(heard.what, "load");
  *heard.what = 0;
  heard.end = heard.calls + 1;
  grpo_model *none = NULL;
  REFUSED(h.c, GRPO_ECANCELED, "progress", grpo_model_load(h.c, directory, NULL, &none));
  CHECK(!none);
  grpo_model_free(m);
  host_close(&h);
  host_close(&plain);
}

/* ---- exports ----------------------------------------------------------------------- */

static bool exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

TEST(a_model_is_exported_by_format) {
  Host h;
  grpo_export_options o;
  grpo_model *m = NULL;
  host_open(&h, 1);
  const char *plain = test_path("%s/plain", test_tmp()), *four = test_path("%s/nf4", test_tmp());
  OK(h.c, grpo_model_export(h.model, plain, NULL));
  OK(h.c, grpo_model_load(h.c, plain, NULL, &m));
  CHECK(m && host_hash(m) == host_hash(h.model));
  grpo_model_free(m);
  OK(h.c, grpo_export_options_init(&o, sizeof o));
  o.dtype = "nf4";
  OK(h.c, grpo_model_export(h.model, four, &o));
  m = NULL;
  OK(h.c, grpo_model_load(h.c, four, NULL, &m));
  grpo_model_free(m);
  CHECK(exists(test_path("%s/tokenizer.json", plain)) &&
        exists(test_path("%s/tokenizer.json", four)));
  o.dtype = "q9";
  REFUSED(h.c, GRPO_EARG, "'q9' is not a type of format 'hf'",
          grpo_model_export(h.model, test_path("%s/no", test_tmp()), &o));
  o.dtype = NULL, o.format = "tar";
  REFUSED(h.c, GRPO_EARG, "'tar' is not a format of this build, want hf",
          grpo_model_export(h.model, test_path("%s/no", test_tmp()), &o));
  o.format = "adapter";
  REFUSED(h.c, GRPO_EARG, "no adapter",
          grpo_model_export(h.model, test_path("%s/no", test_tmp()), &o));
  CHECK(!exists(test_path("%s/no", test_tmp())));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_model_export(NULL, plain, NULL));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_model_export(h.model, NULL, NULL));
  host_close(&h);
}

TEST(an_adapter_is_exported_alone_or_merged) {
  Host h;
  grpo_export_options o;
  host_open(&h, 1);
  grpo_trainer_free(h.trainer);
  h.trainer = NULL;
  OK(h.c, grpo_model_add_lora(h.model, 2, 4, 0, NULL, 1));
  const char *alone = test_path("%s/alone", test_tmp()),
             *merged = test_path("%s/merged", test_tmp());
  OK(h.c, grpo_model_export(h.model, alone, NULL));
  CHECK(exists(test_path("%s/adapter_config.json", alone)));
  OK(h.c, grpo_export_options_init(&o, sizeof o));
  o.format = "hf";
  REFUSED(h.c, GRPO_EARG, "merge = true", grpo_model_export(h.model, merged, &o));
  o.format = NULL, o.merge = 1;
  OK(h.c, grpo_model_export(h.model, merged, &o));
  CHECK(exists(test_path("%s/model.safetensors", merged)));
  o.format = "adapter";
  REFUSED(h.c, GRPO_EARG, "merges nothing", grpo_model_export(h.model, alone, &o));
  host_close(&h);
}

/* ---- pointers of the host ---------------------------------------------------------- */

TEST(every_handle_carries_a_pointer_of_the_host) {
  Host h;
  grpo_samples *s = NULL;
  host_open(&h, 1);
  OK(h.c, generate(&h, NULL, &s));
  void *handles[] = {h.c, h.tok, h.model, h.reference, h.trainer, s};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
    CHECK(grpo_user(handles[i]) == NULL);
    grpo_set_user(handles[i], &handles[i]);
  }
  host_step(&h, 0);
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
    CHECK(grpo_user(handles[i]) == &handles[i]);
  grpo_set_user(NULL, &h);
  CHECK(grpo_user(NULL) == NULL);
  grpo_samples_free(s);
  host_close(&h);
}

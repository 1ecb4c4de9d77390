/* Models, adapters and tokenizers by their names on the Hub, as they lie in its cache. */
#include <sys/stat.h>

#include "host.h"

static const char *const commits[] = {"1111111111111111111111111111111111111111",
                                      "2222222222222222222222222222222222222222"};

static void make_directories(const char *path) {
  char part[1024];
  for (const char *s = path + 1; *s; s++) {
    if (*s != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)(s - path), path);
    mkdir(part, 0777);
  }
  mkdir(path, 0777);
}

/* Sets HF_HUB_CACHE to an empty directory of this test; returns it. */
static const char *set_cache(const char *name) {
  const char *cache = test_path("%s/%s", test_tmp(), name);
  static const char *const others[] = {"HF_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"};
  for (int i = 0; i < 3; i++) unsetenv(others[i]);
  setenv("HF_HUB_CACHE", cache, 1);
  return getenv("HF_HUB_CACHE");
}

/* Makes a snapshot's directory, to which `ref` points; returns it. */
static const char *add_snapshot(const char *cache, const char *repo, int commit, const char *ref) {
  const char *refs = test_path("%s/models--%s/refs", cache, repo),
             *dir = test_path("%s/models--%s/snapshots/%s", cache, repo, commits[commit]);
  make_directories(refs);
  make_directories(dir);
  FILE *f = fopen(test_path("%s/%s", refs, ref), "w");
  CHECK(f != NULL);
  if (f) {
    fputs(commits[commit], f);
    fclose(f);
  }
  return dir;
}

TEST(a_model_is_loaded_by_its_name_on_the_hub) {
  Host h;
  grpo_model *m = NULL;
  grpo_tokenizer *t = NULL;
  int32_t n = 0;
  const char *cache = set_cache("models");
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, add_snapshot(cache, "org--tiny", 0, "main"), "f32"));
  OK(h.c, grpo_model_load(h.c, "org/tiny", NULL, &m));
  CHECK(host_hash(m) == host_hash(h.model));
  grpo_model_free(m);
  OK(h.c, grpo_tokenizer_load(h.c, "org/tiny", &t));
  OK(h.c, grpo_tokenizer_size(t, &n));
  CHECK(n == 10);
  grpo_tokenizer_free(t);

  float v[16] = {1};
  OK(h.c, grpo_model_parameter_set(h.reference, "model.norm.weight", v, 16));
  OK(h.c, grpo_model_save(h.reference, add_snapshot(cache, "org--tiny", 1, "v2"), "f32"));
  OK(h.c, grpo_model_load(h.c, "org/tiny@v2", NULL, &m));
  CHECK(host_hash(m) == host_hash(h.reference) && host_hash(m) != host_hash(h.model));
  grpo_model_free(m);
  OK(h.c, grpo_model_load(h.c, test_path("org/tiny@%s", commits[0]), NULL, &m));
  CHECK(host_hash(m) == host_hash(h.model));
  grpo_model_free(m);
  host_close(&h);
}

TEST(an_adapter_is_loaded_by_its_name_with_its_base) {
  Host h;
  grpo_model *m = NULL, *again = NULL;
  const char *cache = set_cache("adapters");
  host_open(&h, 1);
  OK(h.c, grpo_model_save(h.model, add_snapshot(cache, "org--base", 0, "main"), "f32"));
  OK(h.c, grpo_model_load(h.c, "org/base", NULL, &m));
  OK(h.c, grpo_model_add_lora(m, 2, 4, 0, "q_proj", 1));
  float v[32];
  for (int i = 0; i < 32; i++) v[i] = (float)i / 100;
  OK(h.c, grpo_model_parameter_set(m, "model.layers.0.self_attn.q_proj.lora_B.weight", v, 32));
  const char *adapter = add_snapshot(cache, "org--adapter", 1, "main");
  OK(h.c, grpo_model_save_adapter(m, adapter));
  OK(h.c, grpo_model_load(h.c, "org/adapter", NULL, &again));
  CHECK(host_hash(again) == host_hash(m));
  grpo_model_free(again);
  OK(h.c, grpo_model_load(h.c, "org/base", NULL, &again));
  OK(h.c, grpo_model_load_adapter(again, "org/adapter"));
  CHECK(host_hash(again) == host_hash(m));
  grpo_model_free(again);
  grpo_model_free(m);
  host_close(&h);
}

TEST(a_name_that_the_cache_does_not_have_is_refused_with_the_command) {
  Host h;
  grpo_model *m = NULL;
  grpo_tokenizer *t = NULL;
  grpo_reward_model *r = NULL;
  const char *cache = set_cache("none");
  host_open(&h, 1);
  REFUSED(h.c, GRPO_ENOENT, "'grpo pull org/none' brings it",
          grpo_model_load(h.c, "org/none", NULL, &m));
  REFUSED(h.c, GRPO_ENOENT, "'grpo pull org/none@v2' brings it",
          grpo_tokenizer_load(h.c, "org/none@v2", &t));
  REFUSED(h.c, GRPO_ENOENT, "'grpo pull org/none' brings it",
          grpo_reward_model_load(h.c, "org/none", NULL, &r));
  REFUSED(h.c, GRPO_ENOENT, "'grpo pull org/none' brings it",
          grpo_model_load_adapter(h.model, "org/none"));
  add_snapshot(cache, "org--half", 0, "main");
  REFUSED(h.c, GRPO_ENOENT, "does not have config.json",
          grpo_model_load(h.c, "org/half", NULL, &m));
  host_close(&h);
}

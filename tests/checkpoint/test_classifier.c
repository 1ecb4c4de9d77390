/* Checkpoints with a sequence-classification head: tests/cases/classifier, which
 * tests/oracles/classifiers.py wrote with transformers. */
#include <stdlib.h>

#include "base/pool.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "formats/json.h"
#include "status.h"
#include "testing.h"

enum { CASES = 14, MOST = 64, LABELS = 3 };

typedef struct Row {
  int32_t ids[MOST];
  Sequence s;
  double logits[LABELS];
} Row;

static int numbers(const Json *list, double *out, int most) {
  int n = 0;
  for (const Json *j = json_child(list); j && n < most; j = json_next(j)) out[n++] = json_number(j);
  return n;
}

/* The rows of one family. */
static int read_rows(const char *family, int labels, Row *rows) {
  FILE *f = fopen("tests/cases/classifier/logits.jsonl", "r");
  char line[4096];
  int n = 0;
  CHECK(f != NULL);
  while (f && fgets(line, sizeof line, f)) {
    Json *j = NULL;
    double ids[MOST];
    OK(json_parse(line, strlen(line), "logits", &j));
    if (!strcmp(json_string(json_get(j, "model")), family) && n < CASES) {
      Row *r = &rows[n++];
      r->s = (Sequence){r->ids, numbers(json_get(j, "ids"), ids, MOST)};
      for (int i = 0; i < r->s.len; i++) r->ids[i] = (int32_t)ids[i];
      CHECK(numbers(json_get(j, "logits"), r->logits, LABELS) == labels);
    }
    json_free(j);
  }
  if (f) fclose(f);
  CHECK(n == CASES);
  return n;
}

static Classifier *load(const char *family, Pool *pool, Storage storage) {
  Classifier *c = NULL;
  OK(weights_load_classifier(&c, pool, test_path("tests/cases/classifier/%s", family), storage,
                             COMPUTE_F32));
  return c;
}

/* All sequences at once, whose neighbours share beginnings, and each alone: the same bits, and
 * those of transformers. */
static void check_family(const char *family, int labels, Pool *pool) {
  static Row rows[CASES];
  Sequence s[CASES];
  real all[CASES * LABELS], alone[LABELS];
  Classifier *c = load(family, pool, STORE_F32);
  const int n = read_rows(family, labels, rows);
  if (!c) return;
  CHECK(c->labels == labels);
  for (int i = 0; i < n; i++) s[i] = rows[i].s;
  OK(classifier_logits(c, n, s, all));
  for (int i = 0; i < n; i++) {
    OK(classifier_logits(c, 1, &s[i], alone));
    CHECK(!memcmp(alone, all + i * labels, (size_t)labels * sizeof *alone));
    for (int k = 0; k < labels; k++) CHECK_NEAR(alone[k], rows[i].logits[k], 1e-5);
  }
  OK(classifier_logits(c, 3, &s[10], all)); /* one group with a common beginning */
  for (int i = 0; i < 3 * labels; i++)
    CHECK_NEAR(all[i], rows[10 + i / labels].logits[i % labels], 1e-5);
  classifier_free(c);
}

TEST(logits_are_those_of_transformers) {
  Pool *pool;
  REQUIRE(pool_new(&pool, 2));
  check_family("llama", 1, pool);
  check_family("qwen2", 3, pool);
  check_family("gemma2", 2, NULL);
  pool_free(pool);
}

TEST(a_quantised_trunk_stays_close) {
  static const Storage how[] = {STORE_AUTO, STORE_BF16, STORE_INT8, STORE_NF4};
  static Row rows[CASES];
  const int n = read_rows("qwen2", 3, rows);
  for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
    Classifier *c = load("qwen2", NULL, how[k]);
    double worst = 0;
    for (int i = 0; c && i < n; i++) {
      real logits[LABELS];
      OK(classifier_logits(c, 1, &rows[i].s, logits));
      for (int j = 0; j < LABELS; j++)
        worst = fmax(worst, fabs((double)logits[j] - rows[i].logits[j]));
    }
    CHECK(worst < (k < 2 ? 1e-5 : k == 2 ? 0.2 : 4)); /* bf16 is how the file has it */
    classifier_free(c);
  }
}

TEST(wrong_sequences_are_refused) {
  Classifier *c = load("llama", NULL, STORE_F32);
  int32_t ids[65] = {0};
  real logits[1];
  if (!c) return;
  REFUSED(classifier_logits(c, 1, &(Sequence){ids, 65}, logits), GRPO_EARG,
          "text 1 has 65 tokens, but the classifier's context is 64");
  OK(classifier_logits(c, 1, &(Sequence){ids, 64}, logits));
  ids[1] = 40;
  REFUSED(classifier_logits(c, 1, &(Sequence){ids, 2}, logits), GRPO_EARG, "id 40");
  classifier_free(c);
}

TEST(a_classifier_is_not_taken_for_a_language_model_nor_the_reverse) {
  Model *m = NULL;
  Classifier *c = NULL;
  const char *names[] = {"llama", "qwen2", "gemma2"};
  for (int i = 0; i < 3; i++) {
    const char *path = test_path("tests/cases/classifier/%s", names[i]);
    REFUSED(weights_load(&m, NULL, path, STORE_F32), GRPO_EFORMAT,
            "is a classifier or a reward model");
  }
  /* The other way round, with a tied and an own output projection. */
  for (int own = 0; own < 2; own++) {
    const char *dir = test_path("%s/lm%d", test_tmp(), own);
    Config config;
    OK(weights_config(&config, test_path("tests/cases/classifier/llama")));
    config.tie_word_embeddings = !own;
    REQUIRE(model_new(&m, NULL, &config, 1));
    OK(save_model(m, dir, WEIGHT_F32, 0));
    model_release(m);
    m = NULL;
    REFUSED(weights_load_classifier(&c, NULL, dir, STORE_F32, COMPUTE_F32), GRPO_EFORMAT,
            "it has no 'score.weight', so it is neither a classifier nor a reward model");
    CHECK(!c);
  }
}

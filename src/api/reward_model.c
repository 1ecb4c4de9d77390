/* reward_model.c - reward models: logits of texts. */
#include <string.h>

#include "api/model_make.h"
#include "base/mem.h"
#include "checkpoint/weights.h"
#include "model/classifier.h"
#include "text/tokenizer_files.h"

struct grpo_reward_model {
  HANDLE_FIELDS;
  Classifier *classifier;
  Tokenizer *tok; /* NULL: none lies beside the weights */
};

/* ---- handles ---------------------------------------------------------------------- */

static void destroy(grpo_reward_model *r) {
  classifier_free(r->classifier);
  tokenizer_free(r->tok);
  mem_free(r);
}

void grpo_reward_model_free(grpo_reward_model *r) {
  if (!r || free_refused(r->c, __func__)) return;
  grpo_context *c = r->c;
  destroy(r);
  context_release(c);
}

static Status fill(grpo_reward_model *r, Pool *pool, const char *place,
                   const ModelSettings *settings) {
  try(weights_load_classifier(&r->classifier, pool, place, settings->storage, settings->compute));
  return tokenizer_is_in(place) ? tokenizer_load(&r->tok, place) : GRPO_OK;
}

static Status load_at(grpo_context *c, const char *place, const ModelSettings *settings,
                      grpo_reward_model **out) {
  Pool *pool;
  try(context_pool(c, &pool));
  grpo_reward_model *r = mem_zalloc(sizeof *r);
  if (!r) return fail(GRPO_ENOMEM, "reward model");
  const Status s = fill(r, pool, place, settings);
  if (s != GRPO_OK) {
    destroy(r);
    return s;
  }
  r->c = context_retain(c);
  *out = r;
  return GRPO_OK;
}

static Status load(grpo_context *c, const char *path, const grpo_model_options *o,
                   grpo_reward_model **out) {
  ModelSettings settings;
  Buf place = {0};
  try(need(path, "path"));
  try(need(out, "out"));
  try(model_settings_take(o, &settings));
  Status s = model_directory(path, &place);
  if (s == GRPO_OK) s = load_at(c, place.data, &settings, out);
  buf_free(&place);
  return s;
}

grpo_status grpo_reward_model_load(grpo_context *c, const char *path, const grpo_model_options *o,
                                   grpo_reward_model **out) {
  in_call(call_begin, c, load(c, path, o, out));
}

static Status labels(const grpo_reward_model *r, int32_t *out) {
  try(need(out, "labels"));
  *out = r->classifier->labels;
  return GRPO_OK;
}

grpo_status grpo_reward_model_labels(grpo_reward_model *r, int32_t *out) {
  in_call(call_begin, r ? r->c : NULL, labels(r, out));
}

/* ---- scores ----------------------------------------------------------------------- */

static Status check_ids(const Config *c, size_t number, const int32_t *ids, size_t n) {
  try(need(ids, "ids"));
  if (n < 1 || n > (size_t)c->max_position_embeddings)
    return fail(GRPO_EARG, "texts[%zu]: got %zu ids, want 1 to %d", number, n,
                c->max_position_embeddings);
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= c->vocab_size)
      return fail(GRPO_EARG, "texts[%zu]: id %d is outside the vocabulary of %d", number,
                  (int)ids[i], c->vocab_size);
  return GRPO_OK;
}

/* sequence [count] is scratch memory. */
static Status score_sequences(grpo_reward_model *r, const grpo_prompt *texts, size_t count,
                              Sequence *sequence, float *logits) {
  for (size_t i = 0; i < count; i++) {
    try(check_ids(model_config(r->classifier->trunk), i, texts[i].ids, texts[i].length));
    sequence[i] = (Sequence){texts[i].ids, (int)texts[i].length};
  }
  return classifier_logits(r->classifier, (int)count, sequence, logits);
}

static Status check_room(const grpo_reward_model *r, const void *texts, size_t count,
                         const float *logits, size_t capacity) {
  try(need(texts, "texts"));
  try(need(logits, "logits"));
  if (count > INT32_MAX) return fail(GRPO_EARG, "texts: %zu are too many", count);
  const size_t want = count * (size_t)r->classifier->labels;
  if (capacity >= want) return GRPO_OK;
  return fail(GRPO_ELIMIT, "logits: it has room for %zu numbers, want %zu", capacity, want);
}

static Status score_ids(grpo_reward_model *r, const grpo_prompt *texts, size_t count, float *logits,
                        size_t capacity) {
  if (!count) return GRPO_OK;
  try(check_room(r, texts, count, logits, capacity));
  Sequence *sequence = mem_zalloc(count * sizeof *sequence);
  if (!sequence) return fail(GRPO_ENOMEM, "reward model: %zu texts", count);
  const Status s = score_sequences(r, texts, count, sequence, logits);
  mem_free(sequence);
  return s;
}

grpo_status grpo_reward_model_score_ids(grpo_reward_model *r, const grpo_prompt *texts,
                                        size_t count, float *logits, size_t capacity) {
  in_call(call_begin, r ? r->c : NULL, score_ids(r, texts, count, logits, capacity));
}

/* The ids of all texts in *ids; prompt [count] points into it. */
static Status encode(const grpo_reward_model *r, const char *const *texts, size_t count,
                     IntBuf *ids, grpo_prompt *prompt) {
  for (size_t i = 0; i < count; i++) {
    const size_t before = ids->len;
    try(need(texts[i], "texts[]"));
    try(tokenizer_encode(r->tok, texts[i], strlen(texts[i]), TOK_ADD_SPECIAL, ids));
    try(intbuf_status(ids));
    prompt[i].length = ids->len - before;
  }
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    prompt[i].ids = ids->data + at;
    at += prompt[i].length;
  }
  return GRPO_OK;
}

static Status score(grpo_reward_model *r, const char *const *texts, size_t count, float *logits,
                    size_t capacity) {
  IntBuf ids = {0};
  if (!count) return GRPO_OK;
  if (!r->tok)
    return fail(GRPO_EARG, "reward model: no tokenizer lies beside its weights; score token ids "
                           "with grpo_reward_model_score_ids");
  try(check_room(r, texts, count, logits, capacity));
  grpo_prompt *prompt = mem_zalloc(count * sizeof *prompt);
  if (!prompt) return fail(GRPO_ENOMEM, "reward model: %zu texts", count);
  Status s = encode(r, texts, count, &ids, prompt);
  if (s == GRPO_OK) s = score_ids(r, prompt, count, logits, capacity);
  intbuf_free(&ids);
  mem_free(prompt);
  return s;
}

grpo_status grpo_reward_model_score(grpo_reward_model *r, const char *const *texts, size_t count,
                                    float *logits, size_t capacity) {
  in_call(call_begin, r ? r->c : NULL, score(r, texts, count, logits, capacity));
}

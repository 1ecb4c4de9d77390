/* host.h - shared by the tests of libgrpo: a tiny model, and checks that show the message. */
#ifndef GRPO_TESTS_API_HOST_H
#define GRPO_TESTS_API_HOST_H

#include <grpo.h>
#include <stdlib.h>

#include "testing.h"

/* The call succeeds. */
#define OK(c, call)                                                                                \
  do {                                                                                             \
    grpo_status s_ = (call);                                                                       \
    if (s_ != GRPO_OK)                                                                             \
      test_fail(__FILE__, __LINE__, "%s: %s: %s", #call, grpo_status_name(s_), grpo_message(c));   \
  } while (0)
/* The call fails with this status, and its message contains `part`. */
#define REFUSED(c, status, part, call)                                                             \
  do {                                                                                             \
    grpo_status s_ = (call);                                                                       \
    if (s_ != (status) || !strstr(grpo_message(c), part))                                          \
      test_fail(__FILE__, __LINE__, "%s: %s: %s", #call, grpo_status_name(s_), grpo_message(c));   \
  } while (0)

static const char tiny_config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"max_position_embeddings\": 32, \"initializer_range\": 0.2, \"tie_word_embeddings\": true}";

typedef struct Host {
  grpo_context *c;
  grpo_tokenizer *tok;
  grpo_model *model, *reference;
  grpo_trainer *trainer;
} Host;

enum { HOST_PROMPTS = 2, HOST_GROUP = 4, HOST_NEW = 6 };

static inline void host_open(Host *h, int threads) {
  grpo_context_options co;
  grpo_trainer_options o;
  *h = (Host){0};
  OK(NULL, grpo_context_options_init(&co, sizeof co));
  co.threads = threads;
  OK(NULL, grpo_context_new(&co, &h->c));
  OK(h->c, grpo_tokenizer_chars(h->c, "abcdefgh", 8, &h->tok));
  OK(h->c, grpo_model_new(h->c, tiny_config, h->tok, NULL, &h->model));
  OK(h->c, grpo_model_clone(h->model, &h->reference));
  OK(h->c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS;
  o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8;
  o.max_new_tokens = HOST_NEW;
  OK(h->c, grpo_trainer_new(h->model, h->reference, h->tok, &o, &h->trainer));
}

static inline void host_close(Host *h) {
  grpo_context_free(h->c); /* handles may be freed in any order */
  grpo_model_free(h->model);
  grpo_tokenizer_free(h->tok);
  grpo_trainer_free(h->trainer);
  grpo_model_free(h->reference);
}

static inline grpo_status host_reward(void *user, const grpo_sample *s, double *reward) {
  (void)user;
  *reward = 0;
  for (size_t i = 0; i < s->text_length; i++) *reward += s->text[i] == "ab"[s->prompt];
  return GRPO_OK;
}

static inline void host_rollout(Host *h, uint32_t step) {
  static const int32_t a[] = {0, 1, 2}, b[] = {1};
  const grpo_prompt prompts[HOST_PROMPTS] = {{a, 3, 2 * step, 0}, {b, 1, 2 * step + 1, 0}};
  grpo_sampling s;
  OK(h->c, grpo_sampling_init(&s, sizeof s));
  s.seed = 7;
  s.step = step;
  OK(h->c, grpo_trainer_rollout(h->trainer, prompts, HOST_PROMPTS, &s));
}

/* Makes one step and returns the norm of the gradient. */
static inline double host_step(Host *h, uint32_t step) {
  grpo_loss_options loss;
  grpo_update_options u;
  const grpo_metrics *m = NULL;
  host_rollout(h, step);
  OK(h->c, grpo_trainer_score(h->trainer, host_reward, NULL));
  OK(h->c, grpo_trainer_advantages(h->trainer, NULL, NULL, 0));
  OK(h->c, grpo_trainer_reference(h->trainer));
  OK(h->c, grpo_loss_options_init(&loss, sizeof loss));
  OK(h->c, grpo_update_options_init(&u, sizeof u));
  loss.kl = 0.02;
  u.loss = &loss;
  u.lr = 1e-2;
  OK(h->c, grpo_trainer_update(h->trainer, &u, &m));
  return grpo_metric_get(m, "grad_norm");
}

/* Returns a number that depends on every bit of the weights. */
static inline uint64_t host_hash(grpo_model *m) {
  uint64_t hash = 1469598103934665603u;
  int32_t n = 0;
  grpo_model_parameter_count(m, &n);
  for (int32_t i = 0; i < n; i++) {
    const char *name;
    size_t count;
    grpo_model_parameter_at(m, i, &name, &count);
    float *v = malloc(count * sizeof *v);
    grpo_model_parameter_get(m, name, v, count);
    for (size_t k = 0; k < count * sizeof *v; k++)
      hash = (hash ^ ((unsigned char *)v)[k]) * 1099511628211u;
    free(v);
  }
  return hash;
}

#endif

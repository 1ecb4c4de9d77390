/* A batch of texts that were not sampled here is the batch of a rollout with these ids. */
#include <stdlib.h>

#include "model/model_copy.h"
#include "rl/given.h"
#include "rl/reference.h"
#include "tiny.h"

enum { TEXTS = 64 };

/* A copy of what a batch holds, which the next batch of its engine overwrites. */
typedef struct Copy {
  int n, prompts, group;
  Prompt prompt[TEXTS];
  GivenText text[TEXTS];
  int32_t prompt_ids[TEXTS][TINY_PROMPT], ids[TEXTS][TINY_NEW];
  float logp[TEXTS][TINY_NEW], entropy[TEXTS][TINY_NEW];
} Copy;

static void copy_batch(const Batch *b, Copy *c) {
  *c = (Copy){.n = batch_size(b), .prompts = b->nprompts, .group = b->group};
  for (int i = 0; i < c->prompts; i++) {
    int len;
    const int32_t *ids = batch_prompt(b, i, &len);
    memcpy(c->prompt_ids[i], ids, (size_t)len * sizeof *ids);
    c->prompt[i] = (Prompt){.ids = c->prompt_ids[i], .len = len};
  }
  for (int i = 0; i < c->n; i++) {
    const Completion *from = &b->completion[i];
    memcpy(c->ids[i], from->ids, (size_t)from->len * sizeof *from->ids);
    memcpy(c->logp[i], from->logp, (size_t)from->len * sizeof *from->logp);
    memcpy(c->entropy[i], from->entropy, (size_t)from->len * sizeof *from->entropy);
    c->text[i] = (GivenText){.ids = c->ids[i], .len = from->len, .finish = from->finish};
  }
}

static Batch *give(Tiny *t, const Copy *c, const float *logp) {
  const GivenOptions o = {.group = c->group, .temperature = 1, .logp = logp};
  OK(engine_batch_given(t->engine, BATCH_SAMPLE, c->prompts, c->prompt, c->text, &o));
  return engine_batch(t->engine, BATCH_SAMPLE);
}

static bool same_rows(const Batch *b, const Copy *c) {
  bool same = batch_size(b) == c->n && b->nprompts == c->prompts;
  for (int i = 0; same && i < c->n; i++) {
    const Completion *o = &b->completion[i];
    const size_t bytes = (size_t)c->text[i].len * sizeof *o->logp;
    same = o->len == c->text[i].len && o->finish == c->text[i].finish &&
           !memcmp(o->ids, c->ids[i], bytes) && !memcmp(o->logp, c->logp[i], bytes) &&
           !memcmp(o->entropy, c->entropy[i], bytes);
  }
  return same;
}

TEST_BOTH(the_same_ids_have_the_bits_of_sampling) {
  static Copy c;
  Tiny t;
  tiny_open(&t, 2, NULL);
  copy_batch(tiny_rollout(&t, 1), &c);
  CHECK(same_rows(give(&t, &c, NULL), &c));
  tiny_close(&t);
}

/* given 0: a rollout; 1: its texts; 2: its texts with their log-probabilities. */
static void update(int given, double kl, Model **weights) {
  static Copy c;
  double adv[TEXTS];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  tiny_open(&t, 1, NULL);
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-3, o.iterations = 2;
  o.loss.max_new_tokens = TINY_NEW, o.loss.kl = kl;
  Batch *b = tiny_rollout(&t, 1);
  copy_batch(b, &c);
  CHECK(c.logp[0] + TINY_NEW == c.logp[1]); /* the width of an engine's rows */
  if (given) b = give(&t, &c, given == 2 ? c.logp[0] : NULL);
  if (kl != 0) OK(engine_reference(t.engine, b));
  tiny_advantages(b, adv);
  o.advantage = adv;
  OK(engine_update(t.engine, b, &o, &m));
  CHECK(!model_copy(weights, t.model));
  tiny_close(&t);
}

TEST_BOTH(an_update_on_given_texts_has_the_bits_of_one_on_samples) {
  for (int kl = 0; kl < 2; kl++) {
    Model *sampled, *given;
    update(0, 0.1 * kl, &sampled);
    for (int how = 1; how < 3; how++) {
      update(how, 0.1 * kl, &given);
      CHECK(same_weights(sampled, given));
      model_release(given);
    }
    model_release(sampled);
  }
}

TEST(texts_that_do_not_fit_are_refused_and_leave_no_batch) {
  static Copy c;
  static const GivenOptions o = {.group = 1, .temperature = 1};
  const int32_t wrong[] = {1, 1 << 20};
  Tiny t;
  tiny_open(&t, 1, NULL);
  Batch *b = tiny_rollout(&t, 1);
  copy_batch(b, &c);
  GivenText text = {.ids = c.ids[0], .len = 0};
  REFUSED(engine_batch_given(t.engine, BATCH_SAMPLE, 1, c.prompt, &text, &o), GRPO_EARG,
          "text 1 has 0 tokens");
  text.len = TINY_NEW + 1;
  REFUSED(engine_batch_given(t.engine, BATCH_SAMPLE, 1, c.prompt, &text, &o), GRPO_EARG,
          "want 1 to");
  text = (GivenText){.ids = wrong, .len = 2};
  REFUSED(engine_batch_given(t.engine, BATCH_SAMPLE, 1, c.prompt, &text, &o), GRPO_EARG,
          "outside the vocabulary");
  text = (GivenText){.ids = c.ids[0], .len = 2, .sampled = (const uint8_t[]){1, 0}};
  REFUSED(engine_batch_given(t.engine, BATCH_SAMPLE, 1, c.prompt, &text, &o), GRPO_EARG,
          "without turns");
  CHECK(batch_size(b) == 0);
  tiny_close(&t);
}

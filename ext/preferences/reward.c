#include "preferences/reward.h"

#include <stdint.h>

#include "grad/attrs.h"
#include "model/classifier.h"
#include "model/model_struct.h"
#include "rl/engine_impl.h"

typedef struct Texts {
  Engine *e;
  const Example *text; /* pair after pair */
} Texts;

static Status check(Engine *e, int n, const Example *texts) {
  const int context = model_config(e->policy)->max_position_embeddings;
  try(engine_check_policy(e));
  if (!e->policy->t[M_SCORE]) return fail(GRPO_EARG, "reward: the model has no head for rewards");
  if (n < 2 || n % 2) return fail(GRPO_EARG, "reward: %d texts, want pairs", n);
  for (int i = 0; i < n; i++) {
    if (texts[i].prompt_len < 1 || texts[i].target_len < 1)
      return fail(GRPO_EARG, "reward: text %d or its prompt is empty", i + 1);
    if ((int64_t)texts[i].prompt_len + texts[i].target_len > context)
      return fail(GRPO_EARG, "reward: text %d has %d tokens, but the model's context is %d", i + 1,
                  texts[i].prompt_len + texts[i].target_len, context);
  }
  return GRPO_OK;
}

/* A unit is as many consecutive pairs as fit SFT_UNIT_ROWS rows; its outputs are rewards. */
static int cut(int n, const Example *x, Unit *out) {
  int nunits = 0;
  Unit u = {0};
  for (int i = 0; i < n; i += 2) {
    const int rows = x[i].prompt_len + x[i].target_len + x[i + 1].target_len;
    if (u.n && u.rows + rows > SFT_UNIT_ROWS) {
      out[nunits++] = u;
      u = (Unit){.first = i, .token0 = i};
    }
    u.n += 2;
    u.rows += rows;
    u.tokens += 2;
  }
  out[nunits++] = u;
  return nunits;
}

static Status pack(void *user, Arena *a, const Unit *u, Pack *out) {
  const Texts *x = user;
  PackGroup *g = arena_alloc(a, (size_t)u->n * sizeof *g);
  const int32_t **ids = arena_alloc(a, (size_t)u->n * sizeof *ids);
  int *len = arena_alloc(a, (size_t)u->n * sizeof *len);
  if (!g || !ids || !len) return fail(GRPO_ENOMEM, "reward: no memory for packed texts");
  for (int i = 0; i < u->n; i++) {
    const Example *text = &x->text[u->first + i];
    ids[i] = text->target;
    len[i] = text->target_len;
    if (i % 2 == 0)
      g[i / 2] = (PackGroup){.prompt = text->prompt,
                             .prompt_len = text->prompt_len,
                             .n = 2,
                             .completion = ids + i,
                             .completion_len = len + i,
                             .end_below = INT32_MAX};
  }
  return pack_groups(a, model_config(x->e->policy), u->n / 2, g, out);
}

/* The pack has a value before each token of a text and after the last; the head reads the one after
 * the last token that does not pad. */
static Status outputs(void *user, Tape *t, const Unit *u, const Pack *p, Tensor *hidden,
                      Tensor **out) {
  const Texts *x = user;
  const Config *c = model_config(x->e->policy);
  int32_t *rows = arena_alloc(&t->arena, (size_t)u->n * sizeof *rows);
  ValueHeadAttr *a = arena_alloc(&t->arena, sizeof *a);
  if (!rows || !a) return fail(GRPO_ENOMEM, "reward: no memory for %d rewards", u->n);
  for (int i = 0, value = 0; i < u->n; i++) {
    const Example *text = &x->text[u->first + i];
    int len = text->target_len;
    while (len > 0 && text->target[len - 1] == c->pad_token_id) len--;
    rows[i] = p->value_rows[value + len];
    value += text->target_len + 1;
  }
  *a = (ValueHeadAttr){u->n, rows};
  return tape_apply(t, OP_value_head, (Tensor *[]){hidden, x->e->policy->t[M_SCORE]},
                    &(Attr){.p = a}, out);
}

static Status begin(Texts *x, int n, Likelihood *l) {
  Engine *e = x->e;
  try(check(e, n, x->text));
  arena_reset(&e->step);
  Unit *unit = arena_alloc(&e->step, (size_t)n * sizeof *unit);
  if (!unit) return fail(GRPO_ENOMEM, "reward: %d texts", n);
  *l = (Likelihood){.e = e,
                    .what = "reward",
                    .unit = unit,
                    .nunits = cut(n, x->text, unit),
                    .pack = pack,
                    .user = x,
                    .outputs = outputs};
  return GRPO_OK;
}

Status engine_rewards(Engine *e, int n, const Example *texts, real *reward) {
  Texts x = {e, texts};
  Likelihood l;
  try(begin(&x, n, &l));
  return likelihood_outputs(&l, reward);
}

Status engine_reward_step(Engine *e, int n, const Example *texts, const double *slope,
                          const SftOptions *o, StepMetrics *out) {
  Texts x = {e, texts};
  Likelihood l;
  int64_t tokens = 0;
  try(begin(&x, n, &l));
  l.slope = slope;
  try(likelihood_step(&l, o, out));
  for (int i = 0; i < n; i++) tokens += texts[i].prompt_len + texts[i].target_len;
  e->update_tokens += (uint64_t)(tokens - l.tokens); /* it has counted the rewards */
  out->num_tokens = out->trained_tokens = (double)tokens;
  return GRPO_OK;
}

/* sft.c - maximum likelihood on demonstrations, and the likelihood alone. */
#include "rl/sft.h"

#include "rl/engine_impl.h"

static Status check_examples(const Engine *e, int n, const Example *examples) {
  const int context = model_config(e->policy)->max_position_embeddings;
  if (n < 1) return fail(GRPO_EARG, "sft: no examples");
  for (int i = 0; i < n; i++) {
    const Example *x = &examples[i];
    if (x->target_len < (x->prompt_len ? 1 : 2))
      return fail(GRPO_EARG, "sft: example %d has no target token", i + 1);
    if ((int64_t)x->prompt_len + x->target_len > context)
      return fail(
          GRPO_EARG,
          "sft: example %d has %d prompt and %d target tokens, but the model's context is %d; "
          "shorten or drop it",
          i + 1, x->prompt_len, x->target_len, context);
  }
  return GRPO_OK;
}

/* Examples in the order of the step. */
typedef struct Examples {
  const Config *config;
  const Example *first;
} Examples;

static Status pack(void *user, Arena *a, const Unit *u, Pack *out) {
  const Examples *x = user;
  return unit_pack_examples(a, x->config, x->first, u, out);
}

static bool has_masks(int n, const Example *examples) {
  for (int i = 0; i < n; i++)
    if (examples[i].mask) return true;
  return false;
}

/* Makes one mask of all outputs.  A target without a prompt has one output less than it has
 * tokens. */
static Status take_masks(Engine *e, int n, const Example *examples, Likelihood *l) {
  const Unit *last = &l->unit[l->nunits - 1];
  if (!has_masks(n, examples)) return GRPO_OK;
  uint8_t *mask = arena_alloc(&e->step, (size_t)last->token0 + (size_t)last->tokens);
  if (!mask) return fail(GRPO_ENOMEM, "sft: masks of %d examples", n);
  l->mask = mask;
  for (int i = 0; i < n; i++)
    for (int t = examples[i].prompt_len ? 0 : 1; t < examples[i].target_len; t++)
      *mask++ = !examples[i].mask || examples[i].mask[t];
  return GRPO_OK;
}

static Status begin(Engine *e, int n, Examples *x, Likelihood *l) {
  try(engine_check_policy(e));
  try(check_examples(e, n, x->first));
  arena_reset(&e->step);
  Unit *unit = arena_alloc(&e->step, (size_t)n * sizeof *unit);
  if (!unit) return fail(GRPO_ENOMEM, "sft: %d examples", n);
  *l = (Likelihood){.e = e,
                    .what = "sft",
                    .unit = unit,
                    .nunits = units_of_examples(n, x->first, unit),
                    .pack = pack,
                    .user = x};
  return take_masks(e, n, x->first, l);
}

Status engine_sft(Engine *e, int n, const Example *examples, const SftOptions *o,
                  StepMetrics *out) {
  Examples x = {model_config(e->policy), examples};
  Likelihood l;
  try(begin(e, n, &x, &l));
  return likelihood_step(&l, o, out);
}

Status engine_nll(Engine *e, int n, const Example *examples, double *mean, int64_t *tokens) {
  Examples x = {model_config(e->policy), examples};
  Likelihood l;
  try(begin(e, n, &x, &l));
  try(likelihood_sum(&l));
  *tokens = l.tokens;
  *mean = l.nll / (double)l.tokens;
  return GRPO_OK;
}

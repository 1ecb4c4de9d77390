#include "denoise/corrupt.h"

#include <string.h>

#include "base/rng.h"

enum { ALL_ROWS = -1 }; /* the row whose random numbers are the step's */

static Status check_mask(const Config *c, const MaskOptions *o) {
  const int vocab = o->vocab ? o->vocab : c->vocab_size;
  if (o->mask_id < 0 || o->mask_id >= c->vocab_size)
    return fail(GRPO_EARG, "denoise: mask token %d is outside the vocabulary of %d",
                (int)o->mask_id, c->vocab_size);
  if (!(o->low > 0 && o->low <= o->high && o->high <= 1))
    return fail(GRPO_EARG,
                "train.denoise.mask_ratio: %g to %g, want ratios above 0, up to 1, in order",
                o->low, o->high);
  if (!(o->random >= 0 && o->keep >= 0 && o->random + o->keep <= 1))
    return fail(GRPO_EARG,
                "train.denoise: random %g and keep %g are shares of the masked tokens, together at "
                "most 1",
                o->random, o->keep);
  if (vocab > c->vocab_size || vocab < 2)
    return fail(GRPO_EARG, "denoise: random tokens from %d of a vocabulary of %d", vocab,
                c->vocab_size);
  return GRPO_OK;
}

static Status check_texts(const Config *c, int n, const Example *x) {
  if (n < 1) return fail(GRPO_EARG, "denoise: no texts");
  int64_t tokens = 0;
  for (int i = 0; i < n; i++) {
    const int64_t len = (int64_t)x[i].prompt_len + x[i].target_len;
    if (x[i].target_len < 1)
      return fail(GRPO_EARG, "denoise: text %d has no token that may be masked", i + 1);
    if (len > c->max_position_embeddings)
      return fail(
          GRPO_EARG,
          "denoise: text %d has %lld tokens, but the model's context is %d; shorten or drop it",
          i + 1, (long long)len, c->max_position_embeddings);
    tokens += len;
  }
  return tokens < INT32_MAX / 4
             ? GRPO_OK
             : fail(GRPO_ELIMIT, "denoise: %lld tokens are too many", (long long)tokens);
}

static RngKey row_key(const MaskOptions *o, int row) {
  return (RngKey){.seed = o->seed,
                  .stream = RNG_MASK,
                  .step = (uint32_t)o->step,
                  .prompt = (uint32_t)row,
                  .sample = o->held_out};
}

/* The mask ratio of row i of n.  One uniform number serves all rows, shifted by 1 / n from row
 * to row, so that every step covers the whole range. */
static double row_ratio(const MaskOptions *o, int i, int n) {
  const RngKey key = row_key(o, ALL_ROWS);
  double u = rng_uniform(&key, 0) + (double)i / n;
  if (u >= 1) u -= 1;
  return o->low + (o->high - o->low) * u;
}

/* A token's random numbers: whether it is masked (`choice` below the ratio), how, and by what. */
typedef struct TokenRandom {
  double choice, manner;
  uint32_t token;
} TokenRandom;

static TokenRandom token_random(const RngKey *key, int position) {
  uint32_t r[4];
  rng_block(key, (uint64_t)position, r);
  return (TokenRandom){(double)(((uint64_t)r[1] << 32 | r[0]) >> 11) * 0x1p-53, r[2] * 0x1p-32,
                       r[3]};
}

/* Returns a random token that is not the mask. */
static int32_t random_token(const MaskOptions *o, const Config *c, uint32_t bits) {
  const int vocab = o->vocab ? o->vocab : c->vocab_size, others = vocab - (o->mask_id < vocab);
  const int32_t id = (int32_t)((uint64_t)bits * (uint64_t)others >> 32);
  return id + (id >= o->mask_id);
}

/* Hides token `row` of the corrupted text. */
static void hide(const MaskOptions *o, const Config *c, const TokenRandom *d, int row,
                 Corrupted *out) {
  out->rows[out->nout] = row;
  out->targets[out->nout++] = out->ids[row];
  if (d->manner < o->random)
    out->ids[row] = random_token(o, c, d->token);
  else if (d->manner >= o->random + o->keep)
    out->ids[row] = o->mask_id;
}

static void corrupt_row(const MaskOptions *o, const Config *c, int i, const Example *x,
                        Corrupted *out) {
  const RngKey key = row_key(o, o->first + i);
  const double ratio = row_ratio(o, i, out->n);
  const int start = out->at[i], before = out->nout;
  TokenRandom miss = {.choice = 2};
  int missed = 0;
  if (x->prompt_len) memcpy(out->ids + start, x->prompt, (size_t)x->prompt_len * sizeof *x->prompt);
  memcpy(out->ids + start + x->prompt_len, x->target, (size_t)x->target_len * sizeof *x->target);
  for (int t = x->prompt_len; t < x->prompt_len + x->target_len; t++) {
    const TokenRandom d = token_random(&key, t);
    if (d.choice < ratio) hide(o, c, &d, start + t, out);
    if (d.choice < miss.choice) miss = d, missed = start + t;
  }
  if (out->nout == before) hide(o, c, &miss, missed, out);
}

Status corrupt(Arena *a, const Config *c, int n, const Example *x, const MaskOptions *o,
               Corrupted *out) {
  try(check_texts(c, n, x));
  try(check_mask(c, o));
  int tokens = 0;
  for (int i = 0; i < n; i++) tokens += x[i].prompt_len + x[i].target_len;
  const size_t bytes = (size_t)tokens * sizeof(int32_t), ends = (size_t)(n + 1) * sizeof(int);
  *out = (Corrupted){.n = n,
                     .at = arena_alloc(a, ends),
                     .out_at = arena_alloc(a, ends),
                     .ids = arena_alloc(a, bytes),
                     .rows = arena_alloc(a, bytes),
                     .targets = arena_alloc(a, bytes)};
  if (!out->at || !out->out_at || !out->ids || !out->rows || !out->targets)
    return fail(GRPO_ENOMEM, "denoise: no memory for %d tokens", tokens);
  out->at[0] = out->out_at[0] = 0;
  for (int i = 0; i < n; i++) {
    corrupt_row(o, c, i, &x[i], out);
    out->at[i + 1] = out->at[i] + x[i].prompt_len + x[i].target_len;
    out->out_at[i + 1] = out->nout;
  }
  return GRPO_OK;
}

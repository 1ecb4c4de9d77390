#include "denoise/unmask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exponential.h"
#include "base/rng.h"
#include "base/trigonometry.h"
#include "denoise/masked.h"
#include "kern/logits.h"

enum { BATCH_ROWS = 1024 }; /* rows of a forward, unless one sequence has more */

void unmask_init(UnmaskOptions *o) {
  *o = (UnmaskOptions){.steps = 16};
  sampling_init(&o->sampling);
}

/* The token sampled for a mask. */
typedef struct Guess {
  int row; /* among all tokens of the batch */
  int32_t id;
  float logp;
  double score; /* the tokens with the highest scores stay */
} Guess;

/* The sequences that are filled in together. */
typedef struct Unmasking {
  Model *m;
  Tape *t;
  const UnmaskOptions *o;
  int first, n; /* the caller's sequences first .. first + n - 1 */
  const int *len;
  int32_t *ids; /* of the batch */
  float *logp;
  int *holes, *left; /* [n] numbers of masks, at first and now */
  int step;
  int32_t *rows; /* [masks] rows of masks; owner: their sequences */
  int *owner;
  Guess *guess;
  void *scratch;
} Unmasking;

/* ---- one forward --------------------------------------------------------------------- */

static double gumbel(const RngKey *key, int at) {
  return -math_log(-math_log(rng_uniform(key, (uint64_t)at) + 1e-300));
}

/* The score of the token for position `at` of sequence i. */
static double score_of(const Unmasking *b, int i, int at, double logp) {
  const UnmaskOptions *o = b->o;
  const RngKey key = {.seed = o->seed,
                      .stream = RNG_UNMASK,
                      .step = (uint32_t)b->step,
                      .prompt = (uint32_t)(b->first + i),
                      .sample = 1};
  if (o->order == UNMASK_LEFT) return -at;
  if (o->order == UNMASK_RANDOM) return rng_uniform(&key, (uint64_t)at);
  if (o->noise == 0) return logp;
  return logp + o->noise * (1 - (double)b->step / o->steps) * gumbel(&key, at);
}

static void forbid(const Unmasking *b, real *z) {
  const int all = model_config(b->m)->vocab_size, vocab = b->o->vocab ? b->o->vocab : all;
  z[b->o->mask_id] = (real)-1e30;
  for (int v = vocab; v < all; v++) z[v] = (real)-1e30;
}

static void guess_row(const Unmasking *b, int out, real *z) {
  const Sampling *s = &b->o->sampling;
  const int vocab = model_config(b->m)->vocab_size, i = b->owner[out];
  int at = b->rows[out];
  LogitsRow plain, warm;
  forbid(b, z);
  for (int k = 0; k < i; k++) at -= b->len[k];
  const RngKey key = {.seed = b->o->seed,
                      .stream = RNG_UNMASK,
                      .step = (uint32_t)b->step,
                      .prompt = (uint32_t)(b->first + i)};
  const real inv_temp = s->temperature > 0 ? (real)(1 / s->temperature) : 1;
  logits_row(b->t->cx.cpu, vocab, z, 1, &plain);
  logits_row(b->t->cx.cpu, vocab, z, inv_temp, &warm);
  const SamplerInput draw = {.sampling = s,
                             .cpu = b->t->cx.cpu,
                             .vocab = vocab,
                             .logits = z,
                             .inv_temp = inv_temp,
                             .max = warm.max,
                             .lse = warm.lse,
                             .uniform = rng_uniform(&key, (uint64_t)at)};
  Guess *g = &b->guess[out];
  *g = (Guess){.row = b->rows[out], .id = sampler_token(&draw, b->scratch, NULL)};
  g->logp = (float)logits_row_logp(&plain, z[g->id], 1);
  g->score = score_of(b, i, at, (double)g->logp);
}

static void guess_rows(void *user, int first, int n, real *logits) {
  const Unmasking *b = user;
  const size_t vocab = (size_t)model_config(b->m)->vocab_size;
  for (int k = 0; k < n; k++) guess_row(b, first + k, logits + (size_t)k * vocab);
}

static int by_score(const void *x, const void *y) {
  const Guess *a = x, *b = y;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->row < b->row ? -1 : 1;
}

/* Fills in the best guesses of each sequence. */
static void keep_best(Unmasking *b) {
  const double share = math_cos(math_acos(-1) / 2 * b->step / b->o->steps);
  for (int i = 0, at = 0, n; i < b->n; i++, at += n) {
    n = b->left[i];
    if (!n) continue;
    int stays_masked = b->step < b->o->steps ? (int)(share * b->holes[i]) : 0;
    if (stays_masked > n - 1) stays_masked = n - 1;
    qsort(b->guess + at, (size_t)n, sizeof *b->guess, by_score);
    for (int k = 0; k < n - stays_masked; k++) {
      const Guess *g = &b->guess[at + k];
      b->ids[g->row] = g->id;
      if (b->logp) b->logp[g->row] = g->logp;
    }
    b->left[i] = stays_masked;
  }
}

/* Lists where masks are now and returns their number. */
static int find_masks(Unmasking *b) {
  int n = 0;
  for (int i = 0, row = 0; i < b->n; i++) {
    b->left[i] = 0;
    for (int end = row + b->len[i]; row < end; row++) {
      if (b->ids[row] != b->o->mask_id) continue;
      b->rows[n] = row;
      b->owner[n++] = i;
      b->left[i]++;
    }
  }
  return n;
}

static Status one_forward(Unmasking *b, int masks) {
  Arena *a = &b->t->arena;
  const ArenaMark mark = arena_mark(a);
  MaskedSequence *seq = arena_alloc(a, (size_t)b->n * sizeof *seq);
  Pack p;
  if (!seq) return fail(GRPO_ENOMEM, "unmask: no memory for %d sequences", b->n);
  for (int i = 0, at = 0; i < b->n; at += b->len[i++])
    seq[i] = (MaskedSequence){b->ids + at, b->len[i]};
  try(masked_pack(a, model_config(b->m), b->n, seq, masks, b->rows, NULL, &p));
  try(masked_logits(b->m, b->t, &p, guess_rows, b));
  keep_best(b);
  arena_release(a, mark);
  return GRPO_OK;
}

/* ---- sequences ----------------------------------------------------------------------- */

static Status take(Unmasking *b, int rows) {
  Arena *a = &b->t->arena;
  const size_t n = (size_t)rows;
  b->holes = arena_alloc(a, (size_t)b->n * sizeof *b->holes);
  b->left = arena_alloc(a, (size_t)b->n * sizeof *b->left);
  b->rows = arena_alloc(a, n * sizeof *b->rows);
  b->owner = arena_alloc(a, n * sizeof *b->owner);
  b->guess = arena_alloc(a, n * sizeof *b->guess);
  b->scratch = arena_alloc(a, sampler_scratch_bytes(model_config(b->m)->vocab_size));
  const bool ok = b->holes && b->left && b->rows && b->owner && b->guess && b->scratch;
  return ok ? GRPO_OK : fail(GRPO_ENOMEM, "unmask: no memory for %d tokens", rows);
}

static Status fill_batch(Unmasking *b, int rows) {
  tape_reset(b->t);
  try(take(b, rows));
  int masks = find_masks(b);
  memcpy(b->holes, b->left, (size_t)b->n * sizeof *b->holes);
  for (b->step = 1; masks; b->step++, masks = find_masks(b)) {
    if (b->o->cancel && *b->o->cancel) return fail(GRPO_ELIMIT, "unmask: interrupted");
    try(one_forward(b, masks));
  }
  return GRPO_OK;
}

static Status check(const Model *m, const UnmaskOptions *o) {
  const int all = model_config(m)->vocab_size;
  try(sampling_check(&o->sampling));
  if (o->steps < 1) return fail(GRPO_EARG, "unmask: steps = %d must be at least 1", o->steps);
  if (!(o->noise >= 0) || isinf(o->noise))
    return fail(GRPO_EARG, "unmask: noise = %g must be at least 0", o->noise);
  if (o->mask_id < 0 || o->mask_id >= all || o->vocab < 0 || o->vocab > all ||
      all - (o->vocab ? all - o->vocab : 0) < 2)
    return fail(GRPO_EARG, "unmask: mask token %d and %d tokens do not fit a vocabulary of %d",
                (int)o->mask_id, o->vocab, all);
  return GRPO_OK;
}

Status unmask(Model *m, Tape *t, int n, const int *len, int32_t *ids, float *logp,
              const UnmaskOptions *o) {
  try(check(m, o));
  for (int i = 0; i < n;) {
    Unmasking b = {.m = m, .t = t, .o = o, .first = i, .len = len + i, .ids = ids, .logp = logp};
    int rows = 0;
    while (i < n && (!b.n || rows + len[i] <= BATCH_ROWS)) rows += len[i++], b.n++;
    for (int k = 0; k < rows; k++)
      if (ids[k] < 0 || ids[k] >= model_config(m)->vocab_size)
        return fail(GRPO_EARG, "unmask: id %d is outside the vocabulary of %d", (int)ids[k],
                    model_config(m)->vocab_size);
    if (logp) memset(logp, 0, (size_t)rows * sizeof *logp);
    try(fill_batch(&b, rows));
    ids += rows;
    if (logp) logp += rows;
  }
  return GRPO_OK;
}

#include "bigram/bigram.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/exponential.h"
#include "base/mem.h"

/* A pair that was seen, and how often. */
typedef struct Pair {
  int32_t next;
  uint32_t count;
} Pair;

struct Bigram {
  int refs, vocab;
  bool current;      /* `logit` and `unseen` belong to the pairs, and none waits */
  size_t *row;       /* [vocab + 1]: pair row[i] .. row[i + 1] - 1 follow token i */
  Pair *pair;        /* [row[vocab]] */
  real *logit;       /* [row[vocab]]: of the pairs */
  real *unseen;      /* [vocab]: of all other pairs of a row */
  uint64_t *waiting; /* [cap]: pairs (token << 32 | next) that are not in the rows yet */
  size_t nwaiting, cap;
};

enum { FIRST_CAP = 1 << 12 };

static size_t num_pairs(const Bigram *b) { return b->row[b->vocab]; }

size_t bigram_bytes(const Bigram *b) {
  return sizeof *b + ((size_t)b->vocab + 1) * sizeof *b->row +
         (size_t)b->vocab * sizeof *b->unseen +
         num_pairs(b) * (sizeof *b->pair + sizeof *b->logit) + b->cap * sizeof *b->waiting;
}

Status bigram_new(Bigram **out, int vocab) {
  *out = NULL;
  if (vocab < 1) return fail(GRPO_EARG, "reference: a bigram of %d tokens", vocab);
  Bigram *b = mem_zalloc(sizeof *b);
  if (b) {
    *b = (Bigram){.refs = 1, .vocab = vocab};
    b->row = mem_zalloc(((size_t)vocab + 1) * sizeof *b->row);
    b->unseen = mem_alloc((size_t)vocab * sizeof *b->unseen);
  }
  if (!b || !b->row || !b->unseen) {
    bigram_free(b);
    return fail(GRPO_ENOMEM, "reference: no memory for a bigram of %d tokens", vocab);
  }
  const Status s = bigram_update(b);
  if (s == GRPO_OK)
    *out = b;
  else
    bigram_free(b);
  return s;
}

Bigram *bigram_retain(Bigram *b) {
  b->refs++;
  return b;
}

void bigram_free(Bigram *b) {
  if (!b || --b->refs > 0) return;
  mem_free(b->row);
  mem_free(b->pair);
  mem_free(b->logit);
  mem_free(b->unseen);
  mem_free(b->waiting);
  mem_free(b);
}

/* ---- counting ---------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Sorts the waiting pairs and drops repetitions: *count [the result] says how often each was. */
static size_t sort_waiting(Bigram *b, uint32_t *count) {
  size_t n = 0;
  qsort(b->waiting, b->nwaiting, sizeof *b->waiting, ascending);
  for (size_t i = 0; i < b->nwaiting; i++) {
    if (n && b->waiting[n - 1] == b->waiting[i]) {
      count[n - 1]++;
      continue;
    }
    b->waiting[n] = b->waiting[i];
    count[n++] = 1;
  }
  return n;
}

/* Merges row i with the n sorted waiting pairs from *at on into `to`, and returns its length. */
static size_t merge_row(const Bigram *b, int i, const uint32_t *count, size_t n, size_t *at,
                        Pair *to) {
  size_t old = b->row[i], made = 0;
  while (old < b->row[i + 1] || (*at < n && b->waiting[*at] >> 32 == (uint64_t)i)) {
    const bool more = *at < n && b->waiting[*at] >> 32 == (uint64_t)i;
    const int32_t next = more ? (int32_t)(b->waiting[*at] & UINT32_MAX) : INT32_MAX;
    Pair p = {next, 0};
    if (old < b->row[i + 1] && b->pair[old].next <= next) p = b->pair[old++];
    if (more && p.next == next) p.count += count[(*at)++];
    to[made++] = p;
  }
  return made;
}

static Status merge_waiting(Bigram *b) {
  if (!b->nwaiting) return GRPO_OK;
  uint32_t *count = mem_alloc(b->nwaiting * sizeof *count);
  Pair *merged = mem_alloc((num_pairs(b) + b->nwaiting) * sizeof *merged);
  if (!count || !merged) {
    mem_free(count);
    mem_free(merged);
    return fail(GRPO_ENOMEM, "reference: no memory for %zu pairs of tokens",
                num_pairs(b) + b->nwaiting);
  }
  const size_t n = sort_waiting(b, count);
  size_t at = 0, made = 0;
  for (int i = 0; i < b->vocab; i++) {
    const size_t begin = made;
    made += merge_row(b, i, count, n, &at, merged + made);
    b->row[i] = begin;
  }
  b->row[b->vocab] = made;
  mem_free(count);
  mem_free(b->pair);
  Pair *fitted = mem_realloc(merged, made * sizeof *merged);
  b->pair = fitted ? fitted : merged;
  b->nwaiting = 0;
  return GRPO_OK;
}

/* Makes room for one more waiting pair.  At most as many pairs wait as the rows have. */
static Status make_room(Bigram *b) {
  if (b->nwaiting < b->cap) return GRPO_OK;
  try(merge_waiting(b));
  const size_t want = num_pairs(b) > FIRST_CAP ? num_pairs(b) : FIRST_CAP;
  if (want <= b->cap) return GRPO_OK;
  uint64_t *grown = mem_realloc(b->waiting, want * sizeof *grown);
  if (!grown) return fail(GRPO_ENOMEM, "reference: no memory to count %zu pairs of tokens", want);
  b->waiting = grown;
  b->cap = want;
  return GRPO_OK;
}

Status bigram_count(Bigram *b, size_t n, const int32_t *ids) {
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= b->vocab)
      return fail(GRPO_EARG, "reference: token %d of the text is outside the vocabulary of %d",
                  (int)ids[i], b->vocab);
  for (size_t i = 1; i < n; i++) {
    try(make_room(b));
    b->waiting[b->nwaiting++] = (uint64_t)ids[i - 1] << 32 | (uint64_t)ids[i];
    b->current = false;
  }
  return GRPO_OK;
}

/* ---- logits ------------------------------------------------------------------------------ */

Status bigram_update(Bigram *b) {
  if (b->current) return GRPO_OK;
  try(merge_waiting(b));
  real *logit = mem_realloc(b->logit, (num_pairs(b) + 1) * sizeof *logit);
  if (!logit) return fail(GRPO_ENOMEM, "reference: no memory for %zu pairs", num_pairs(b));
  b->logit = logit;
  for (int i = 0; i < b->vocab; i++) {
    double total = (double)b->vocab;
    for (size_t k = b->row[i]; k < b->row[i + 1]; k++) total += b->pair[k].count;
    b->unseen[i] = (real)math_log(1.0 / total);
    for (size_t k = b->row[i]; k < b->row[i + 1]; k++)
      logit[k] = (real)math_log((b->pair[k].count + 1.0) / total);
  }
  mem_free(b->waiting);
  b->waiting = NULL;
  b->cap = 0;
  b->current = true;
  return GRPO_OK;
}

int bigram_vocab(const Bigram *b) { return b->vocab; }
size_t bigram_pairs(const Bigram *b) { return num_pairs(b); }

void bigram_row(const Bigram *b, int32_t prev, real *out) {
  const real unseen = b->unseen[prev];
  for (int j = 0; j < b->vocab; j++) out[j] = unseen;
  for (size_t k = b->row[prev]; k < b->row[prev + 1]; k++) out[b->pair[k].next] = b->logit[k];
}

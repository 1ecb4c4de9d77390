#include "grad/balance.h"

Status balance_new(Arena *a, int experts, const int32_t *sequences, Balance **out) {
  Balance *b = arena_alloc(a, sizeof *b);
  double *sums = arena_zalloc(a, 3 * (size_t)experts * sizeof *sums);
  if (!b || !sums) return fail(GRPO_ENOMEM, "model: no memory for the auxiliary loss");
  *b = (Balance){.experts = experts,
                 .sequences = sequences,
                 .taken = sums,
                 .slope = sums + 2 * (size_t)experts};
  *out = b;
  return GRPO_OK;
}

void balance_add(Balance *b, int n, int nparts, const double *parts) {
  for (int t = 0; t < n; t++) b->rows += balance_sequences(b, t);
  for (int i = 0; i < nparts; i++)
    for (int k = 0; k < 2 * b->experts; k++) b->taken[k] += *parts++;
}

double balance_end(Balance *b, double scale) {
  const double *sum = b->taken + b->experts;
  double loss = 0;
  for (int e = 0; e < b->experts && b->rows > 0; e++) {
    const double slope = b->experts * (b->taken[e] / b->rows) / b->rows;
    loss += slope * sum[e];
    b->slope[e] = scale * slope;
  }
  b->ended = true;
  return loss;
}

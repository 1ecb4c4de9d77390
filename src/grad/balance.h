/* balance.h - the auxiliary loss of a mixture's routers, which is small where all experts are taken
 * equally often (Switch Transformers, arXiv:2101.03961, equations 4 to 6; over all layers at once,
 * as transformers' load_balancing_loss_func computes it).
 *
 *   loss = E * sum over experts e of f_e P_e
 *   f_e = the number of times that e is taken / rows, without a gradient
 *   P_e = the mean over rows of the router's softmax probability of e
 *
 * where the rows are those of all layers.  The gradient by a row's probability of e is
 * E f_e / rows.  It is known after the last layer, so operation `route` counts in its forward and
 * adds the gradient in its backward.
 */
#ifndef GRPO_GRAD_BALANCE_H
#define GRPO_GRAD_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* The counts of one forward. */
typedef struct Balance {
  int experts;
  const int32_t *sequences; /* [tokens] how many times a token counts; NULL: once */
  double rows;              /* counted so far */
  double *taken;            /* [experts] how often; the probabilities' sums follow, [experts] */
  double *slope;            /* [experts] the gradient by a probability of a row that counts once */
  bool ended;               /* a forward that runs again in backward is not counted again */
} Balance;

/* In the arena. */
Status balance_new(Arena *a, int experts, const int32_t *sequences, Balance **out);
static inline int balance_sequences(const Balance *b, int token) {
  return b->sequences ? b->sequences[token] : 1;
}
/* Counts n tokens of a layer: parts [nparts, 2 experts], whose columns are those of `taken`. */
void balance_add(Balance *b, int n, int nparts, const double *parts);
/* After the last layer: the loss, which is not scaled; backward adds scale times its gradient. */
double balance_end(Balance *b, double scale);

#endif

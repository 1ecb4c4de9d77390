/* slices.h - how ranks divide the numbers that a model trains.
 *
 * The trainable parameters lie one after the other.  A rank owns consecutive numbers, almost as
 * many as the others: parameters are cut into pieces of SLICE_PIECE numbers
 * only.  So an owner computes its part of a norm and of an optimizer's step as one process does.
 */
#ifndef GRPO_MODEL_SLICES_H
#define GRPO_MODEL_SLICES_H

#include "kern/elementwise.h"
#include "model/model.h"

enum { SLICE_PIECE = SUMSQ_PIECE };

typedef struct Slice {
  uint64_t from, end;
} Slice;

Slice slice_of_rank(Model *m, int rank, int size); /* size: how many ranks there are */
/* The part of numbers at .. at + n - 1 that is in the slice: *count of them from x[*first] on.
 * false: none is. */
bool slice_part(Slice s, uint64_t at, size_t n, size_t *first, size_t *count);
static inline size_t slice_pieces(size_t n) { return (n + SLICE_PIECE - 1) / SLICE_PIECE; }
/* The pieces before number `to`, which is where a slice begins or ends. */
size_t slice_pieces_before(Model *m, uint64_t to);
/* The numbers that each of `size` ranks exchanges at once. */
size_t slice_chunk(int size);

#endif

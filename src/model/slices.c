#include "model/slices.h"

/* The first number at or behind `target` where a piece begins. */
static uint64_t cut_behind(Model *m, uint64_t target) {
  const Param *p;
  uint64_t at = 0;
  for (int i = 0; (p = model_next_trainable(m, &i)); at += p->t.n) {
    if (target <= at) return at;
    const uint64_t cut = at + slice_pieces((size_t)(target - at)) * SLICE_PIECE;
    if (cut < at + p->t.n) return cut;
  }
  return at;
}

Slice slice_of_rank(Model *m, int rank, int size) {
  const uint64_t n = model_count_trainable(m), ranks = (uint64_t)size;
  const uint64_t from = n * (uint64_t)rank / ranks, end = n * (uint64_t)(rank + 1) / ranks;
  return (Slice){cut_behind(m, from), cut_behind(m, end)};
}

bool slice_part(Slice s, uint64_t at, size_t n, size_t *first, size_t *count) {
  const uint64_t from = s.from > at ? s.from : at;
  const uint64_t end = s.end < at + n ? s.end : at + n;
  if (from >= end) return false;
  *first = (size_t)(from - at);
  *count = (size_t)(end - from);
  return true;
}

size_t slice_pieces_before(Model *m, uint64_t to) {
  const Param *p;
  uint64_t at = 0;
  size_t pieces = 0;
  for (int i = 0; (p = model_next_trainable(m, &i)) && at < to; at += p->t.n)
    pieces += slice_pieces(to - at < p->t.n ? (size_t)(to - at) : p->t.n);
  return pieces;
}

size_t slice_chunk(int size) {
  enum { ALL = 1 << 20, LEAST = 1 << 10, MOST = 1 << 16 };
  const size_t n = ALL / (size_t)size;
  return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

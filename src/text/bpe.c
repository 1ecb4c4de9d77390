#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

Status bpe_init(Bpe *b, size_t nmerges) {
  *b = (Bpe){0};
  memset(b->byte_id, 0xFF, sizeof b->byte_id);
  return map_reserve(&b->merges, nmerges);
}

Status bpe_put(Bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id) {
  return map_put(&b->merges, bpe_pair(left, right), bpe_pair(rank, id));
}

static int by_rank(const void *x, const void *y) {
  const BpeMerge *a = x, *b = y;
  return a->rank < b->rank ? -1 : a->rank > b->rank;
}

Status bpe_list(const Bpe *b, BpeMerge **out) {
  size_t n = 0;
  BpeMerge *list = mem_alloc((b->merges.count + 1) * sizeof *list);
  if (!list) return fail(GRPO_ENOMEM, "merges");
  for (const MapEntry *e = NULL; (e = map_each(&b->merges, e));)
    list[n++] = (BpeMerge){bpe_left(e), bpe_right(e), bpe_rank(e), bpe_id(e)};
  qsort(list, n, sizeof *list, by_rank);
  *out = list;
  return GRPO_OK;
}

static void heap_push(BpeScratch *w, uint64_t x) {
  size_t i = w->nheap++;
  for (size_t up; i > 0 && w->heap[up = (i - 1) / 2] > x; i = up) w->heap[i] = w->heap[up];
  w->heap[i] = x;
}

static uint64_t heap_pop(BpeScratch *w) {
  uint64_t top = w->heap[0], x = w->heap[--w->nheap];
  size_t i = 0, kid;
  while ((kid = 2 * i + 1) < w->nheap) {
    if (kid + 1 < w->nheap && w->heap[kid + 1] < w->heap[kid]) kid++;
    if (w->heap[kid] >= x) break;
    w->heap[i] = w->heap[kid];
    i = kid;
  }
  w->heap[i] = x;
  w->taken++;
  return top;
}

/* A heap of 2n pairs is enough, because every merge takes one pair off and adds at most two. */
Status bpe_reserve(BpeScratch *w, size_t n) {
  if (n <= w->cap) return GRPO_OK;
  size_t cap = w->cap ? w->cap : 64;
  while (cap < n) cap *= 2;
  BpeSymbol *sym = mem_realloc(w->sym, cap * sizeof *sym);
  if (sym) w->sym = sym;
  uint64_t *heap = mem_realloc(w->heap, 2 * cap * sizeof *heap);
  if (heap) w->heap = heap;
  if (!sym || !heap) return fail(GRPO_ENOMEM, "pre-token of %zu bytes", n);
  w->cap = cap;
  return GRPO_OK;
}

static void consider(const Bpe *b, BpeScratch *w, int32_t i) {
  if (i < 0 || w->sym[i].next < 0) return;
  const MapEntry *e = bpe_find(b, w->sym[i].id, w->sym[w->sym[i].next].id);
  if (e) heap_push(w, bpe_pair(bpe_rank(e), i));
}

void bpe_merge(const Bpe *b, BpeScratch *w, int32_t count, IntBuf *out) {
  BpeSymbol *sym = w->sym;
  if (!count) return;
  sym[count - 1].next = -1;
  w->nheap = 0;
  for (int32_t i = 0; i < count; i++) consider(b, w, i);
  while (w->nheap) {
    uint64_t top = heap_pop(w);
    int32_t i = (int32_t)(top & 0xFFFFFFFFu), next = sym[i].next;
    if (sym[i].id < 0 || next < 0) continue;
    const MapEntry *e = bpe_find(b, sym[i].id, sym[next].id);
    if (!e || (uint64_t)bpe_rank(e) != top >> 32) continue; /* the pair has changed since */
    sym[i] = (BpeSymbol){bpe_id(e), sym[i].prev, sym[next].next};
    sym[next].id = -1;
    if (sym[i].next >= 0) sym[sym[i].next].prev = i;
    consider(b, w, sym[i].prev);
    consider(b, w, i);
  }
  for (int32_t i = 0; i >= 0; i = sym[i].next) intbuf_put(out, sym[i].id);
}

Status bpe_encode(const Bpe *b, BpeScratch *w, const char *s, size_t n, IntBuf *out) {
  try(bpe_reserve(w, n));
  int32_t count = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t id = b->byte_id[(unsigned char)s[i]];
    if (id >= 0) bpe_symbol(w, &count, id);
  }
  bpe_merge(b, w, count, out);
  return GRPO_OK;
}

void bpe_free(Bpe *b) { map_free(&b->merges); }

void bpe_scratch_free(BpeScratch *w) {
  mem_free(w->sym);
  mem_free(w->heap);
  *w = (BpeScratch){0};
}

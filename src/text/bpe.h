/* bpe.h - the merges of a BPE and their application to one pre-token.  Private to src/text.
 *
 * The pair of lowest rank is merged first, the leftmost one on a tie, until no pair has a rank.  A
 * heap over a linked list makes that O(n log n) for n bytes.
 */
#ifndef GRPO_TEXT_BPE_H
#define GRPO_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intbuf.h"
#include "base/map.h"

typedef struct BpeMerge {
  int32_t left, right; /* ids */
  int32_t rank, id;    /* its position in the list of merges; the token that it makes */
} BpeMerge;

typedef struct Bpe {
  Map merges;           /* bpe_pair(left, right) to bpe_pair(rank, id) */
  int32_t byte_id[256]; /* -1: the vocabulary lacks the byte, which is dropped */
} Bpe;

typedef struct BpeSymbol {
  int32_t id, prev, next; /* id -1: merged into another; prev, next -1: none */
} BpeSymbol;

/* Working memory of bpe_encode, reused from call to call. */
typedef struct BpeScratch {
  BpeSymbol *sym;
  uint64_t *heap; /* rank << 32 | index of the left symbol, smallest first */
  size_t cap, nheap;
  uint64_t taken; /* pairs ever taken off the heap; tests watch it */
} BpeScratch;

static inline uint64_t bpe_pair(int32_t high, int32_t low) {
  return (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
}
static inline int32_t bpe_left(const MapEntry *e) { return (int32_t)(e->key >> 32); }
static inline int32_t bpe_right(const MapEntry *e) { return (int32_t)e->key; }
static inline int32_t bpe_rank(const MapEntry *e) { return (int32_t)(e->value >> 32); }
static inline int32_t bpe_id(const MapEntry *e) { return (int32_t)e->value; }
/* NULL: the pair is not merged. */
static inline const MapEntry *bpe_find(const Bpe *b, int32_t left, int32_t right) {
  return map_find(&b->merges, bpe_pair(left, right));
}

Status bpe_init(Bpe *b, size_t nmerges); /* room for that many */
/* If a pair is put twice, the later rank and id replace the earlier ones. */
Status bpe_put(Bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id);
Status bpe_list(const Bpe *b, BpeMerge **out); /* [merges.count] by rank, for mem_free() */
Status bpe_encode(const Bpe *b, BpeScratch *w, const char *s, size_t n, IntBuf *out); /* bytes */

/* For symbols that the caller lays out: reserve room for n, add the ids, then merge. */
Status bpe_reserve(BpeScratch *w, size_t n);
static inline void bpe_symbol(BpeScratch *w, int32_t *count, int32_t id) {
  w->sym[*count] = (BpeSymbol){id, *count - 1, *count + 1};
  ++*count;
}
void bpe_merge(const Bpe *b, BpeScratch *w, int32_t count, IntBuf *out);
void bpe_free(Bpe *b);
void bpe_scratch_free(BpeScratch *w);

#endif

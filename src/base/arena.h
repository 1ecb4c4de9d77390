/* arena.h - memory that lives exactly one step (or one graph).
 *
 * Allocation is a pointer bump; arena_reset() forgets everything at once but
 * keeps the blocks, so a steady-state step calls malloc zero times.  Blocks
 * never move: a pointer stays valid until the reset.  `epoch` counts resets
 * and lets long-lived handles notice that what they point to is gone.
 */
#ifndef GRPO_BASE_ARENA_H
#define GRPO_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
  ArenaBlock *first, *cur; /* chain of blocks; the one being filled */
  size_t used;             /* bytes used in `cur` */
  size_t total;            /* bytes used since the reset, in all blocks */
  size_t high;             /* largest `total` ever: what a reserve should be */
  uint64_t epoch;          /* +1 at every reset */
} Arena;

/* A mark to return to: arena_release() forgets everything that was allocated after it. */
typedef struct ArenaMark {
  ArenaBlock *cur;
  size_t used, total;
} ArenaMark;

void *arena_alloc(Arena *a, size_t bytes);  /* 64-byte aligned, not cleared; NULL = out of memory */
void *arena_zalloc(Arena *a, size_t bytes); /* arena_alloc(), zero-filled */
/* Makes one block of at least `bytes`, before the first use. */
Status arena_reserve(Arena *a, size_t bytes);
void arena_reset(Arena *a); /* O(1); keeps the blocks */
ArenaMark arena_mark(const Arena *a);
void arena_release(Arena *a, ArenaMark m); /* returns to the mark; keeps the epoch */
void arena_free(Arena *a);                 /* gives the blocks back; the arena may be used again */

#endif

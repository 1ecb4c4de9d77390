/* attention.h - what the pieces of attention's forward share: attention.c cuts rows and merges
 * parts, attention_f32.c and attention_bf16.c do a strip and a part.
 */
#ifndef GRPO_KERN_ATTENTION_IMPL_H
#define GRPO_KERN_ATTENTION_IMPL_H

#include "kern/attention.h"
#include "kern/kernels.h"
#include "kern/kv_impl.h"
#include "kern/scratch.h"

enum {
  FEW_UNITS = 8,   /* units of a narrow strip, at most, unless one row has more */
  MANY_UNITS = 32, /* of a wide one */
  PART = 512,      /* keys */
  LD_SCORES =
      PART + 3 * GROUP,        /* a group before the part, one after, and an odd number of groups */
  LD_PAIRS = PART / 2 + GROUP, /* of probabilities in words: an odd number of groups */
  STRIP_ROWS = MANY_UNITS
};

/* Rows at.. of span `span` and what follows in later spans with its prefix. */
typedef struct Strip {
  int span, at, rows;
} Strip;

typedef struct Tile {
  int strip, strips, units;
} Tile;

typedef struct Attn {
  const AttnShape *s;
  const AttnSpan *spans;
  bool bf16;                   /* keys and values are in words */
  int query_pairs;             /* words: of a query, in whole units */
  int group, padded_hd, parts; /* padded_hd: of a value, in whole groups */
  int few_units;               /* units of a narrow strip, at most, unless one row has more */
  int few_rows, many_rows;     /* of a strip, at most */
  int strip_units, tile_units; /* at most; strip_units: whole groups */
  const real *q;
  ptrdiff_t ldq, ldo;
  real *o, *lse;
  const Strip *strips;
  const Tile *tiles;
  real *spread; /* [tiles, kv_heads, parts] of Sums, when parts are made apart */
  Scratch scratch;
} Attn;

/* One query row: where it is and which logical keys [lo, hi) it sees. */
typedef struct Row {
  const AttnSpan *span;
  int row, lo, hi;
} Row;

/* What some units have of a part, or of all parts until now. */
typedef struct Sums {
  real *out, *max, *sum; /* [units, padded_hd], [units], [units]; not yet divided by sum */
} Sums;

/* A worker's scratch. */
typedef struct Work {
  real *q, *qt;     /* [strip_units, head_dim], and [groups of units][head_dim][GROUP] */
  uint32_t *pairs;  /* words: of probabilities, [units, LD_PAIRS] */
  uint32_t *shared; /* words: the unit in which a prefix ends, or a last block */
  real *keys;       /* a block of keys in rows transposed, [head_dim, KV_BLOCK] */
  real *scores;     /* narrow: [units, LD_SCORES] from the part's first key; wide: [PART, units] */
  Sums part, all;   /* of a strip; of a tile */
} Work;

/* The part in hand: kv head, logical position of its first key, keys that some row sees; rows of
 * the strip that comes next. */
typedef struct Part {
  int kvh, start, from, to;
  const Row *next;
  int nnext;
} Part;

/* Does a strip take queries as lanes, keys one by one, or keys as lanes? */
static inline bool has_many_units(const Attn *a, const Row *rows, int n) {
  return n * a->group > FEW_UNITS && rows[0].span == rows[n - 1].span;
}

/* A strip's sums over a part, of which some row sees some key. */
void attn_part_f32(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                   const Sums *to);
/* The same of segments in words. */
void attn_part_bf16(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                    const Sums *to);

#endif

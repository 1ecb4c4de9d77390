/* attention_strip.h - what the parts of attention's forward share.
 *
 * attention.c cuts query rows into strips and strips into tiles, and merges the results of parts
 * of the keys; attention_f32.c and attention_bf16.c compute one strip against one part.  A unit
 * is one query row with one of the query heads that share a kv head: group = heads / kv_heads
 * units make a row.
 *
 * A strip of few units computes scores as [units, keys], with keys as vector lanes; a strip of many
 * units as [keys, units], with queries as lanes.
 */
#ifndef GRPO_KERN_ATTENTION_STRIP_H
#define GRPO_KERN_ATTENTION_STRIP_H

#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/kv_impl.h"
#include "kern/scratch.h"

enum {
  FEW_UNITS = 8,       /* units of a strip of few, unless one row has more */
  FEW_UNITS_BF16 = 16, /* the same in segments of bf16 pairs */
  MANY_UNITS = 32,     /* units of a strip of many */
  PART = 512,          /* keys of a part */
  /* one group before the part and one after it; an odd number of groups */
  LD_SCORES = PART + 3 * GROUP,
  LD_PAIRS = PART / 2 + GROUP, /* of packed probabilities: an odd number of groups */
  STRIP_ROWS = MANY_UNITS
};

/* Rows from `at` on of span `span`, and rows of later spans with the same prefix. */
typedef struct Strip {
  int span, at, rows;
} Strip;

typedef struct Tile {
  int strip, strips, units;
} Tile;

typedef struct Attn {
  const KernelClass *cpu;
  const AttnShape *s;
  const AttnSpan *spans;
  bool bf16;                   /* segments hold bf16 pairs */
  int query_pairs;             /* bf16: pairs of a query, in whole units of the CPU */
  int group, padded_hd, parts; /* padded_hd: channels of a value, in whole groups */
  int few_units;               /* units of a strip of few, unless one row has more */
  int few_rows, many_rows;     /* rows of a strip of few and of many units, at most */
  int strip_units, tile_units; /* limits; strip_units is whole groups */
  const real *q;
  ptrdiff_t ldq, ldo;
  real *o, *lse;
  const Strip *strips;
  const Tile *tiles;
  /* [tiles, kv_heads, parts] of Sums, where parts are computed by different threads */
  real *spread;
  Scratch scratch;
} Attn;

/* One query row: where it is and which logical keys [lo, hi) it sees. */
typedef struct Row {
  const AttnSpan *span;
  int row, lo, hi;
} Row;

/* The sums of some units over one part, or over all parts so far. */
typedef struct Sums {
  real *out, *max, *sum; /* [units, padded_hd], [units], [units]; not yet divided by sum */
} Sums;

/* A worker's scratch. */
typedef struct Work {
  real *q, *qt;     /* [strip_units, head_dim], and [groups of units][head_dim][GROUP] */
  uint32_t *pairs;  /* bf16: probabilities, [units, LD_PAIRS] */
  uint32_t *shared; /* bf16: the unit in which a prefix ends, or a last block */
  real *keys;       /* a row-major block of keys, transposed: [head_dim, KV_BLOCK] */
  /* few units: [units, LD_SCORES] from the part's first key; many: [PART, units] */
  real *scores;
  Sums part, all; /* of a strip; of a tile */
} Work;

/* A part: kv head, logical position of its first key, and the keys [from, to) that some row sees;
 * the rows of the next strip. */
typedef struct Part {
  int kvh, start, from, to;
  const Row *next;
  int nnext;
} Part;

/* Does a strip take queries as lanes (many units), or keys? */
static inline bool has_many_units(const Attn *a, const Row *rows, int n) {
  return n * a->group > FEW_UNITS && rows[0].span == rows[n - 1].span;
}

#endif

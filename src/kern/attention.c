/* attention.c - attention forward over segments of keys.
 *
 * A tile is some consecutive query rows whose spans share a prefix segment,
 * times the query heads of one kv head: up to TILE query units, in training 8
 * rows of one completion, in decoding one row of each of 8 completions of a
 * prompt.  The prefix is walked once for all of them, own segments span by
 * span.  Scores of a unit lie in one row by logical key position, so softmax
 * and the sum over values see the same order however the tile was made.
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/dispatch.h"

enum { TILE = 8 };

/* Rows at.. of span `span` and what follows in later spans with its prefix. */
typedef struct Tile {
  int span, at, rows;
} Tile;

typedef struct Attn {
  const AttnShape *s;
  const AttnSpan *spans;
  int group, tile_rows, units, hd16;
  ptrdiff_t ld_scores;
  const real *q;
  ptrdiff_t ldq, ldo;
  real *o, *lse;
  const Tile *tiles;
  Scratch scratch;
} Attn;

/* One query row of a tile: where it is and which logical keys [lo, hi) it sees. */
typedef struct Row {
  const AttnSpan *span;
  int row, lo, hi;
} Row;

/* A worker's scratch, [units] rows each. */
typedef struct Work {
  real *q, *scores, *out; /* [head_dim], [ld_scores], whose last holds 1 / sum, [hd16] */
} Work;

size_t kv_size(const AttnShape *s, int cap) {
  return (size_t)s->kv_heads * (size_t)cap * (size_t)s->head_dim +
         GROUP; /* last group read whole */
}

void kv_store(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k, int ldk,
              const real *v, int ldv) {
  const ptrdiff_t hd = s->head_dim, cap = seg->cap;
  for (int h = 0; h < s->kv_heads; h++)
    for (ptrdiff_t t = 0; t < n; t++) {
      const ptrdiff_t key = at + t;
      real *kt = seg->k + (h * cap + key / KV_BLOCK * KV_BLOCK) * hd + key % KV_BLOCK;
      const real *kr = k + t * ldk + h * hd;
      for (ptrdiff_t d = 0; d < hd; d++) kt[d * KV_BLOCK] = kr[d];
      memcpy(seg->v + (h * cap + key) * hd, v + t * ldv + h * hd, sizeof(real) * (size_t)hd);
    }
}

static int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }

static void tile_rows(const Attn *a, const Tile *t, Row *rows) {
  const AttnSpan *sp = a->spans + t->span;
  for (int j = 0, at = t->at; j < t->rows; j++, at++) {
    while (at >= sp->n) {
      at -= sp->n;
      sp++;
    }
    const int pos = prefix_len(sp) + sp->own_at + at, w = a->s->window;
    rows[j] = (Row){sp, sp->row + at, w > 0 ? kern_max(0, pos - w + 1) : 0, pos + 1};
  }
}

/* the end of the rows that belong to the span of rows[j0] */
static int same_span(const Row *rows, int j0, int n) {
  int j = j0;
  while (j < n && rows[j].span == rows[j0].span) j++;
  return j;
}

static int least_lo(const Row *rows, int n) {
  int lo = rows[0].lo;
  for (int j = 1; j < n; j++) lo = kern_min(lo, rows[j].lo);
  return lo;
}

/* Scores of units [u0, u1) against keys [from, to) of a segment that starts at logical key base. */
static void scores(const Attn *a, Work *w, int kvh, int u0, int u1, const KvSeg *seg, int base,
                   int from, int to) {
  const ptrdiff_t hd = a->s->head_dim;
  from = from / KV_BLOCK * KV_BLOCK;
  if (from >= to) return;
  kernels()->block(u1 - u0, to - from, a->s->head_dim, w->q + u0 * hd, hd, 1,
                   seg->k + ((ptrdiff_t)kvh * seg->cap + from) * hd, KV_BLOCK, hd * KV_BLOCK,
                   w->scores + u0 * a->ld_scores + base + from, a->ld_scores, false);
}

/* out += p v over keys [from, to) for units [u0, u1) */
static void add_values(const Attn *a, Work *w, int kvh, int u0, int u1, const KvSeg *seg, int base,
                       int from, int to) {
  if (from >= to) return;
  const ptrdiff_t hd = a->s->head_dim;
  kernels()->block(u1 - u0, a->s->head_dim, to - from, w->scores + u0 * a->ld_scores + base + from,
                   a->ld_scores, 1, seg->v + ((ptrdiff_t)kvh * seg->cap + from) * hd, hd, GROUP,
                   w->out + u0 * a->hd16, a->hd16, true);
}

/* Each unit in key order: its own first keys, those that all rows see together, its own last. */
static void values_of(const Attn *a, Work *w, int kvh, const Row *rows, int j0, int j1,
                      const KvSeg *seg, int base, int len) {
  int all_from = 0, all_to = len;
  for (int j = j0; j < j1; j++) {
    all_from = kern_max(all_from, rows[j].lo - base);
    all_to = kern_min(all_to, rows[j].hi - base);
  }
  const bool common = all_from < all_to;
  for (int part = 0; part < 3; part++) {
    if (part == 1 && common)
      add_values(a, w, kvh, j0 * a->group, j1 * a->group, seg, base, all_from, all_to);
    for (int j = j0; j < j1 && part != 1; j++) {
      int from = kern_max(0, rows[j].lo - base), to = kern_min(len, rows[j].hi - base);
      if (common && part == 0) to = kern_min(to, all_from);
      if (common && part == 2) from = kern_max(from, all_to);
      if (!common && part == 2) break;
      add_values(a, w, kvh, j * a->group, (j + 1) * a->group, seg, base, from, to);
    }
  }
}

static void all_scores(const Attn *a, Work *w, int kvh, const Row *rows, int n) {
  const KvSeg *prefix = rows[0].span->prefix;
  if (prefix) scores(a, w, kvh, 0, n * a->group, prefix, 0, least_lo(rows, n), prefix->len);
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    const int base = prefix_len(rows[j0].span);
    scores(a, w, kvh, j0 * a->group, j1 * a->group, rows[j0].span->own, base,
           kern_max(0, least_lo(rows + j0, j1 - j0) - base), rows[j1 - 1].hi - base);
  }
}

static void all_values(const Attn *a, Work *w, int kvh, const Row *rows, int n) {
  const KvSeg *prefix = rows[0].span->prefix;
  memset(w->out, 0, sizeof(real) * (size_t)(n * a->group * a->hd16));
  if (prefix) values_of(a, w, kvh, rows, 0, n, prefix, 0, prefix->len);
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    const int base = prefix_len(rows[j0].span);
    values_of(a, w, kvh, rows, j0, j1, rows[j0].span->own, base, rows[j1 - 1].hi - base);
  }
}

static void attn_chunk(void *arg, int chunk, int worker) {
  const Attn *a = arg;
  const Kernels *kn = kernels();
  const int kvh = chunk % a->s->kv_heads, g = a->group, hd = a->s->head_dim;
  const Tile *t = a->tiles + chunk / a->s->kv_heads;
  Row rows[TILE] = {{0}};
  Work w = {.q = scratch_of(&a->scratch, worker)};
  w.scores = w.q + round_up(a->units * hd, GROUP);
  w.out = w.scores + a->units * a->ld_scores;
  tile_rows(a, t, rows);
  for (int j = 0; j < t->rows; j++)
    memcpy(w.q + j * g * hd, a->q + rows[j].row * a->ldq + kvh * g * hd,
           sizeof(real) * (size_t)(g * hd));
  all_scores(a, &w, kvh, rows, t->rows);
  for (int u = 0; u < t->rows * g; u++) {
    const Row *r = rows + u / g;
    real *z = w.scores + u * a->ld_scores, cap = a->s->softcap;
    if (cap > 0) kn->softcap((size_t)(r->hi - r->lo), a->s->scale, cap, z + r->lo, z + r->lo);
    real max, sum = kn->softmax(r->lo, r->hi, cap > 0 ? 1 : a->s->scale, z, &max);
    w.scores[u * a->ld_scores + a->ld_scores - 1] = 1 / sum;
    if (a->lse)
      a->lse[(ptrdiff_t)r->row * a->s->heads + kvh * g + u % g] =
          (real)((double)max + log((double)sum));
  }
  all_values(a, &w, kvh, rows, t->rows);
  for (int u = 0; u < t->rows * g; u++)
    kn->scale((size_t)hd, w.scores[u * a->ld_scores + a->ld_scores - 1], w.out + u * a->hd16,
              a->o + rows[u / g].row * a->ldo + (kvh * g + u % g) * hd);
}

/* Cut the rows into tiles; with tiles == NULL only count them. */
static int cut_tiles(const Attn *a, int nspans, Tile *tiles) {
  int n = 0;
  for (int s0 = 0, s1; s0 < nspans; s0 = s1) {
    int total = 0;
    for (s1 = s0; s1 < nspans && a->spans[s1].prefix == a->spans[s0].prefix; s1++)
      total += a->spans[s1].n;
    for (int span = s0, at = 0, left = total; left > 0; n++) {
      while (at >= a->spans[span].n) at -= a->spans[span++].n;
      const int rows = kern_min(left, a->tile_rows);
      if (tiles) tiles[n] = (Tile){span, at, rows};
      at += rows;
      left -= rows;
    }
  }
  return n;
}

Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse) {
  const ArenaMark mark = arena_mark(cx->arena);
  Attn a = {.s = s, .spans = spans, .q = q, .ldq = ldq, .ldo = ldo, .o = o, .lse = lse};
  int keys = 0;
  for (int i = 0; i < nspans; i++)
    keys = kern_max(keys, prefix_len(spans + i) + spans[i].own_at + spans[i].n);
  a.group = s->heads / s->kv_heads;
  a.tile_rows = kern_max(1, TILE / a.group);
  a.units = a.tile_rows * a.group;
  a.hd16 = round_up(s->head_dim, GROUP);
  /* an odd number of groups, so that rows do not fall onto one another in the cache; one spare */
  a.ld_scores = (round_up(keys, GROUP) / GROUP + 1) / 2 * 2 * GROUP + GROUP;
  const int ntiles = cut_tiles(&a, nspans, NULL);
  Tile *tiles = arena_alloc(cx->arena, sizeof *tiles * (size_t)kern_max(1, ntiles));
  if (!tiles) return fail(GRPO_ENOMEM, "attention: scratch memory");
  cut_tiles(&a, nspans, tiles);
  a.tiles = tiles;
  const size_t unit = (size_t)a.ld_scores + (size_t)a.hd16 * 2;
  try(scratch_new(cx, unit * (size_t)a.units + GROUP, "attention", &a.scratch));
  pool_run(cx->pool, ntiles * s->kv_heads, attn_chunk, &a);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

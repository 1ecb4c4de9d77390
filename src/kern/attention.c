/* attention.c - attention forward over segments of keys.
 *
 * A strip is a few query rows, consecutive in spans that share a prefix
 * segment, times the query heads of one kv head: in training rows of one
 * completion, in decoding one row of each completion of a prompt, so that the
 * prefix is one product for all of them and only own segments go span by span.
 * A tile is some strips, what a thread takes at a time: keys stay in its cache.
 *
 * Logical key positions are cut into parts of PART at multiples of PART.  Of a part a
 * unit (a row, a head) has its greatest score, the sum of exponentials by lanes
 * of the position, and the sum over values in key order; parts are merged in
 * order.  None of that depends on the company, so neither do the bits: also
 * not when parts are made by several threads, as they are for a few rows with
 * many keys.
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/dispatch.h"

enum {
  STRIP = 8,  /* units of a strip, at most, unless one row has more heads */
  TILE = 64,  /* units of a tile, at most, unless one strip has more */
  PART = 512, /* keys */
  LD_SCORES =
      PART + 3 * GROUP, /* a group before the part, one after, and an odd number of groups */
  SPREAD = 32           /* fewer tiles than this are spread over threads by parts */
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
  int group, hd16, parts;
  int strip_units, tile_units; /* at most */
  const real *q;
  ptrdiff_t ldq, ldo;
  real *o, *lse;
  const Strip *strips;
  const Tile *tiles;
  real *spread; /* [tiles, kv_heads, parts] of part_size, when parts are made apart */
  Scratch scratch;
} Attn;

/* One query row: where it is and which logical keys [lo, hi) it sees. */
typedef struct Row {
  const AttnSpan *span;
  int row, lo, hi;
} Row;

/* What some units have of a part, or of all parts until now. */
typedef struct Sums {
  real *out, *max, *sum; /* [units, hd16], [units], [units]; not yet divided by sum */
} Sums;

/* A worker's scratch. */
typedef struct Work {
  real *q,
      *scores;    /* [strip_units, head_dim]; [strip_units, LD_SCORES] from the part's first key */
  Sums part, all; /* of a strip; of a tile */
} Work;

/* ---- keys and values -------------------------------------------------------- */

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

/* ---- rows --------------------------------------------------------------------- */

static int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }

static void strip_rows(const Attn *a, const Strip *t, Row *rows) {
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

/* The keys that some of n rows see, within the part that starts at `start`. */
static bool seen_keys(const Row *rows, int n, int start, int *from, int *to) {
  *from = start + PART;
  *to = start;
  for (int j = 0; j < n; j++) {
    *from = kern_min(*from, kern_max(rows[j].lo, start));
    *to = kern_max(*to, kern_min(rows[j].hi, start + PART));
  }
  return *from < *to;
}

static bool sees_part(const Row *r, int start) { return r->lo < start + PART && r->hi > start; }

/* ---- a strip and a part ---------------------------------------------------------- */

/* The part in hand: kv head, logical position of its first key, keys that some row sees. */
typedef struct Part {
  int kvh, start, from, to;
} Part;

/* Units [u0, u1) and keys of a segment that starts at logical key base: scores, in whole groups
 * (what is too much is overwritten or masked), or sums over values. */
static void scores(const Attn *a, const Work *w, const Part *p, int u0, int u1, const KvSeg *seg,
                   int base, int to) {
  const ptrdiff_t hd = a->s->head_dim;
  const int from = kern_max(0, p->from - base) / KV_BLOCK * KV_BLOCK;
  to = round_up(kern_min(p->to, to) - base, KV_BLOCK);
  if (from >= to) return;
  kernels()->block(u1 - u0, to - from, a->s->head_dim, w->q + u0 * hd, hd, 1,
                   seg->k + ((ptrdiff_t)p->kvh * seg->cap + from) * hd, KV_BLOCK, hd * KV_BLOCK,
                   w->scores + u0 * LD_SCORES + base + from - p->start, LD_SCORES, false);
}

static bool add_values(const Attn *a, const Work *w, const Part *p, int u0, int u1,
                       const KvSeg *seg, int base, int to, real *out, bool add) {
  const ptrdiff_t hd = a->s->head_dim;
  const int from = kern_max(0, p->from - base);
  to = kern_min(p->to, to) - base;
  if (from >= to) return add;
  kernels()->block(u1 - u0, a->hd16, to - from, w->scores + u0 * LD_SCORES + base + from - p->start,
                   LD_SCORES, 1, seg->v + ((ptrdiff_t)p->kvh * seg->cap + from) * hd, hd, GROUP,
                   out + u0 * a->hd16, a->hd16, add);
  return true;
}

static void all_scores(const Attn *a, const Work *w, const Part *p, const Row *rows, int n) {
  const KvSeg *prefix = rows[0].span->prefix;
  if (prefix) scores(a, w, p, 0, n * a->group, prefix, 0, prefix->len);
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    scores(a, w, p, j0 * a->group, j1 * a->group, rows[j0].span->own, prefix_len(rows[j0].span),
           rows[j1 - 1].hi);
  }
}

/* Keys that a row does not see have a probability of 0, which adds nothing. */
static void all_values(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                       real *out) {
  const KvSeg *prefix = rows[0].span->prefix;
  bool some = prefix && add_values(a, w, p, 0, n * a->group, prefix, 0, prefix->len, out, false);
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    add_values(a, w, p, j0 * a->group, j1 * a->group, rows[j0].span->own, prefix_len(rows[j0].span),
               rows[j1 - 1].hi, out, some);
  }
}

/* A strip's sums over a part, of which some row sees some key. */
static void strip_part(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                       const Sums *to) {
  const Kernels *kn = kernels();
  const int g = a->group, hd = a->s->head_dim, first = p->from - p->start;
  const real cap = a->s->softcap;
  for (int j = 0; j < n; j++)
    memcpy(w->q + j * g * hd, a->q + rows[j].row * a->ldq + p->kvh * g * hd,
           sizeof(real) * (size_t)(g * hd));
  all_scores(a, w, p, rows, n);
  for (int j = 0; j < n; j++) {
    const int lo = kern_max(rows[j].lo - p->start, first),
              hi = kern_min(rows[j].hi, p->to) - p->start;
    real *z = w->scores + j * g * LD_SCORES;
    for (int u = 0; u < g && cap > 0 && lo < hi; u++) {
      real *x = z + u * LD_SCORES + lo;
      kn->softcap((size_t)(hi - lo), a->s->scale, cap, x, x);
    }
    kn->softmax(g, first, p->to - p->start, lo, hi, cap > 0 ? 1 : a->s->scale, z, LD_SCORES,
                to->max + j * g, to->sum + j * g);
  }
  all_values(a, w, p, rows, n, to->out);
}

/* One unit's sums over a further part; `seen`: there was one before. */
static void merge(const Attn *a, bool seen, const Sums *part, int from, const Sums *all, int to) {
  real *x = part->out + from * a->hd16, *y = all->out + to * a->hd16;
  const real max = part->max[from], sum = part->sum[from], old = all->max[to];
  if (!seen) {
    memcpy(y, x, sizeof(real) * (size_t)a->hd16);
    all->max[to] = max;
    all->sum[to] = sum;
    return;
  }
  const real top = old > max ? old : max;
  const real keep = (real)exp((double)(old - top)), add = (real)exp((double)(max - top));
  kernels()->mix((size_t)a->hd16, keep, y, add, x);
  all->max[to] = top;
  all->sum[to] = all->sum[to] * keep + sum * add;
}

static void finish(const Attn *a, int kvh, const Row *rows, int n, const Sums *all, int unit) {
  const int g = a->group, hd = a->s->head_dim;
  for (int u = 0; u < n * g; u++) {
    const Row *r = rows + u / g;
    const int head = kvh * g + u % g;
    const real sum = all->sum[unit + u];
    kernels()->scale((size_t)hd, 1 / sum, all->out + (unit + u) * a->hd16,
                     a->o + r->row * a->ldo + head * hd);
    if (a->lse)
      a->lse[(ptrdiff_t)r->row * a->s->heads + head] =
          (real)((double)all->max[unit + u] + log((double)sum));
  }
}

/* ---- tiles ------------------------------------------------------------------------- */

static Sums lay_out(real *at, int units, int hd16) {
  return (Sums){at, at + units * hd16, at + units * hd16 + units};
}

/* reals, a whole number of groups */
static int sums_size(int units, int hd16) { return round_up(units * (hd16 + 2), GROUP); }

static int work_size(const Attn *a) {
  return round_up(a->strip_units * a->s->head_dim, GROUP) + a->strip_units * LD_SCORES +
         sums_size(a->strip_units, a->hd16) + sums_size(a->tile_units, a->hd16);
}

static Work work_of(const Attn *a, int worker) {
  Work w = {.q = scratch_of(&a->scratch, worker)};
  real *at = w.q + round_up(a->strip_units * a->s->head_dim, GROUP);
  w.scores = at + GROUP;
  at += a->strip_units * LD_SCORES;
  w.part = lay_out(at, a->strip_units, a->hd16);
  w.all = lay_out(at + sums_size(a->strip_units, a->hd16), a->tile_units, a->hd16);
  return w;
}

static Sums from_unit(const Sums *s, int unit, int hd16) {
  return (Sums){s->out + unit * hd16, s->max + unit, s->sum + unit};
}

static Sums spread_part(const Attn *a, int item, int part) {
  const size_t size = (size_t)sums_size(a->tile_units, a->hd16);
  return lay_out(a->spread + ((size_t)item * (size_t)a->parts + (size_t)part) * size, a->tile_units,
                 a->hd16);
}

/* The strips of a tile over one part; into `made` when given, else merged into w->all.  `only`:
 * there is no other part. */
static void tile_part(const Attn *a, const Work *w, const Tile *t, int kvh, int part, bool only,
                      const Sums *made) {
  Row rows[STRIP] = {{0}};
  for (int i = 0, unit = 0; i < t->strips; i++) {
    const Strip *st = a->strips + t->strip + i;
    Part p = {.kvh = kvh, .start = part * PART};
    strip_rows(a, st, rows);
    if (seen_keys(rows, st->rows, p.start, &p.from, &p.to)) {
      const Sums here = from_unit(made ? made : &w->all, unit, a->hd16);
      strip_part(a, w, &p, rows, st->rows, made || only ? &here : &w->part);
      for (int u = 0; u < st->rows * a->group && !made && !only; u++) {
        const Row *r = rows + u / a->group;
        if (sees_part(r, p.start)) merge(a, r->lo < p.start, &w->part, u, &here, u);
      }
    }
    unit += st->rows * a->group;
  }
}

static void finish_tile(const Attn *a, const Work *w, const Tile *t, int kvh) {
  Row rows[STRIP] = {{0}};
  for (int i = 0, unit = 0; i < t->strips; i++) {
    const Strip *st = a->strips + t->strip + i;
    strip_rows(a, st, rows);
    finish(a, kvh, rows, st->rows, &w->all, unit);
    unit += st->rows * a->group;
  }
}

/* One tile and kv head, all parts. */
static void tile_chunk(void *arg, int chunk, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const int kvh = chunk % a->s->kv_heads;
  const Tile *t = a->tiles + chunk / a->s->kv_heads;
  for (int part = 0; part < a->parts; part++) tile_part(a, &w, t, kvh, part, a->parts == 1, NULL);
  finish_tile(a, &w, t, kvh);
}

/* One tile, kv head and part. */
static void spread_chunk(void *arg, int chunk, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const int part = chunk % a->parts, item = chunk / a->parts;
  const Sums made = spread_part(a, item, part);
  tile_part(a, &w, a->tiles + item / a->s->kv_heads, item % a->s->kv_heads, part, false, &made);
}

/* The parts of one tile and kv head, merged as tile_chunk would have. */
static void gather_chunk(void *arg, int item, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const Tile *t = a->tiles + item / a->s->kv_heads;
  Row rows[STRIP] = {{0}};
  for (int i = 0, unit = 0; i < t->strips; i++) {
    const Strip *st = a->strips + t->strip + i;
    strip_rows(a, st, rows);
    for (int u = 0; u < st->rows * a->group; u++, unit++) {
      const Row *r = rows + u / a->group;
      for (int part = r->lo / PART; part * PART < r->hi; part++) {
        const Sums made = spread_part(a, item, part);
        merge(a, part > r->lo / PART, &made, unit, &w.all, unit);
      }
    }
  }
  finish_tile(a, &w, t, item % a->s->kv_heads);
}

/* ---- cutting ------------------------------------------------------------------------ */

/* The next strip from row `at` of span *span: rows of one span, or spans that fit in whole. */
static Strip next_strip(const Attn *a, int nspans, int *span, int *at) {
  const int most = a->strip_units / a->group;
  const Strip first = {*span, *at, kern_min(most, a->spans[*span].n - *at)};
  Strip s = first;
  *at += s.rows;
  while (*span < nspans && *at == a->spans[*span].n) {
    *at = 0;
    if (++*span == nspans || a->spans[*span].prefix != a->spans[first.span].prefix ||
        a->spans[*span].n > most - s.rows)
      break;
    s.rows += *at = a->spans[*span].n;
  }
  return s;
}

/* Cut the rows into strips and those into tiles; with NULL only count them. */
static int cut(const Attn *a, int nspans, Strip *strips, Tile *tiles, int *nstrips) {
  int n = 0;
  Tile t = {0};
  *nstrips = 0;
  for (int span = 0, at = 0; span < nspans;) {
    const Strip s = next_strip(a, nspans, &span, &at);
    if (s.rows == 0) continue;
    const int units = s.rows * a->group;
    if (t.strips && t.units + units > a->tile_units) {
      if (tiles) tiles[n] = t;
      n++;
      t = (Tile){.strip = *nstrips};
    }
    if (strips) strips[*nstrips] = s;
    ++*nstrips;
    t.strips++;
    t.units += units;
  }
  if (t.strips && tiles) tiles[n] = t;
  return n + (t.strips > 0);
}

static Status cut_all(const Ctx *cx, Attn *a, int nspans, int *ntiles) {
  int nstrips;
  *ntiles = cut(a, nspans, NULL, NULL, &nstrips);
  Strip *strips = arena_alloc(cx->arena, sizeof *strips * (size_t)(nstrips + 1));
  Tile *tiles = arena_alloc(cx->arena, sizeof *tiles * (size_t)(*ntiles + 1));
  if (!strips || !tiles) return fail(GRPO_ENOMEM, "attention: scratch memory");
  cut(a, nspans, strips, tiles, &nstrips);
  a->strips = strips;
  a->tiles = tiles;
  return GRPO_OK;
}

static Status run_tiles(const Ctx *cx, Attn *a, int nspans) {
  int ntiles;
  try(cut_all(cx, a, nspans, &ntiles));
  try(scratch_new(cx, (size_t)work_size(a), "attention", &a->scratch));
  const int items = ntiles * a->s->kv_heads;
  if (a->parts < 2 || items >= SPREAD) {
    pool_run(cx->pool, items, tile_chunk, a);
    return GRPO_OK;
  }
  const size_t size = (size_t)sums_size(a->tile_units, a->hd16);
  a->spread = arena_alloc(cx->arena, sizeof(real) * size * (size_t)(items * a->parts));
  if (!a->spread) return fail(GRPO_ENOMEM, "attention: scratch memory");
  pool_run(cx->pool, items * a->parts, spread_chunk, a);
  pool_run(cx->pool, items, gather_chunk, a);
  return GRPO_OK;
}

Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse) {
  const ArenaMark mark = arena_mark(cx->arena);
  Attn a = {.s = s, .spans = spans, .q = q, .ldq = ldq, .ldo = ldo, .o = o, .lse = lse};
  int keys = 0;
  for (int i = 0; i < nspans; i++)
    keys = kern_max(keys, prefix_len(spans + i) + spans[i].own_at + spans[i].n);
  a.group = s->heads / s->kv_heads;
  a.hd16 = round_up(s->head_dim, GROUP);
  a.parts = kern_ceil(keys, PART);
  a.strip_units = kern_max(1, STRIP / a.group) * a.group;
  a.tile_units = kern_max(a.strip_units, TILE);
  try(run_tiles(cx, &a, nspans));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

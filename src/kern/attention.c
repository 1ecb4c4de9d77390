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
 * order.  None of that depends on which rows are computed together, so the bits do not either, even
 * where several threads make the parts of a few rows with many keys.
 */
#include "kern/attention.h"
#include "base/exponential.h"
#include "kern/attention_bf16.h"
#include "kern/attention_f32.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"

enum {
  TILE = 64, /* units of a tile, unless one strip has more */
  /* tiles times kv heads that are wanted; with fewer, tiles are smaller or parts are spread */
  SPREAD = 32
};

/* ---- rows --------------------------------------------------------------------- */

static void strip_rows(const Attn *a, const Strip *t, Row *rows) {
  const AttnSpan *sp = a->spans + t->span;
  for (int j = 0, at = t->at; j < t->rows; j++, at++) {
    while (at >= sp->n) {
      at -= sp->n;
      sp++;
    }
    const int before = prefix_len(sp), pos = before + sp->own_at + at;
    rows[j] = (Row){.span = sp, .row = sp->row + at};
    attn_sees(a->s, pos, before + sp->own->len, &rows[j].lo, &rows[j].hi);
  }
}

/* The keys that some of n rows see, within the part that starts at `start`. */
static bool seen_keys(const Row *rows, int n, int start, int *from, int *to) {
  *from = start + PART;
  *to = start;
  for (int j = 0; j < n; j++) {
    *from = min_int(*from, max_int(rows[j].lo, start));
    *to = max_int(*to, min_int(rows[j].hi, start + PART));
  }
  return *from < *to;
}

static bool sees_part(const Row *r, int start) { return r->lo < start + PART && r->hi > start; }

/* ---- merging -------------------------------------------------------------------- */

/* Merges one unit's sums over a further part; `seen`: there was one before. */
static void merge(const Attn *a, bool seen, const Sums *part, int from, const Sums *all, int to) {
  real *x = part->out + from * a->padded_hd, *y = all->out + to * a->padded_hd;
  const real max = part->max[from], sum = part->sum[from], old = all->max[to];
  if (!seen) {
    memcpy(y, x, sizeof(real) * (size_t)a->padded_hd);
    all->max[to] = max;
    all->sum[to] = sum;
    return;
  }
  const real top = old > max ? old : max;
  const real keep = (real)math_exp((double)(old - top)), add = (real)math_exp((double)(max - top));
  kernels(a->cpu)->mix((size_t)a->padded_hd, keep, y, add, x);
  all->max[to] = top;
  all->sum[to] = all->sum[to] * keep + sum * add;
}

static void finish(const Attn *a, int kvh, const Row *rows, int n, const Sums *all, int unit) {
  const int g = a->group, hd = attn_value_dim(a->s);
  for (int u = 0; u < n * g; u++) {
    const Row *r = rows + u / g;
    const int head = kvh * g + u % g;
    const real sum = all->sum[unit + u];
    kernels(a->cpu)->scale((size_t)hd, 1 / sum, all->out + (unit + u) * a->padded_hd,
                           a->o + r->row * a->ldo + head * hd);
    if (a->lse)
      a->lse[(ptrdiff_t)r->row * a->s->heads + head] =
          (real)((double)all->max[unit + u] + math_log((double)sum));
  }
}

/* ---- tiles ------------------------------------------------------------------------- */

static Sums lay_out(real *at, int units, int padded_hd) {
  return (Sums){at, at + units * padded_hd, at + units * padded_hd + units};
}

/* the reals of Sums, a whole number of groups */
static int sums_size(int units, int padded_hd) { return round_up(units * (padded_hd + 2), GROUP); }

/* queries and their transposition; bf16: packed queries */
static int query_size(const Attn *a) {
  return a->bf16 ? a->strip_units * a->query_pairs : 2 * a->strip_units * a->s->head_dim;
}

/* scores; bf16: of the units that are computed together */
static int score_rows(const Attn *a) {
  return a->bf16 ? 2 * kernels_bf16(a->cpu)->mr : max_int(a->strip_units, a->group + FEW_UNITS);
}
static int score_size(const Attn *a) { return score_rows(a) * LD_SCORES; }

static int transposed_size(const Attn *a) { return a->bf16 ? 0 : a->s->head_dim * KV_BLOCK; }

/* bf16: probabilities, and the unit in which a prefix ends */
static int pair_size(const Attn *a) { return a->bf16 ? score_rows(a) * LD_PAIRS : 0; }
static int shared_size(const Attn *a) { return a->bf16 ? KV_UNIT / 2 * a->padded_hd : 0; }

static int work_size(const Attn *a) {
  return query_size(a) + score_size(a) + transposed_size(a) + pair_size(a) + shared_size(a) +
         sums_size(a->strip_units, a->padded_hd) + sums_size(a->tile_units, a->padded_hd);
}

static Work work_of(const Attn *a, int worker) {
  real *at = scratch_of(&a->scratch, worker);
  Work w = {.q = at, .qt = at + query_size(a) / 2};
  at += query_size(a);
  w.scores = at + GROUP;
  at += score_size(a);
  w.keys = at;
  at += transposed_size(a);
  w.pairs = (uint32_t *)(void *)at;
  at += pair_size(a);
  w.shared = (uint32_t *)(void *)at;
  at += shared_size(a);
  w.part = lay_out(at, a->strip_units, a->padded_hd);
  w.all = lay_out(at + sums_size(a->strip_units, a->padded_hd), a->tile_units, a->padded_hd);
  return w;
}

static Sums from_unit(const Sums *s, int unit, int padded_hd) {
  return (Sums){s->out + unit * padded_hd, s->max + unit, s->sum + unit};
}

static Sums spread_part(const Attn *a, int item, int part) {
  const size_t size = (size_t)sums_size(a->tile_units, a->padded_hd);
  return lay_out(a->spread + ((size_t)item * (size_t)a->parts + (size_t)part) * size, a->tile_units,
                 a->padded_hd);
}

/* Computes the strips of a tile over one part, into `made` if that is given; else the result is
 * merged into w->all.  `only`: there is no other part. */
static void tile_part(const Attn *a, const Work *w, const Tile *t, int kvh, int part, bool only,
                      const Sums *made) {
  Row both[2][STRIP_ROWS] = {{{0}}};
  const Strip *st = a->strips + t->strip;
  strip_rows(a, st, both[0]);
  for (int i = 0, unit = 0; i < t->strips; i++, st++) {
    const Row *rows = both[i % 2];
    Part p = {.kvh = kvh, .start = part * PART};
    if (i + 1 < t->strips) {
      strip_rows(a, st + 1, both[(i + 1) % 2]);
      p.next = both[(i + 1) % 2], p.nnext = st[1].rows;
    }
    if (seen_keys(rows, st->rows, p.start, &p.from, &p.to)) {
      const Sums here = from_unit(made ? made : &w->all, unit, a->padded_hd);
      const Sums *to = made || only ? &here : &w->part;
      if (a->bf16)
        attn_part_bf16(a, w, &p, rows, st->rows, to);
      else
        attn_part_f32(a, w, &p, rows, st->rows, to);
      for (int u = 0; u < st->rows * a->group && !made && !only; u++) {
        const Row *r = rows + u / a->group;
        if (sees_part(r, p.start)) merge(a, r->lo < p.start, &w->part, u, &here, u);
      }
    }
    unit += st->rows * a->group;
  }
}

static void finish_tile(const Attn *a, const Work *w, const Tile *t, int kvh) {
  Row rows[STRIP_ROWS] = {{0}};
  for (int i = 0, unit = 0; i < t->strips; i++) {
    const Strip *st = a->strips + t->strip + i;
    strip_rows(a, st, rows);
    finish(a, kvh, rows, st->rows, &w->all, unit);
    unit += st->rows * a->group;
  }
}

/* One tile and kv head with all parts. */
static void tile_chunk(void *arg, int chunk, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const int kvh = chunk % a->s->kv_heads;
  const Tile *t = a->tiles + chunk / a->s->kv_heads;
  for (int part = 0; part < a->parts; part++) tile_part(a, &w, t, kvh, part, a->parts == 1, NULL);
  if (a->bf16) kernels_bf16(a->cpu)->end();
  finish_tile(a, &w, t, kvh);
}

/* One tile, kv head and part. */
static void spread_chunk(void *arg, int chunk, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const int part = chunk % a->parts, item = chunk / a->parts;
  const Sums made = spread_part(a, item, part);
  tile_part(a, &w, a->tiles + item / a->s->kv_heads, item % a->s->kv_heads, part, false, &made);
  if (a->bf16) kernels_bf16(a->cpu)->end();
}

/* Merges the parts of one tile and kv head in the order of tile_chunk. */
static void gather_chunk(void *arg, int item, int worker) {
  const Attn *a = arg;
  const Work w = work_of(a, worker);
  const Tile *t = a->tiles + item / a->s->kv_heads;
  Row rows[STRIP_ROWS] = {{0}};
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

/* The next strip from row `at` of span *span.  If the rows that are left make many units, it is a
 * long strip of this span alone; else it is a short one, which later spans join that fit whole. */
static Strip next_strip(const Attn *a, int nspans, int *span, int *at) {
  const AttnSpan *first = a->spans + *span;
  const int left = first->n - *at, wide = left * a->group > a->few_units ? a->many_rows : 0;
  const int most = max_int(a->few_rows, wide);
  Strip s = {*span, *at, min_int(most, left)};
  *at += s.rows;
  while (*at == a->spans[*span].n) {
    *at = 0;
    if (++*span == nspans || a->spans[*span].prefix != first->prefix ||
        a->spans[*span].n > a->few_rows - s.rows)
      break;
    s.rows += *at = a->spans[*span].n;
  }
  return s;
}

/* Cuts the rows into strips and the strips into tiles; with NULL it only counts them. */
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
  const size_t size = (size_t)sums_size(a->tile_units, a->padded_hd);
  a->spread = arena_alloc(cx->arena, sizeof(real) * size * (size_t)(items * a->parts));
  if (!a->spread) return fail(GRPO_ENOMEM, "attention: scratch memory");
  pool_run(cx->pool, items * a->parts, spread_chunk, a);
  pool_run(cx->pool, items, gather_chunk, a);
  return GRPO_OK;
}

/* Decides how much a thread takes at a time, from the shapes alone. */
static void choose_sizes(Attn *a, int nspans) {
  int keys = 0, rows = 0;
  for (int i = 0; i < nspans; i++) {
    const AttnSpan *sp = a->spans + i;
    keys =
        max_int(keys, prefix_len(sp) + (a->s->bidirectional ? sp->own->len : sp->own_at + sp->n));
    rows += sp->n;
  }
  a->group = a->s->heads / a->s->kv_heads;
  a->padded_hd = round_up(attn_value_dim(a->s), GROUP);
  a->parts = ceil_div(keys, PART);
  a->few_units = a->bf16 ? FEW_UNITS_BF16 : FEW_UNITS;
  a->few_rows = max_int(1, a->few_units / a->group);
  a->many_rows = max_int(1, (a->bf16 ? 2 * kernels_bf16(a->cpu)->mr : MANY_UNITS) / a->group);
  if (a->bf16) a->query_pairs = round_up(ceil_div(a->s->head_dim, 2), kernels_bf16(a->cpu)->unit);
  a->strip_units = round_up(min_int(a->many_rows, max_int(1, rows)) * a->group, GROUP);
  int units = rows * a->group;
  if (a->parts == 1) units = ceil_div(units * a->s->kv_heads, SPREAD);
  a->tile_units = max_int(a->strip_units, min_int(units, TILE));
}

Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse) {
  const ArenaMark mark = arena_mark(cx->arena);
  for (int i = 0; i < nspans; i++)
    if (spans[i].own->before != prefix_len(spans + i))
      return fail(GRPO_EARG, "attention: span %d has a prefix of %d keys, its segment one of %d", i,
                  prefix_len(spans + i), spans[i].own->before);
  Attn a = {
      .cpu = s->cpu, .s = s, .spans = spans, .q = q, .ldq = ldq, .ldo = ldo, .o = o, .lse = lse};
  a.bf16 = kv_in_bf16(s);
  choose_sizes(&a, nspans);
  try(run_tiles(cx, &a, nspans));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* attention_bf16.c - attention's forward for one strip of rows and one part of the keys, in
 * segments of bf16 pairs.
 *
 * Scores are [units, keys], with keys as lanes.  The sum over values runs in units of KV_UNIT
 * keys, which begin at the same logical positions whatever segments they are in: the unit in
 * which a prefix ends is assembled from both segments.
 */
#include "kern/attention_bf16.h"

#include <string.h>

/* Units [first, first + m) of a strip's rows: of one span, or all of them. */
typedef struct Units {
  const Row *rows;
  int n, first, m;
  int to; /* the end of the keys that some row sees */
} Units;

static const uint32_t *queries_of(const Attn *a, const Work *w, int unit) {
  return (const uint32_t *)(const void *)w->q + (ptrdiff_t)unit * a->query_pairs;
}

static void load_queries(const Attn *a, const Work *w, const Part *p, const Row *rows, int n) {
  const int g = a->group, hd = a->s->head_dim, pairs = ceil_div(hd, 2), ld = a->query_pairs;
  uint32_t *to = (uint32_t *)(void *)w->q;
  for (int j = 0; j < n; j++, to += g * ld) {
    const real *q = a->q + rows[j].row * a->ldq + p->kvh * g * hd;
    if (hd == 2 * ld) {
      kernels_bf16(a->cpu)->pair_row(g * hd, q, to);
      continue;
    }
    for (int u = 0; u < g; u++) {
      kernels_bf16(a->cpu)->pair_row(hd, q + u * hd, to + u * ld);
      memset(to + u * ld + pairs, 0, sizeof *to * (size_t)(ld - pairs));
    }
  }
}

/* ---- prefetching ---- */

static Fetch fetch_from(const uint32_t *x, ptrdiff_t pairs) {
  return (Fetch){(const char *)x, (const char *)(x + pairs)};
}

/* The places *from .. *to - 1 of its own segment that a row sees within the part. */
static void own_places(const Part *p, const Row *r, int *from, int *to) {
  const int base = prefix_len(r->span), first = kv_first_place(r->span->own);
  *from = first + max_int(0, max_int(r->lo, p->start) - base);
  if (r->span->own->grows) *from -= *from % KV_UNIT; /* reading begins there */
  *to = first + min_int(r->hi, p->start + PART) - base;
}

static Fetch row_values(const Attn *a, const Part *p, const Row *r) {
  int from, to;
  own_places(p, r, &from, &to);
  return fetch_from(kv_value_pairs(a->s, r->span->own, p->kvh, from),
                    (ptrdiff_t)ceil_div(to - from, 2) * a->padded_hd);
}

static Fetch row_keys(const Attn *a, const Part *p, const Row *r) {
  int from, to;
  own_places(p, r, &from, &to);
  from -= from % KV_BLOCK;
  return fetch_from(kv_key_pairs(a->s, r->span->own, p->kvh, from),
                    (ptrdiff_t)round_up(to - from, KV_BLOCK) / 2 * a->s->head_dim);
}

static const Fetch nothing;

/* ---- which keys ---- */

/* Logical keys [from, to) of a segment whose first place is at `start`; `from` begins a unit.  Some
 * keys of the unit before them belong to the prefix: `shared`. */
typedef struct Keys {
  const AttnSpan *span;
  const KvSeg *seg;
  int start, from, to;
  bool shared;
} Keys;

/* The prefix's whole units before `to`. */
static Keys prefix_keys(const Part *p, const AttnSpan *sp, int to) {
  const int whole = prefix_len(sp) / KV_UNIT * KV_UNIT;
  return (Keys){sp, sp->prefix, 0, p->from / KV_UNIT * KV_UNIT, min_int(to, whole), false};
}

/* The span's own keys before `to`, and the unit that they share with the prefix: kv_join has
 * assembled it, or else it is `shared`. */
static Keys own_keys(const Part *p, const AttnSpan *sp, int to) {
  const int start = prefix_len(sp) / KV_UNIT * KV_UNIT;
  const int base = sp->own->grows ? start : prefix_len(sp);
  const int part = p->from / KV_UNIT * KV_UNIT, from = max_int(part, round_up(base, KV_UNIT));
  return (Keys){sp,   sp->own,           start,
                from, max_int(from, to), start < base && part <= start && start < to};
}

/* ---- scores ---- */

/* Scores of units [u, u + m) with n keys at `keys`, from logical key `key` on.  Scores beyond the
 * keys, up to whole blocks, are not looked at. */
static void some_scores(const Attn *a, const Work *w, const Part *p, const Units *b, int u, int m,
                        const uint32_t *keys, int key, int n, Fetch *next) {
  const int pairs = ceil_div(a->s->head_dim, 2);
  kernels_bf16(a->cpu)->scores(m, round_up(n, KV_BLOCK), pairs, queries_of(a, w, b->first + u),
                               a->query_pairs, keys, pairs * KV_BLOCK,
                               w->scores + u * LD_SCORES + key - p->start, LD_SCORES, false, next);
}

static void scores(const Attn *a, const Work *w, const Part *p, const Units *b, int u, int m,
                   const Keys *k, Fetch next) {
  if (!k->seg) return; /* no prefix */
  const int end = max_int(k->from, min_int(k->to, k->start + kv_row_major_from(a->s, k->seg)));
  if (k->shared) {
    kv_shared_keys(a->s, k->span->prefix, k->seg, p->kvh, w->shared);
    some_scores(a, w, p, b, u, m, w->shared, k->start, KV_UNIT, &next);
  }
  if (k->from < end)
    some_scores(a, w, p, b, u, m, kv_key_pairs(a->s, k->seg, p->kvh, k->from - k->start), k->from,
                end - k->from, &next);
  if (end < k->to) {
    kv_transpose_last(a->s, k->seg, p->kvh, (real *)(void *)w->shared);
    some_scores(a, w, p, b, u, m, w->shared, end, k->to - end, &next);
  }
  fetch_rest(&next);
}

/* The end of the rows of b that belong to the span of row j0 */
static int same_span(const Units *b, int j0) {
  int j = j0;
  while (j < b->n && b->rows[j].span == b->rows[j0].span) j++;
  return j;
}

static bool one_span(const Units *b) { return b->rows[0].span == b->rows[b->n - 1].span; }

/* Tiles for all units and for `own` units of one span. */
static void use_rows(const Attn *a, const Units *b, int own) {
  const int mr = kernels_bf16(a->cpu)->mr;
  if (one_span(b))
    kernels_bf16(a->cpu)->begin(min_int(mr, b->m), max_int(0, b->m - mr));
  else
    kernels_bf16(a->cpu)->begin(b->m, own);
}

/* Units [u, u + m) of b, whose rows [j, end) belong to one span, and the span's own keys that they
 * see. */
typedef struct SpanUnits {
  int j, end, u, m;
  Keys own;
} SpanUnits;

/* Advances to the next span (start with {0}) and sets its tiles; returns false at the end. */
static bool next_span(const Attn *a, const Part *p, const Units *b, SpanUnits *s) {
  const bool lone = one_span(b);
  s->j = s->end;
  if (s->j >= b->n) return false;
  s->end = same_span(b, s->j);
  const Row *last = b->rows + s->end - 1;
  s->u = s->j * a->group;
  s->m = lone ? b->m : (s->end - s->j) * a->group;
  s->own = own_keys(p, last->span, lone ? b->to : min_int(p->to, last->hi));
  use_rows(a, b, s->m);
  return true;
}

static void all_scores(const Attn *a, const Work *w, const Part *p, const Units *b) {
  const Keys before = prefix_keys(p, b->rows[0].span, b->to);
  use_rows(a, b, same_span(b, 0) * a->group);
  scores(a, w, p, b, 0, b->m, &before, nothing);
  for (SpanUnits s = {0}; next_span(a, p, b, &s);)
    scores(a, w, p, b, s.u, s.m, &s.own,
           one_span(b) && b->n > 1 ? nothing : row_values(a, p, b->rows + s.end - 1));
}

/* ---- softmax ---- */

static void softmax(const Attn *a, const Work *w, const Part *p, const Units *b, const Sums *to) {
  const int g = a->group, first = p->from - p->start;
  const real cap = a->s->softcap;
  for (int u = 0, m; u < b->m; u += m) {
    const Row *r = b->rows + (b->first + u) / g;
    const int lo = max_int(r->lo - p->start, first), hi = min_int(r->hi, p->to) - p->start;
    real *z = w->scores + u * LD_SCORES;
    m = min_int(b->m - u, g - (b->first + u) % g);
    for (int i = 0; i < m && cap > 0 && lo < hi; i++) {
      real *x = z + i * LD_SCORES + lo;
      kernels(a->cpu)->softcap((size_t)(hi - lo), a->s->scale, cap, x, x);
    }
    kernels_bf16(a->cpu)->softmax(m, first, b->to - p->start, lo, hi, cap > 0 ? 1 : a->s->scale, z,
                                  LD_SCORES, w->pairs + u * LD_PAIRS, LD_PAIRS,
                                  to->max + b->first + u, to->sum + b->first + u);
  }
}

/* ---- values ---- */

/* Adds the values for units [u, u + m); returns false if there were none. */
static bool add_values(const Attn *a, const Work *w, const Part *p, const Units *b, int u, int m,
                       const Keys *k, const Sums *to, bool add, Fetch next) {
  const int at = (k->shared ? k->start : k->from) - p->start;
  const int n = max_int(0, k->to - k->from);
  if (!k->shared && n == 0) return false;
  if (k->shared) kv_shared_values(a->s, k->span->prefix, k->seg, p->kvh, w->shared);
  kernels_bf16(a->cpu)->values(
      m, a->padded_hd, ceil_div(n, 2), w->pairs + u * LD_PAIRS + at / 2, LD_PAIRS,
      k->shared ? w->shared : NULL, kv_value_pairs(a->s, k->seg, p->kvh, k->from - k->start),
      a->padded_hd, to->out + (ptrdiff_t)(b->first + u) * a->padded_hd, a->padded_hd, add, &next);
  fetch_rest(&next);
  return true;
}

/* Keys that a row does not see have a probability of 0, which adds nothing. */
static void all_values(const Attn *a, const Work *w, const Part *p, const Units *b,
                       const Sums *to) {
  const Keys before = prefix_keys(p, b->rows[0].span, b->to);
  const bool some = add_values(a, w, p, b, 0, b->m, &before, to, false, nothing);
  for (SpanUnits s = {0}; next_span(a, p, b, &s);)
    add_values(a, w, p, b, s.u, s.m, &s.own, to, some,
               s.j < p->nnext ? row_keys(a, p, p->next + s.j) : nothing);
}

void attn_part_bf16(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                    const Sums *to) {
  const int g = a->group, most = 2 * kernels_bf16(a->cpu)->mr;
  Units b = {.rows = rows, .n = n, .m = n * g, .to = p->to};
  load_queries(a, w, p, rows, n);
  for (; b.first < n * g; b.first += b.m) {
    if (one_span(&b)) {
      b.m = min_int(n * g - b.first, most);
      b.to = min_int(p->to, rows[(b.first + b.m - 1) / g].hi);
    }
    if (b.to <= p->from) continue; /* these rows see no key of the part */
    all_scores(a, w, p, &b);
    softmax(a, w, p, &b, to);
    all_values(a, w, p, &b, to);
  }
}

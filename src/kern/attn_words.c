/* attn_words.c - attention's forward for a strip of rows and a part of the keys, segments in words.
 *
 * Scores are [units, keys], keys being lanes.  The sum over values runs by units of keys (kv_unit), which
 * begin at the same logical positions whatever segments they lie in: the unit in which a prefix ends
 * is put together from both.
 */
#include "kern/attention.h"

#include <string.h>

/* Units [first, first + m) of a strip's rows: of one span, or all of them. */
typedef struct Units {
  const Row *rows;
  int n, first, m;
  int to; /* the end of the keys that some row sees */
} Units;

static const uint32_t *queries_of(const Attn *a, const Work *w, int unit) {
  return (const uint32_t *)(const void *)w->q + (ptrdiff_t)unit * a->query_words;
}

static void load_queries(const Attn *a, const Work *w, const Part *p, const Row *rows, int n) {
  const int g = a->group, hd = a->s->head_dim, words = kern_ceil(hd, 2), ld = a->query_words;
  uint32_t *to = (uint32_t *)(void *)w->q;
  for (int j = 0; j < n; j++, to += g * ld) {
    const real *q = a->q + rows[j].row * a->ldq + p->kvh * g * hd;
    if (hd == 2 * ld) {
      kernels16()->pair_row(g * hd, q, to);
      continue;
    }
    for (int u = 0; u < g; u++) {
      kernels16()->pair_row(hd, q + u * hd, to + u * ld);
      memset(to + u * ld + words, 0, sizeof *to * (size_t)(ld - words));
    }
  }
}

/* ---- what decoding reads from memory ----
 * Every sequence's own keys and values are read once, in streams so short that the CPU sees them too
 * late: values are fetched while scores are made, the next strip's keys after. */

static void fetch(const uint32_t *x, ptrdiff_t words) {
  for (ptrdiff_t i = 0; i < words; i += GROUP) __builtin_prefetch(x + i);
}

/* What a row sees of its own segment within the part: keys *from .. *to - 1 */
static void own_keys(const Part *p, const Row *r, int *from, int *to) {
  const int base = prefix_len(r->span);
  *from = kern_max(0, kern_max(r->lo, p->start) - base);
  *to = kern_min(r->hi, p->start + PART) - base;
}

static void fetch_values(const Attn *a, const Part *p, const Row *r) {
  int from, to;
  own_keys(p, r, &from, &to);
  fetch(kv_value_words(a->s, r->span->own, p->kvh, from), (ptrdiff_t)(to - from) / 2 * a->hd16);
}

static void fetch_keys(const Attn *a, const Part *p, const Row *r) {
  int from, to;
  own_keys(p, r, &from, &to);
  from -= from % KV_BLOCK;
  fetch(kv_key_words(a->s, r->span->own, p->kvh, from),
        (ptrdiff_t)round_up(to - from, KV_BLOCK) / 2 * a->s->head_dim);
}

/* ---- scores ---- */

/* Units [u, u + m) with a segment that starts at logical key base, in whole blocks: what is too much is
 * overwritten or not looked at. */
static void segment_scores(const Attn *a, const Work *w, const Part *p, const Units *b, int u,
                           int m, const KvSeg *seg, int base, int to) {
  const int words = kern_ceil(a->s->head_dim, 2);
  const int from = kern_max(0, p->from - base) / KV_BLOCK * KV_BLOCK;
  const int end = round_up(kern_min(p->to, to) - base, KV_BLOCK);
  if (from < end)
    kernels16()->scores(m, end - from, words, queries_of(a, w, b->first + u), a->query_words,
                        kv_key_words(a->s, seg, p->kvh, from), words * KV_BLOCK,
                        w->scores + u * LD_SCORES + base + from - p->start, LD_SCORES);
}

/* The end of the rows of b that belong to the span of row j0 */
static int same_span(const Units *b, int j0) {
  int j = j0;
  while (j < b->n && b->rows[j].span == b->rows[j0].span) j++;
  return j;
}

static bool one_span(const Units *b) { return b->rows[0].span == b->rows[b->n - 1].span; }

/* Tiles for all units and for `own` units of one span. */
static void use_rows(const Units *b, int own) {
  const int mr = kernels16()->mr;
  if (one_span(b))
    kernels16()->begin(kern_min(mr, b->m), kern_max(0, b->m - mr));
  else
    kernels16()->begin(b->m, own);
}

static void all_scores(const Attn *a, const Work *w, const Part *p, const Units *b) {
  const KvSeg *prefix = b->rows[0].span->prefix;
  const int g = a->group, base = prefix_len(b->rows[0].span);
  use_rows(b, same_span(b, 0) * g);
  if (prefix) segment_scores(a, w, p, b, 0, b->m, prefix, 0, base);
  if (one_span(b)) {
    fetch_values(a, p, b->rows + (b->first + b->m - 1) / g);
    segment_scores(a, w, p, b, 0, b->m, b->rows[0].span->own, base, b->to);
    return;
  }
  for (int j0 = 0, j1; j0 < b->n; j0 = j1) {
    j1 = same_span(b, j0);
    fetch_values(a, p, b->rows + j1 - 1);
    use_rows(b, (j1 - j0) * g);
    segment_scores(a, w, p, b, j0 * g, (j1 - j0) * g, b->rows[j0].span->own, base,
                   b->rows[j1 - 1].hi);
  }
}

/* ---- softmax ---- */

static void softmax(const Attn *a, const Work *w, const Part *p, const Units *b, const Sums *to) {
  const int g = a->group, first = p->from - p->start, unit = kv_unit();
  const real cap = a->s->softcap;
  for (int u = 0, m; u < b->m; u += m) {
    const Row *r = b->rows + (b->first + u) / g;
    const int lo = kern_max(r->lo - p->start, first), hi = kern_min(r->hi, p->to) - p->start;
    real *z = w->scores + u * LD_SCORES;
    m = kern_min(b->m - u, g - (b->first + u) % g);
    for (int i = 0; i < m && cap > 0 && lo < hi; i++) {
      real *x = z + i * LD_SCORES + lo;
      kernels()->softcap((size_t)(hi - lo), a->s->scale, cap, x, x);
    }
    kernels16()->softmax(m, first / unit * unit, round_up(b->to - p->start, unit), lo, hi,
                         cap > 0 ? 1 : a->s->scale, z, LD_SCORES, w->pairs + u * LD_PAIRS, LD_PAIRS,
                         to->max + b->first + u, to->sum + b->first + u);
  }
}

/* ---- values ---- */

/* Units [u, u + m): the shared unit at logical key `shared`, if that is not negative, and whole units of a
 * segment, logical keys [from, to), which lie at `values`. */
static void add_units(const Attn *a, const Work *w, const Part *p, const Units *b, int u, int m,
                      int shared, int from, int to, const uint32_t *values, const Sums *out,
                      bool add) {
  const int at = shared < 0 ? from : shared;
  kernels16()->values(m, a->hd16, kern_max(0, to - from) / kv_unit(),
                      w->pairs + u * LD_PAIRS + (at - p->start) / 2, LD_PAIRS,
                      shared < 0 ? NULL : w->shared, values, a->hd16,
                      out->out + (ptrdiff_t)(b->first + u) * a->hd16, a->hd16, add);
}

/* The same from the span's own segment, and the unit that it shares with the prefix. */
static void add_own(const Attn *a, const Work *w, const Part *p, const Units *b, int u, int m,
                    const AttnSpan *sp, int to, const Sums *out, bool add) {
  const int unit = kv_unit(), base = prefix_len(sp), down = base / unit * unit;
  const int part = p->from / unit * unit, from = kern_max(part, round_up(base, unit));
  const bool shares = base > down && part <= down && down < to;
  if (!shares && from >= to) return;
  if (shares) kv_shared_unit(a->s, sp->prefix, sp->own, p->kvh, w->shared);
  add_units(a, w, p, b, u, m, shares ? down : -1, from, to,
            kv_value_words(a->s, sp->own, p->kvh, from - base), out, add);
}

/* Keys that a row does not see have a probability of 0, which adds nothing. */
static void all_values(const Attn *a, const Work *w, const Part *p, const Units *b,
                       const Sums *out) {
  const AttnSpan *sp = b->rows[0].span;
  const int g = a->group, unit = kv_unit(), from = p->from / unit * unit;
  const int whole = kern_min(round_up(b->to, unit), prefix_len(sp) / unit * unit);
  const bool some = from < whole;
  if (some)
    add_units(a, w, p, b, 0, b->m, -1, from, whole, kv_value_words(a->s, sp->prefix, p->kvh, from),
              out, false);
  if (one_span(b)) {
    if (p->nnext) fetch_keys(a, p, p->next);
    add_own(a, w, p, b, 0, b->m, sp, round_up(b->to, unit), out, some);
    return;
  }
  for (int j0 = 0, j1; j0 < b->n; j0 = j1) {
    j1 = same_span(b, j0);
    if (j0 < p->nnext) fetch_keys(a, p, p->next + j0);
    use_rows(b, (j1 - j0) * g);
    add_own(a, w, p, b, j0 * g, (j1 - j0) * g, b->rows[j0].span,
            round_up(kern_min(p->to, b->rows[j1 - 1].hi), unit), out, some);
  }
}

void attn_words(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                const Sums *to) {
  const int g = a->group, most = 2 * kernels16()->mr;
  Units b = {.rows = rows, .n = n, .m = n * g, .to = p->to};
  load_queries(a, w, p, rows, n);
  for (; b.first < n * g; b.first += b.m) {
    if (one_span(&b)) {
      b.m = kern_min(n * g - b.first, most);
      b.to = kern_min(p->to, rows[(b.first + b.m - 1) / g].hi);
    }
    if (b.to <= p->from) continue; /* these rows see nothing of the part */
    all_scores(a, w, p, &b);
    softmax(a, w, p, &b, to);
    all_values(a, w, p, &b, to);
  }
}

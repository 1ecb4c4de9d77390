/* attention_f32.c - attention's forward for a strip of rows and a part of the keys.
 *
 * A strip of few units: scores are [units, keys], keys being lanes; for a few rows.  A strip of
 * many units: scores are [keys, units], queries being lanes; softmax then needs no sums across
 * lanes, and no key is computed for padding.  Both give the same bits: a score is the same sum over
 * head_dim, a unit's exponentials are summed by position modulo the lanes of a vector, and its
 * values by key.
 */
#include "kern/attention_f32.h"

#include <string.h>

/* the end of the rows that belong to the span of rows[j0] */
static int same_span(const Row *rows, int j0, int n) {
  int j = j0;
  while (j < n && rows[j].span == rows[j0].span) j++;
  return j;
}

/* Decoding reads every sequence's own keys and values once, from memory, in streams too short for
 * the CPU's prefetcher.  So values are prefetched while scores are computed, and the next strip's
 * keys after them. */
static Fetch reals_from(const real *x, ptrdiff_t n) {
  return (Fetch){(const char *)x, (const char *)(x + n)};
}

/* The keys *from .. *to - 1 of its own segment that a row sees within the part. */
static void own_keys(const Part *p, const Row *r, int *from, int *to) {
  const int base = prefix_len(r->span);
  *from = max_int(0, max_int(r->lo, p->start) - base);
  *to = min_int(r->hi, p->start + PART) - base;
}

static Fetch row_values(const Attn *a, const Part *p, const Row *r) {
  const KvSeg *seg = r->span->own;
  const ptrdiff_t hd = a->s->head_dim;
  int from, to;
  if (a->s->v_dim) return (Fetch){0};
  own_keys(p, r, &from, &to);
  return reals_from(seg->v + ((ptrdiff_t)p->kvh * seg->cap + from) * hd, (to - from) * hd);
}

static Fetch row_keys(const Attn *a, const Part *p, const Row *r) {
  const KvSeg *seg = r->span->own;
  const ptrdiff_t hd = a->s->head_dim;
  int from, to;
  own_keys(p, r, &from, &to);
  from -= from % KV_BLOCK;
  return reals_from(seg->k + ((ptrdiff_t)p->kvh * seg->cap + from) * hd,
                    round_up(to - from, KV_BLOCK) * hd);
}

/* ---- few units: keys as lanes ---- */

/* The keys of a kv head in blocks, from key j of a segment on, the first of a block. */
static const real *keys_at(const Attn *a, const Part *p, const KvSeg *seg, int j) {
  return seg->k + ((ptrdiff_t)p->kvh * seg->cap + j) * a->s->head_dim;
}

/* Block of keys j of a segment whose keys, or whose last block, are row-major; transposed. */
static const real *transposed_block(const Attn *a, const Work *w, const Part *p, const KvSeg *seg,
                                    int j) {
  const int hd = a->s->head_dim;
  if (a->s->v_dim)
    kernels(a->cpu)->transpose(KV_BLOCK, hd, keys_at(a, p, seg, j), hd, w->keys, KV_BLOCK);
  else
    kv_transpose_last(a->s, seg, p->kvh, w->keys);
  return w->keys;
}

/* Scores of units [u0, u1) with n keys in transposed blocks, from logical key `key` on. */
static void scores_of(const Attn *a, const Work *w, const Part *p, int u0, int u1, const real *keys,
                      int n, int key, Fetch *next) {
  const ptrdiff_t hd = a->s->head_dim;
  kernels(a->cpu)->few_rows(u1 - u0, n, a->s->head_dim, w->q + u0 * hd, hd, keys, KV_BLOCK,
                            hd * KV_BLOCK, w->scores + u0 * LD_SCORES + key - p->start, LD_SCORES,
                            false, next);
}

/* Scores with n row-major keys, block j of a segment. */
static void scores_of_rows(const Attn *a, const Work *w, const Part *p, int u0, int u1,
                           const KvSeg *seg, int j, int n, int key, Fetch *next) {
  const int hd = a->s->head_dim;
  if (a->s->v_dim || u1 - u0 > FEW_ROWS || hd % GROUP)
    scores_of(a, w, p, u0, u1, transposed_block(a, w, p, seg, j), KV_BLOCK, key, next);
  else
    kernels(a->cpu)->few_rows_transposed(
        u1 - u0, n, hd, w->q + u0 * hd, hd, kv_last_rows(a->s, seg, p->kvh),
        w->scores + u0 * LD_SCORES + key - p->start, LD_SCORES, next);
}

/* Units [u0, u1) and the keys of a segment that starts at logical key base: computes scores in
 * whole groups (what exceeds the segment is overwritten or masked), or sums over values. */
static void scores(const Attn *a, const Work *w, const Part *p, int u0, int u1, const KvSeg *seg,
                   int base, int to, Fetch next) {
  int j = max_int(0, p->from - base) / KV_BLOCK * KV_BLOCK;
  const int end = min_int(p->to, to) - base;
  to = round_up(end, KV_BLOCK);
  const int transposed = a->s->v_dim ? 0 : min_int(to, kv_row_major_from(a->s, seg));
  if (j < transposed) {
    scores_of(a, w, p, u0, u1, keys_at(a, p, seg, j), transposed - j, base + j, &next);
    j = transposed;
  }
  for (; j < to; j += KV_BLOCK)
    scores_of_rows(a, w, p, u0, u1, seg, j, min_int(end - j, KV_BLOCK), base + j, &next);
  fetch_rest(&next);
}

static bool add_values(const Attn *a, const Work *w, const Part *p, int u0, int u1,
                       const KvSeg *seg, int base, int to, real *out, bool add, Fetch next) {
  const ptrdiff_t hd = a->s->head_dim;
  const int from = max_int(0, p->from - base);
  to = min_int(p->to, to) - base;
  if (from >= to) return add;
  kernels(a->cpu)->few_rows(u1 - u0, a->padded_hd, to - from,
                            w->scores + u0 * LD_SCORES + base + from - p->start, LD_SCORES,
                            seg->v + ((ptrdiff_t)p->kvh * seg->cap + from) * hd, hd, GROUP,
                            out + u0 * a->padded_hd, a->padded_hd, add, &next);
  fetch_rest(&next);
  return true;
}

static void all_scores(const Attn *a, const Work *w, const Part *p, const Row *rows, int n) {
  const KvSeg *prefix = rows[0].span->prefix;
  if (prefix) scores(a, w, p, 0, n * a->group, prefix, 0, prefix->len, (Fetch){0});
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    scores(a, w, p, j0 * a->group, j1 * a->group, rows[j0].span->own, prefix_len(rows[j0].span),
           rows[j1 - 1].hi, row_values(a, p, rows + j1 - 1));
  }
}

/* Keys that a row does not see have a probability of 0, which adds nothing. */
static void all_values(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                       real *out) {
  const KvSeg *prefix = rows[0].span->prefix;
  bool some = prefix &&
              add_values(a, w, p, 0, n * a->group, prefix, 0, prefix->len, out, false, (Fetch){0});
  for (int j0 = 0, j1; j0 < n; j0 = j1) {
    j1 = same_span(rows, j0, n);
    add_values(a, w, p, j0 * a->group, j1 * a->group, rows[j0].span->own, prefix_len(rows[j0].span),
               rows[j1 - 1].hi, out, some,
               j0 < p->nnext ? row_keys(a, p, p->next + j0) : (Fetch){0});
  }
}

/* Emulated bf16.  As in the native path the denominator sums the *unrounded* exponentials: rounding
 * to nearest is unbiased, so only the numerators carry it. */
static void round_scores(const Attn *a, real *z, int rows, int n, ptrdiff_t ld) {
  for (int i = 0; i < rows; i++) kernels(a->cpu)->round_bf16((size_t)n, z + i * ld, z + i * ld);
}

static void few_units_strip(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                            const Sums *to) {
  const Kernels *kn = kernels(a->cpu);
  const int g = a->group, first = p->from - p->start;
  const real cap = a->s->softcap;
  all_scores(a, w, p, rows, n);
  for (int j = 0; j < n; j++) {
    const int lo = max_int(rows[j].lo - p->start, first),
              hi = min_int(rows[j].hi, p->to) - p->start;
    real *z = w->scores + j * g * LD_SCORES;
    for (int u = 0; u < g && cap > 0 && lo < hi; u++) {
      real *x = z + u * LD_SCORES + lo;
      kn->softcap((size_t)(hi - lo), a->s->scale, cap, x, x);
    }
    kn->softmax(g, first, p->to - p->start, lo, hi, cap > 0 ? 1 : a->s->scale, z, LD_SCORES,
                to->max + j * g, to->sum + j * g);
  }
  if (attn_rounds(a->s)) round_scores(a, w->scores + first, n * g, p->to - p->from, LD_SCORES);
  all_values(a, w, p, rows, n, to->out);
}

/* ---- many units: queries as lanes ---- */

/* The end of the part's keys that units before u see; rows ascend. */
static int keys_before(const Attn *a, const Part *p, const Row *rows, int n, int u) {
  return min_int(p->to, rows[min_int(n - 1, (u - 1) / a->group)].hi);
}

/* Stores Q as [groups of units][head_dim][GROUP]. */
static void transpose_queries(const Attn *a, const Work *w, int units) {
  const int hd = a->s->head_dim, padded_units = round_up(units, GROUP);
  memset(w->q + units * hd, 0, sizeof(real) * (size_t)((padded_units - units) * hd));
  for (int u = 0; u < padded_units; u += GROUP)
    kernels(a->cpu)->transpose(GROUP, hd, w->q + u * hd, hd, w->qt + u * hd, GROUP);
}

/* Scores of all units with the keys of a segment, block by block, for the units that see some key
 * of the block. */
static void wide_scores(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                        const KvSeg *seg, int base, int to) {
  const ptrdiff_t hd = a->s->head_dim;
  const bool as_rows = a->s->v_dim > 0;
  const int padded_units = round_up(n * a->group, GROUP);
  to = min_int(p->to, to) - base;
  for (int j = max_int(0, p->from - base), m, u = 0; j < to; j += m) {
    m = min_int(KV_BLOCK - j % KV_BLOCK, to - j);
    while (keys_before(a, p, rows, n, u + GROUP) <= base + j) u += GROUP;
    const int first = j - j % KV_BLOCK;
    const real *keys = as_rows || first < kv_row_major_from(a->s, seg)
                           ? keys_at(a, p, seg, first)
                           : transposed_block(a, w, p, seg, first);
    kernels(a->cpu)->block(
        m, padded_units - u, a->s->head_dim, keys + j % KV_BLOCK * (as_rows ? hd : 1),
        as_rows ? hd : 1, as_rows ? 1 : KV_BLOCK, w->qt + u * hd, GROUP, hd * GROUP,
        w->scores + (base + j - p->start) * padded_units + u, padded_units, false);
  }
}

/* Units [u0, u1): out (+)= P V over keys of a segment that they see */
static bool wide_values(const Attn *a, const Work *w, const Part *p, int padded_units, int u0,
                        int u1, const KvSeg *seg, int base, int to, real *out, bool add) {
  const ptrdiff_t hd = a->s->head_dim;
  const int from = max_int(0, p->from - base);
  if (from >= to - base) return add;
  kernels(a->cpu)->block(u1 - u0, a->padded_hd, to - base - from,
                         w->scores + (base + from - p->start) * padded_units + u0, 1, padded_units,
                         seg->v + ((ptrdiff_t)p->kvh * seg->cap + from) * hd, hd, GROUP,
                         out + u0 * a->padded_hd, a->padded_hd, add);
  return true;
}

static void wide_softmax(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                         const Sums *to) {
  const int units = n * a->group, padded_units = round_up(units, GROUP);
  const real cap = a->s->softcap;
  real max[GROUP], sum[GROUP];
  int lo[GROUP], hi[GROUP], head = 0;
  const Row *r = rows;
  for (int u = 0; u < padded_units; u += GROUP) {
    const int end = keys_before(a, p, rows, n, u + GROUP) - p->start;
    for (int i = 0; i < GROUP; i++) {
      if (head == a->group) r += r < rows + n - 1, head = 0;
      lo[i] = r->lo - p->start, hi[i] = r->hi - p->start;
      head++;
    }
    for (int j = p->from - p->start; j < end && cap > 0; j++) {
      real *z = w->scores + j * padded_units + u;
      kernels(a->cpu)->softcap(GROUP, a->s->scale, cap, z, z);
    }
    kernels(a->cpu)->softmax_down(p->from - p->start, end, lo, hi, cap > 0 ? 1 : a->s->scale,
                                  w->scores + u, padded_units, max, sum);
    if (attn_rounds(a->s))
      round_scores(a, w->scores + (p->from - p->start) * padded_units + u,
                   end - (p->from - p->start), GROUP, padded_units);
    const size_t bytes = sizeof(real) * (size_t)min_int(GROUP, units - u);
    memcpy(to->max + u, max, bytes);
    memcpy(to->sum + u, sum, bytes);
  }
}

static void many_units_strip(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                             const Sums *to) {
  const KvSeg *prefix = rows[0].span->prefix, *own = rows[0].span->own;
  const int units = n * a->group, padded_units = round_up(units, GROUP),
            base = prefix_len(rows[0].span);
  const int prefix_to = min_int(p->to, base);
  transpose_queries(a, w, units);
  if (prefix) wide_scores(a, w, p, rows, n, prefix, 0, base);
  wide_scores(a, w, p, rows, n, own, base, p->to);
  wide_softmax(a, w, p, rows, n, to);
  const bool some =
      prefix && wide_values(a, w, p, padded_units, 0, units, prefix, 0, prefix_to, to->out, false);
  for (int u = 0; u < units; u += FEW_UNITS) {
    const int end = min_int(units, u + FEW_UNITS);
    wide_values(a, w, p, padded_units, u, end, own, base, keys_before(a, p, rows, n, end), to->out,
                some);
  }
}

void attn_part_f32(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                   const Sums *to) {
  const int g = a->group, hd = a->s->head_dim;
  for (int j = 0; j < n; j++) {
    const real *q = a->q + rows[j].row * a->ldq + p->kvh * g * hd;
    if (attn_rounds(a->s))
      kernels(a->cpu)->round_bf16((size_t)(g * hd), q, w->q + j * g * hd);
    else
      memcpy(w->q + j * g * hd, q, sizeof(real) * (size_t)(g * hd));
  }
  if (has_many_units(a, rows, n))
    many_units_strip(a, w, p, rows, n, to);
  else
    few_units_strip(a, w, p, rows, n, to);
}

/* Attention on every path and in both modes: against softmax in double, decoding against training,
 * threads. */
#include "base/half.h"
#include "kern/attention.h"
#include "kern/attention_grad.h"
#include "kern_test.h"

enum { MAX_SPANS = 8, NCASES = 2 * NPATHS };

/* Path i % NPATHS, in float32 and then in bf16 (`mode`, which new groups have). */
static Compute mode;
static bool use_case(int i) {
  mode = i < NPATHS ? COMPUTE_F32 : COMPUTE_BF16;
  return use_path(i % NPATHS);
}

/* A packed group: a prompt and its completions, as training sees it. */
typedef struct Group {
  AttnShape s;
  int nspans, rows;
  KvSeg seg[MAX_SPANS];
  AttnSpan spans[MAX_SPANS];
  float *q, *k, *v, *o, *lse, *dout;
} Group;

static int q_width(const AttnShape *s) { return s->heads * s->head_dim; }
static int kv_width(const AttnShape *s) { return s->kv_heads * s->head_dim; }
static int o_width(const AttnShape *s) { return s->heads * attn_value_dim(s); }

static KvSeg new_seg(const AttnShape *s, int before, int len, int row0) {
  const int cap = (len + KV_BLOCK) / KV_BLOCK * KV_BLOCK;
  const size_t n = kv_size(s, kv_places(s, cap, -1));
  const size_t all = n * (size_t)kv_blocks(s);
  KvSeg g = kv_segment(s, floats(all), cap, -1);
  for (size_t i = 0; i < all; i++) g.k[i] = NAN; /* what is not stored is garbage */
  g.len = len;
  g.row0 = row0;
  g.before = before;
  return g;
}

/* lens[0] is the prompt's length (0: none); the others are completions. */
static Group *new_group(AttnShape s, int n, const int *lens) {
  Group *g = calloc(1, sizeof *g);
  s.compute = mode;
  g->s = s;
  for (int i = 0; i < n; i++) {
    g->seg[i] = new_seg(&s, i ? lens[0] : 0, lens[i], g->rows);
    if (lens[i])
      g->spans[g->nspans++] =
          (AttnSpan){i && lens[0] ? &g->seg[0] : NULL, &g->seg[i], g->rows, lens[i], 0};
    g->rows += lens[i];
  }
  const size_t r = (size_t)g->rows, qw = (size_t)q_width(&s), kw = (size_t)kv_width(&s);
  const size_t ow = (size_t)o_width(&s);
  g->q = randoms(r * qw), g->k = randoms(r * kw), g->v = s.v_dim ? g->k : randoms(r * kw);
  g->o = floats(r * ow), g->lse = floats(r * (size_t)s.heads), g->dout = randoms(r * ow);
  for (int i = 0; i < n; i++)
    kv_store(&s, &g->seg[i], 0, lens[i], g->k + (size_t)g->seg[i].row0 * kw, (int)kw,
             g->v + (size_t)g->seg[i].row0 * kw, (int)kw);
  return g;
}

static void free_group(Group *g) {
  for (int i = 0; i < MAX_SPANS; i++) free(g->seg[i].k);
  free(g->v == g->k ? NULL : g->v);
  free(g->q), free(g->k), free(g->o), free(g->lse), free(g->dout), free(g);
}

/* The row of k and v that holds logical key j of a span. */
static int key_row(const AttnSpan *sp, int j) {
  const int plen = sp->prefix ? sp->prefix->len : 0;
  return j < plen ? sp->prefix->row0 + j : sp->own->row0 + j - plen;
}

/* The results, and by how much rounding in bf16 may move each. */
typedef struct Wanted {
  double *o, *lse, *dq, *dk, *dv;
  double *o_off, *dq_off, *dk_off, *dv_off;
} Wanted;

static void free_wanted(Wanted *w) {
  free(w->o), free(w->lse), free(w->dq), free(w->dk), free(w->dv);
  free(w->o_off), free(w->dq_off), free(w->dk_off), free(w->dv_off);
}

static double dotd(const float *a, const float *b, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
  return s;
}

/* The score of a dot product, and its derivative. */
static double score(const AttnShape *s, double x, double *slope) {
  const double scale = (double)s->scale, cap = (double)s->softcap, t = tanh(x * scale / cap);
  *slope = cap > 0 ? scale * (1 - t * t) : scale;
  return cap > 0 ? cap * t : x * scale;
}

/* Bf16 has 8 significant bits: a rounded number is off by at most this part of it.  P, dS, dO are;
 * queries, keys and values come rounded. */
static const double OFF = 1.0 / 256;

/* The error that key j of row i allows: through P in o, through D and dP in dS, and beyond. */
static void add_off(const Group *g, Wanted *w, int q_at, int o_at, int k_at, double p, double ds,
                    double slope, const double *o) {
  const float *q = g->q + q_at, *k = g->k + k_at, *v = g->v + k_at, *go = g->dout + o_at;
  const int hd = g->s.head_dim, vd = attn_value_dim(&g->s);
  double dp_off = 0;
  for (int c = 0; c < vd; c++)
    dp_off += fabs((double)go[c]) * (fabs((double)v[c]) + fabs(o[c]) + w->o_off[o_at + c]) * OFF +
              fabs((double)go[c]) * w->o_off[o_at + c];
  const double ds_off = OFF * fabs(ds) + (1 + 2 * OFF) * p * slope * dp_off;
  for (int c = 0; c < hd; c++) {
    w->dq_off[q_at + c] += ds_off * fabs((double)k[c]);
    w->dk_off[k_at + c] += ds_off * fabs((double)q[c]);
  }
  for (int c = 0; c < vd; c++) w->dv_off[k_at + c] += 2 * OFF * (1 + OFF) * p * fabs((double)go[c]);
}

static void want_row(const Group *g, const AttnSpan *sp, int i, int h, Wanted *w) {
  const AttnShape *s = &g->s;
  const int hd = s->head_dim, qw = q_width(s), kw = kv_width(s), kv = h / (s->heads / s->kv_heads);
  const int vd = attn_value_dim(s), ow = o_width(s);
  const int pos = (sp->prefix ? sp->prefix->len : 0) + i, row = sp->row + i;
  const int lo = s->window && pos - s->window + 1 > 0 ? pos - s->window + 1 : 0;
  const int last = s->bidirectional ? pos - i + sp->own->len - 1 : pos;
  const int hi = s->window && last - pos >= s->window ? pos + s->window - 1 : last;
  const float *q = g->q + row * qw + h * hd, *go = g->dout + row * ow + h * vd;
  double *p = calloc((size_t)hi + 1, sizeof *p), *o = w->o + row * ow + h * vd;
  double max = -HUGE_VAL, sum = 0, d = 0, slope;
  for (int j = lo; j <= hi; j++) {
    p[j] = score(s, dotd(q, g->k + key_row(sp, j) * kw + kv * hd, hd), &slope);
    max = fmax(max, p[j]);
  }
  for (int j = lo; j <= hi; j++) sum += p[j] = exp(p[j] - max);
  for (int j = lo; j <= hi; j++)
    for (int c = 0; c < vd; c++)
      o[c] += (p[j] / sum) * (double)g->v[key_row(sp, j) * kw + kv * hd + c],
          w->o_off[row * ow + h * vd + c] +=
          OFF * (p[j] / sum) * fabs((double)g->v[key_row(sp, j) * kw + kv * hd + c]);
  w->lse[row * s->heads + h] = max + log(sum);
  for (int c = 0; c < vd; c++) d += (double)go[c] * o[c];
  for (int j = lo; j <= hi; j++) {
    const int at = key_row(sp, j) * kw + kv * hd;
    score(s, dotd(q, g->k + at, hd), &slope);
    const double ds = p[j] / sum * (dotd(go, g->v + at, vd) - d) * slope;
    for (int c = 0; c < hd; c++) {
      w->dq[row * qw + h * hd + c] += ds * (double)g->k[at + c];
      w->dk[at + c] += ds * (double)q[c];
    }
    for (int c = 0; c < vd; c++) w->dv[at + c] += p[j] / sum * (double)go[c];
    if (attn_rounds(s))
      add_off(g, w, row * qw + h * hd, row * ow + h * vd, at, p[j] / sum, ds, slope, o);
  }
  free(p);
}

static Wanted want_all(const Group *g) {
  const size_t r = (size_t)g->rows, qw = (size_t)q_width(&g->s), kw = (size_t)kv_width(&g->s);
  const size_t ow = (size_t)o_width(&g->s);
  Wanted w = {calloc(r * ow, 8), calloc(r * (size_t)g->s.heads, 8),
              calloc(r * qw, 8), calloc(r * kw, 8),
              calloc(r * kw, 8), calloc(r * ow, 8),
              calloc(r * qw, 8), calloc(r * kw, 8),
              calloc(r * kw, 8)};
  for (int i = 0; i < g->nspans; i++)
    for (int j = 0; j < g->spans[i].n; j++)
      for (int h = 0; h < g->s.heads; h++) want_row(g, &g->spans[i], j, h, &w);
  return w;
}

static float *rounded(const float *x, size_t n) {
  float *y = floats(n);
  for (size_t i = 0; i < n; i++) y[i] = bf16_to_f32(f32_to_bf16(x[i]));
  return y;
}

/* The results that the group should give, from the inputs as its mode rounds them. */
static Wanted want_mode(const Group *g) {
  if (!attn_rounds(&g->s)) return want_all(g);
  const size_t r = (size_t)g->rows, kw = (size_t)kv_width(&g->s);
  Group h = *g;
  h.q = rounded(g->q, r * (size_t)q_width(&g->s));
  h.k = rounded(g->k, r * kw), h.v = rounded(g->v, r * kw);
  const Wanted w = want_all(&h);
  free(h.q), free(h.k), free(h.v);
  return w;
}

/* Is a within tol of b, and what rounding may do? */
static bool within(const Group *g, const float *a, const double *b, const double *off, size_t n,
                   double tol) {
  for (size_t i = 0; i < n; i++)
    if (!(fabs((double)a[i] - b[i]) <= tol + (attn_rounds(&g->s) ? off[i] : 0))) return false;
  return true;
}

static void forward(const Ctx *cx, float *o, void *arg) {
  Group *g = arg;
  CHECK(!attn_forward(cx, &g->s, g->nspans, g->spans, g->q, q_width(&g->s), o, o_width(&g->s),
                      g->lse));
}
/* out: dq, dk, dv one after another */
static void backward(const Ctx *cx, float *out, void *arg) {
  Group *g = arg;
  const int qw = q_width(&g->s), kw = kv_width(&g->s), ow = o_width(&g->s);
  float *dk = out + g->rows * qw;
  CHECK(!attn_backward(cx, &g->s, g->nspans, g->spans, g->q, qw, g->o, ow, g->lse, g->dout, ow, out,
                       qw, dk, dk + g->rows * kw, kw));
}

static void check_group(Group *g, const Wanted *w) {
  Ctx cx = {.arena = &arena};
  const size_t r = (size_t)g->rows, qw = (size_t)q_width(&g->s), kw = (size_t)kv_width(&g->s);
  float *d = floats(r * (qw + 2 * kw)), *d2 = floats(r * (qw + 2 * kw));
  forward(&cx, g->o, g);
  CHECK(within(g, g->o, w->o, w->o_off, r * (size_t)o_width(&g->s), 2e-5));
  CHECK_NEAR(distance(g->lse, w->lse, r * (size_t)g->s.heads), 0, 2e-5);
  backward(&cx, d, g);
  CHECK(within(g, d, w->dq, w->dq_off, r * qw, 1e-4));
  CHECK(within(g, d + r * qw, w->dk, w->dk_off, r * kw, 1e-4));
  CHECK(within(g, d + r * (qw + kw), w->dv, w->dv_off, r * kw, 1e-4));
  /* each alone gives the same bits */
  const int q = (int)qw, ow = o_width(&g->s);
  CHECK(!attn_backward(&cx, &g->s, g->nspans, g->spans, g->q, q, g->o, ow, g->lse, g->dout, ow,
                       NULL, q, NULL, d2 + r * (qw + kw), (int)kw));
  CHECK(!attn_backward(&cx, &g->s, g->nspans, g->spans, g->q, q, g->o, ow, g->lse, g->dout, ow, d2,
                       q, NULL, NULL, (int)kw));
  CHECK(!attn_backward(&cx, &g->s, g->nspans, g->spans, g->q, q, g->o, ow, g->lse, g->dout, ow,
                       NULL, q, d2 + r * qw, NULL, (int)kw));
  CHECK(same_bits(d, d2, r * (qw + 2 * kw)));
  free(d), free(d2);
}

static const struct {
  AttnShape s;
  int n, lens[MAX_SPANS];
} groups[] = {
    {{4, 2, 32, 0.17f, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, {37, 20, 1, 65}},
    {{2, 2, 64, 0.125f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {16, 33, 48}},
    {{3, 1, 24, 0.2f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {5, 7, 130}},
    {{7, 1, 16, 0.25f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {50, 9, 12}},
    {{1, 1, 128, 0.09f, 0, 0, false, 0, COMPUTE_F32, NULL}, 1, {100}},
    {{16, 1, 8, 0.3f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {0, 40, 3}},
    {{4, 2, 32, 0.17f, 10, 0, false, 0, COMPUTE_F32, NULL}, 4, {37, 20, 1, 65}},
    {{4, 4, 32, 0.17f, 1, 0, false, 0, COMPUTE_F32, NULL}, 2, {20, 50}},
    {{2, 1, 40, 0.17f, 33, 0, false, 0, COMPUTE_F32, NULL}, 5, {70, 3, 90, 5, 8}},
    {{2, 1, 1, 1, 0, 0, false, 0, COMPUTE_F32, NULL}, 2, {1, 1}},
    {{4, 2, 32, 0.17f, 0, 1.3f, false, 0, COMPUTE_F32, NULL}, 4, {37, 20, 1, 65}},
    {{7, 1, 16, 0.25f, 0, 50, false, 0, COMPUTE_F32, NULL}, 3, {50, 9, 12}},
    {{2, 1, 40, 0.17f, 33, 2, false, 0, COMPUTE_F32, NULL}, 5, {70, 3, 90, 5, 8}},
    {{5, 1, 16, 0.25f, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, {16, 33, 2, 32}},
    {{40, 1, 8, 0.3f, 0, 0, false, 0, COMPUTE_F32, NULL}, 2, {0, 70}},
    {{12, 12, 8, 0.3f, 0, 0, false, 0, COMPUTE_F32, NULL}, 8, {1, 9, 1, 2, 3, 70, 4, 31}},
    /* more keys than are taken together, more rows than one piece of backward; edges of windows */
    {{4, 2, 32, 0.17f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {530, 5, 520}},
    {{3, 1, 24, 0.2f, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, {1030, 3, 1}},
    {{2, 1, 16, 0.25f, 512, 0, false, 0, COMPUTE_F32, NULL}, 2, {500, 560}},
    {{2, 2, 16, 0.25f, 513, 0, false, 0, COMPUTE_F32, NULL}, 2, {20, 1020}},
    {{2, 1, 16, 0.25f, 511, 0, false, 0, COMPUTE_F32, NULL}, 3, {513, 20, 40}},
    {{2, 1, 16, 0.25f, 16, 0, false, 0, COMPUTE_F32, NULL}, 3, {512, 20, 40}},
    {{2, 1, 20, 0.25f, 17, 0, false, 0, COMPUTE_F32, NULL}, 3, {511, 20, 1}},
    {{4, 2, 32, 0.17f, 100, 5, false, 0, COMPUTE_F32, NULL}, 2, {600, 80}},
    /* prefixes that end anywhere in a unit of values */
    {{4, 2, 32, 0.17f, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, {31, 1, 2, 40}},
    {{4, 2, 64, 0.12f, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, {33, 31, 32, 33}},
    {{3, 1, 80, 0.1f, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, {64, 1, 33, 64}},
    {{6, 2, 48, 0.14f, 0, 0, false, 0, COMPUTE_F32, NULL}, 5, {543, 3, 17, 34, 1}},
    {{6, 2, 16, 0.2f, 40, 0, false, 0, COMPUTE_F32, NULL}, 5, {543, 3, 17, 90, 1}},
    {{9, 3, 64, 0.1f, 0, 0, false, 0, COMPUTE_F32, NULL}, 8, {61, 5, 5, 4, 40, 5, 4, 3}},
    {{4, 1, 33, 0.17f, 31, 1, false, 0, COMPUTE_F32, NULL}, 6, {1, 60, 2, 3, 31, 33}},
    /* both ways */
    {{4, 2, 32, 0.17f, 0, 0, true, 0, COMPUTE_F32, NULL}, 4, {31, 1, 50, 40}},
    {{3, 3, 64, 0.12f, 20, 0, true, 0, COMPUTE_F32, NULL}, 4, {35, 29, 61, 2}},
    {{4, 2, 32, 0.17f, 0, 0, true, 0, COMPUTE_F32, NULL}, 4, {0, 20, 1, 65}},
    {{3, 1, 24, 0.2f, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, {5, 7, 130}},
    {{16, 1, 8, 0.3f, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, {0, 40, 3}},
    {{7, 1, 16, 0.25f, 0, 50, true, 0, COMPUTE_F32, NULL}, 3, {0, 90, 12}},
    {{2, 1, 40, 0.17f, 33, 2, true, 0, COMPUTE_F32, NULL}, 5, {0, 3, 90, 5, 48}},
    {{4, 4, 32, 0.17f, 1, 0, true, 0, COMPUTE_F32, NULL}, 2, {0, 50}},
    {{12, 12, 8, 0.3f, 7, 0, true, 0, COMPUTE_F32, NULL}, 8, {1, 9, 1, 2, 3, 70, 4, 31}},
    {{4, 2, 32, 0.17f, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, {0, 530, 520}},
    {{3, 1, 24, 0.2f, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, {1030, 3, 600}},
    {{2, 2, 16, 0.25f, 513, 0, true, 0, COMPUTE_F32, NULL}, 2, {0, 1020}},
    {{2, 1, 16, 0.25f, 511, 3, true, 0, COMPUTE_F32, NULL}, 3, {0, 1024, 513}},
    {{2, 1, 20, 0.25f, 17, 0, true, 0, COMPUTE_F32, NULL}, 3, {511, 520, 1}},
    {{6, 1, 40, 0.17f, 0, 0, true, 32, COMPUTE_F32, NULL}, 4, {0, 20, 1, 65}},
    /* latent: values are the first channels of the keys */
    {{6, 1, 40, 0.17f, 0, 0, false, 32, COMPUTE_F32, NULL}, 4, {37, 20, 1, 65}},
    {{2, 1, 24, 0.2f, 0, 0, false, 20, COMPUTE_F32, NULL}, 3, {5, 7, 130}},
    {{9, 1, 20, 0.25f, 7, 0, false, 3, COMPUTE_F32, NULL}, 3, {50, 9, 12}},
    {{16, 1, 18, 0.3f, 0, 2, false, 17, COMPUTE_F32, NULL}, 3, {0, 40, 3}},
    {{1, 1, 2, 0.3f, 0, 0, false, 1, COMPUTE_F32, NULL}, 2, {0, 3}},
    {{6, 1, 48, 0.17f, 0, 0, false, 32, COMPUTE_F32, NULL}, 3, {530, 5, 520}},
};
enum { NGROUPS = sizeof groups / sizeof *groups };

/* In an emulator (RUN: tools/run-tests), which is thirty times slower, long ones have one head. */
static Group *nth_group(int i) {
  const char *run = getenv("RUN");
  AttnShape s = groups[i].s;
  int rows = 0;
  for (int k = 0; k < groups[i].n; k++) rows += groups[i].lens[k];
  if (run && *run && rows > 500) s.heads = s.kv_heads = 1;
  return new_group(s, groups[i].n, groups[i].lens);
}

/* Every path is given the same numbers: what they should come to takes longer than the paths do. */
TEST(attention_agrees_with_softmax_in_double) {
  for (int m = 0; m < 2; m++)
    for (int i = 0; i < NGROUPS; i++) {
      const uint64_t seed = rng_state;
      Wanted w = {0};
      for (int p = 0; p < NPATHS && use_case(m * NPATHS + p); p++) {
        rng_state = seed;
        Group *g = nth_group(i);
        if (p == 0) w = want_mode(g);
        check_group(g, &w);
        free_group(g);
      }
      free_wanted(&w);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

static int longest(const Group *g) {
  int n = 0;
  for (int i = 0; i < g->nspans; i++) n = g->spans[i].n > n ? g->spans[i].n : n;
  return n;
}

/* Decode step t: row t of every completion that is that long, all at once. */
static void decode_step(const Ctx *cx, const Group *g, KvSeg *cache, int t, float *o, float *lse) {
  const int qw = q_width(&g->s), kw = kv_width(&g->s), ow = o_width(&g->s);
  AttnSpan spans[MAX_SPANS];
  int from[MAX_SPANS], n = 0;
  float *q = floats((size_t)(MAX_SPANS * qw)), *out = floats((size_t)(MAX_SPANS * ow));
  float *l = floats((size_t)(MAX_SPANS * g->s.heads));
  for (int i = 0; i < g->nspans; i++) {
    const AttnSpan *sp = &g->spans[i];
    if (t >= sp->n) continue;
    const int row = sp->row + t, c = (int)(sp->own - g->seg);
    kv_fetch(&g->s, &cache[c], t);
    if (t == 0 && sp->prefix) kv_join(&g->s, sp->prefix, &cache[c]);
    kv_store(&g->s, &cache[c], t, 1, g->k + row * kw, kw, g->v + row * kw, kw);
    cache[c].len = t + 1;
    memcpy(q + n * qw, g->q + row * qw, (size_t)qw * sizeof(float));
    from[n] = row;
    spans[n] = (AttnSpan){sp->prefix, &cache[c], n, 1, t};
    n++;
  }
  CHECK(!attn_forward(cx, &g->s, n, spans, q, qw, out, ow, l));
  for (int i = 0; i < n; i++) {
    memcpy(o + from[i] * ow, out + i * ow, (size_t)ow * sizeof(float));
    memcpy(lse + from[i] * g->s.heads, l + i * g->s.heads, (size_t)g->s.heads * sizeof(float));
  }
  free(q), free(out), free(l);
}

TEST(decoding_gives_the_bits_of_training) {
  for (int p = 0; p < NCASES; p++)
    for (int i = 0; i < NGROUPS && use_case(p); i++) {
      if (groups[i].s.bidirectional) continue; /* there is no decoding what follows */
      Group *g = nth_group(i);
      const size_t no = (size_t)(g->rows * o_width(&g->s)), nl = (size_t)(g->rows * g->s.heads);
      float *o = floats(no), *lse = floats(nl);
      KvSeg cache[MAX_SPANS];
      Ctx cx = {.arena = &arena};
      for (int c = 0; c < groups[i].n; c++) {
        cache[c] = new_seg(&g->s, g->seg[c].before, groups[i].lens[c], -1);
        cache[c].grows = c > 0;
      }
      forward(&cx, g->o, g);
      for (int t = 0; t < longest(g); t++) decode_step(&cx, g, cache, t, o, lse);
      CHECK(same_bits(o, g->o, no));
      CHECK(same_bits(lse, g->lse, nl));
      for (int c = 0; c < groups[i].n; c++) free(cache[c].k);
      free(o), free(lse), free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

/* Row `row` of the whole batch, as the only row of a call. */
static bool alone_is_the_same(const Ctx *cx, const Group *g, const AttnSpan *sp, int i, float *o,
                              float *lse) {
  const size_t qw = (size_t)q_width(&g->s), heads = (size_t)g->s.heads, row = (size_t)(sp->row + i);
  const AttnSpan one = {sp->prefix, sp->own, 0, 1, i};
  const size_t ow = (size_t)o_width(&g->s);
  CHECK(!attn_forward(cx, &g->s, 1, &one, g->q + row * qw, (int)qw, o, (int)ow, lse));
  return same_bits(o, g->o + row * ow, ow) && same_bits(lse, g->lse + row * heads, heads);
}

TEST(a_row_alone_has_the_bits_it_has_in_company) {
  for (int p = 0; p < NCASES; p++)
    for (int k = 0; k < NGROUPS && use_case(p); k++) {
      Group *g = nth_group(k);
      float *o = floats((size_t)o_width(&g->s)), *lse = floats((size_t)g->s.heads);
      Ctx cx = {.arena = &arena};
      int wrong = 0;
      forward(&cx, g->o, g);
      for (int i = 0; i < g->nspans; i++)
        for (int r = 0; r < g->spans[i].n; r += 1 + g->spans[i].n / 37)
          wrong += !alone_is_the_same(&cx, g, &g->spans[i], r, o, lse);
      CHECK(wrong == 0);
      free(o), free(lse), free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

static void make_tiny(Group *g, float scale) {
  const int qw = q_width(&g->s), kw = kv_width(&g->s);
  for (int i = 0; i < g->rows * qw; i++) g->q[i] *= scale;
  for (int i = 0; i < g->rows * kw; i++) g->k[i] *= scale;
  for (int i = 0; i < g->nspans; i++) {
    const KvSeg *seg = g->spans[i].own;
    kv_store(&g->s, seg, 0, seg->len, g->k + seg->row0 * kw, kw, g->v + seg->row0 * kw, kw);
  }
}

/* Where products are subnormal, or just not: some CPUs' tiles take them for zeros. */
TEST(subnormal_products_are_the_same_alone) {
  static const AttnShape s = {4, 4, 64, 1e38f, 0, 0, false, 0, COMPUTE_F32, NULL};
  for (int p = 0; p < NCASES; p++) {
    if (!use_case(p)) continue;
    Group *g = new_group(s, 3, (int[]){37, 40, 70});
    float *o = floats((size_t)o_width(&g->s)), *lse = floats((size_t)g->s.heads);
    Ctx cx = {.arena = &arena};
    int wrong = 0;
    make_tiny(g, 1e-19f);
    forward(&cx, g->o, g);
    for (int i = 0; i < g->nspans; i++)
      for (int r = 0; r < g->spans[i].n; r++)
        wrong += !alone_is_the_same(&cx, g, &g->spans[i], r, o, lse);
    CHECK(wrong == 0);
    free(o), free(lse), free_group(g);
  }
  mode = COMPUTE_F32, kern_select(NULL);
}

/* The prompt's keys, then the completion's, in one segment. */
static void check_without_prefix(const Ctx *cx, const Group *g, const AttnSpan *sp) {
  const int plen = sp->prefix->len, qw = q_width(&g->s), kw = kv_width(&g->s), ow = o_width(&g->s);
  const size_t n = (size_t)(sp->n * ow);
  KvSeg seg = new_seg(&g->s, 0, plen + sp->n, -1);
  const AttnSpan whole = {NULL, &seg, 0, sp->n, plen};
  float *o = floats(n);
  kv_store(&g->s, &seg, 0, plen, g->k + sp->prefix->row0 * kw, kw, g->v + sp->prefix->row0 * kw,
           kw);
  kv_store(&g->s, &seg, plen, sp->n, g->k + sp->row * kw, kw, g->v + sp->row * kw, kw);
  CHECK(!attn_forward(cx, &g->s, 1, &whole, g->q + sp->row * qw, qw, o, ow, NULL));
  CHECK(same_bits(o, g->o + sp->row * ow, n));
  free(seg.k), free(o);
}

TEST(a_shared_prompt_gives_the_bits_of_a_prompt_of_its_own) {
  for (int p = 0; p < NCASES; p++)
    for (int k = 0; k < NGROUPS && use_case(p); k++) {
      Group *g = nth_group(k);
      Ctx cx = {.arena = &arena};
      forward(&cx, g->o, g);
      for (int i = 0; i < g->nspans; i++)
        if (g->spans[i].prefix) check_without_prefix(&cx, g, &g->spans[i]);
      free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

/* A completion's rows arrive one by one, and in runs of several lengths, as injected tokens do. */
TEST(a_segment_that_grows_by_several_keys_gives_the_bits_of_training) {
  static const int runs[] = {1, 5, 1, 30, 2, 16, 9};
  for (int p = 0; p < NCASES; p++)
    for (int k = 0; k < NGROUPS && use_case(p); k++) {
      if (groups[k].s.bidirectional || groups[k].n < 2) continue;
      Group *g = nth_group(k);
      const AttnSpan *sp = &g->spans[g->nspans - 1];
      const int qw = q_width(&g->s), kw = kv_width(&g->s), ow = o_width(&g->s);
      KvSeg seg = new_seg(&g->s, sp->own->before, sp->n, -1);
      float *o = floats((size_t)(sp->n * ow));
      Ctx cx = {.arena = &arena};
      seg.grows = true;
      forward(&cx, g->o, g);
      if (sp->prefix) kv_join(&g->s, sp->prefix, &seg);
      for (int t = 0, n, i = 0; t < sp->n; t += n, i++) {
        const int left = sp->n - t, run = runs[i % 7], row = sp->row + t;
        n = run < left ? run : left;
        kv_store(&g->s, &seg, t, n, g->k + row * kw, kw, g->v + row * kw, kw);
        seg.len = t + n;
        const AttnSpan one = {sp->prefix, &seg, 0, n, t};
        CHECK(!attn_forward(&cx, &g->s, 1, &one, g->q + row * qw, qw, o + t * ow, ow, NULL));
      }
      CHECK(same_bits(o, g->o + sp->row * ow, (size_t)(sp->n * ow)));
      free(seg.k), free(o), free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

TEST(a_long_prompt_in_pieces_gives_the_bits_of_one_span) {
  static const AttnShape s = {4, 2, 32, 0.17f, 0, 0, false, 0, COMPUTE_F32, NULL};
  for (int p = 0; p < NCASES; p++) {
    if (!use_case(p)) continue;
    Group *g = new_group(s, 1, (int[]){500});
    Ctx cx = {.arena = &arena};
    float *o = floats(500 * 128);
    forward(&cx, g->o, g);
    for (int i = 0, at = 0; at < 500; i = (i + 1) % NCOUNTS) {
      const int n = row_counts[i] < 500 - at ? row_counts[i] : 500 - at;
      AttnSpan piece = {NULL, &g->seg[0], at, n, at};
      CHECK(!attn_forward(&cx, &g->s, 1, &piece, g->q, 128, o, 128, NULL));
      at += n;
    }
    CHECK(same_bits(o, g->o, 500 * 128));
    free(o), free_group(g);
  }
  mode = COMPUTE_F32, kern_select(NULL);
}

TEST(attention_does_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NCASES; p++)
    for (int i = 0; i < NGROUPS && use_case(p); i++) {
      Group *g = nth_group(i);
      Ctx cx = {.arena = &arena};
      forward(&cx, g->o, g);
      const size_t qw = (size_t)q_width(&g->s), kw = (size_t)kv_width(&g->s);
      CHECK(threads_agree(forward, (size_t)(g->rows * o_width(&g->s)), g));
      CHECK(threads_agree(backward, (size_t)g->rows * (qw + 2 * kw), g));
      free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

/* The last row of every span at once. */
static void last_rows(const Ctx *cx, float *o, void *arg) {
  const Group *g = arg;
  const int qw = q_width(&g->s);
  AttnSpan spans[MAX_SPANS];
  float *q = floats((size_t)(MAX_SPANS * qw));
  for (int i = 0; i < g->nspans; i++) {
    const AttnSpan *sp = &g->spans[i];
    spans[i] = (AttnSpan){sp->prefix, sp->own, i, 1, sp->n - 1};
    memcpy(q + i * qw, g->q + (sp->row + sp->n - 1) * qw, (size_t)qw * sizeof(float));
  }
  CHECK(!attn_forward(cx, &g->s, g->nspans, spans, q, qw, o, o_width(&g->s), NULL));
  free(q);
}

TEST(decoding_with_many_keys_does_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NCASES; p++)
    for (int i = 0; i < NGROUPS && use_case(p); i++) {
      Group *g = nth_group(i);
      CHECK(threads_agree(last_rows, (size_t)(g->nspans * o_width(&g->s)), g));
      free_group(g);
    }
  mode = COMPUTE_F32, kern_select(NULL);
}

TEST(huge_scores_pick_one_key) {
  static const AttnShape s = {1, 1, 16, 1, 0, 0, false, 0, COMPUTE_F32, NULL};
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Group *g = new_group(s, 1, (int[]){20});
    Ctx cx = {.arena = &arena};
    for (int i = 0; i < 20 * 16; i++) g->q[i] *= 1e4f;
    forward(&cx, g->o, g);
    Wanted w = want_all(g);
    CHECK_NEAR(distance(g->o, w.o, 320), 0, 0.05);
    free_wanted(&w), free_group(g);
  }
  kern_select(NULL);
}

/* Scores of all sizes over several parts: most keys weigh nothing, which must cost no accuracy. */
TEST(keys_that_are_worth_nothing_leave_the_others_exact) {
  static const AttnShape s = {2, 1, 16, 1, 0, 0, false, 0, COMPUTE_F32, NULL};
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Group *g = new_group(s, 2, (int[]){600, 560});
    Ctx cx = {.arena = &arena};
    for (int i = 0; i < g->rows * 16; i++) g->k[i] = i / 16 % 97 == 3 ? g->k[i] : -1e30f;
    for (int i = 0; i < g->rows * 32; i++) g->q[i] = fabsf(g->q[i]) + 0.01f;
    for (int i = 0; i < 2; i++)
      kv_store(&s, &g->seg[i], 0, g->seg[i].len, g->k + g->seg[i].row0 * 16, 16,
               g->v + g->seg[i].row0 * 16, 16);
    forward(&cx, g->o, g);
    Wanted w = want_all(g);
    CHECK_NEAR(distance(g->o + 4 * 32, w.o + 4 * 32, (size_t)(g->rows - 4) * 32), 0, 2e-5);
    free_wanted(&w), free_group(g);
  }
  kern_select(NULL);
}

TEST(warm_attention_never_allocates) {
  Group *g = nth_group(0);
  Ctx cx = {.arena = &arena};
  float *d = floats((size_t)(g->rows * (q_width(&g->s) + 2 * kv_width(&g->s))));
  uint64_t before = 0;
  for (int i = 0; i < 3; i++) {
    if (i == 1) before = mem_allocations();
    forward(&cx, g->o, g), backward(&cx, d, g);
  }
  CHECK(mem_allocations() == before);
  free(d), free_group(g);
}

TEST(attention_without_memory_says_so) {
  Group *g = nth_group(0);
  Arena empty = {0};
  Ctx cx = {.arena = &empty};
  const int qw = q_width(&g->s);
  mem_fail_after(1);
  CHECK(attn_forward(&cx, &g->s, g->nspans, g->spans, g->q, qw, g->o, qw, NULL) == GRPO_ENOMEM);
  mem_fail_after(0);
  arena_free(&empty);
  free_group(g);
}

TEST(a_segment_that_was_filled_for_another_prefix_is_refused) {
  Group *g = nth_group(0);
  Ctx cx = {.arena = &arena};
  const int qw = q_width(&g->s);
  g->seg[2].before++;
  CHECK(attn_forward(&cx, &g->s, g->nspans, g->spans, g->q, qw, g->o, qw, NULL) == GRPO_EARG);
  free_group(g);
}

/* Latent keys get one gradient: the sum of those as keys and as values. */
TEST(latent_keys_get_both_gradients) {
  static const AttnShape s = {6, 1, 40, 0.17f, 0, 0, false, 32, COMPUTE_F32, NULL};
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Group *g = new_group(s, 4, (int[]){530, 20, 1, 70});
    Ctx cx = {.arena = &arena};
    const int qw = q_width(&s), ow = o_width(&s), kw = kv_width(&s);
    const size_t n = (size_t)(g->rows * kw), nq = (size_t)(g->rows * qw);
    float *d = floats(nq + 2 * n), *both = floats(n);
    forward(&cx, g->o, g);
    backward(&cx, d, g);
    CHECK(!attn_backward(&cx, &s, g->nspans, g->spans, g->q, qw, g->o, ow, g->lse, g->dout, ow,
                         NULL, qw, both, both, kw));
    double *sum = calloc(n, sizeof *sum);
    for (size_t i = 0; i < n; i++) sum[i] = (double)d[nq + i] + (double)d[nq + n + i];
    CHECK_NEAR(distance(both, sum, n), 0, 1e-5);
    free(d), free(both), free(sum), free_group(g);
  }
  kern_select(NULL);
}

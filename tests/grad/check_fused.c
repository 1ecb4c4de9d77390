/* check_fused.c - the operations that a transformer and its head are made of. */
#include "check.h"
#include "kern/elementwise.h"
#include "kern/kernels.h"
#include "kern/kv.h"
#include "kern/quant.h"
#include "kern/token_set.h"

/* A quantised weight, random in -1 .. 1; lives as long as the leaves. */
static Tensor *compact(QuantType type, int n, int k) {
  const Ctx *cx = &check_tape()->cx;
  Tensor *t = check_constant(LEAF(-1, 1, n, k));
  float *w = check_alloc(t->n * sizeof *w);
  QuantWeight *m;
  for (size_t i = 0; i < t->n; i++) w[i] = (float)t->data[i];
  CHECK(!quant_new(&m, type, n, k));
  CHECK(!quant_put(cx, m, 0, n, w));
  CHECK(!quant_done(cx, m));
  t->data = NULL;
  t->quant = m;
  return t;
}
static void release(Tensor *t) { quant_free((QuantWeight *)t->quant); }

void check_embedding(void) {
  static const int32_t ids[] = {3, 0, 3, 1, 4, 3}, pos[] = {0, 1, 2, 0, 1, 2};
  EmbeddingAttr attr = {.tokens = 6, .ids = ids, .pos = pos};
  Tensor *wte = LEAF(-1, 1, 5, 3), *wpe = LEAF(-1, 1, 4, 3);
  CHECK_GRADIENTS(OP_embedding, ((Tensor *[]){wte, wpe}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_embedding, ((Tensor *[]){wte, NULL}), (&(Attr){.p = &attr}));
  EmbeddingAttr scaled = {.tokens = 6, .ids = ids, .pos = pos, .scale = (real)2.5};
  CHECK_GRADIENTS(OP_embedding, ((Tensor *[]){wte, wpe}), (&(Attr){.p = &scaled}));
  Tensor *wide = LEAF(-1, 1, 5, 70); /* more than one chunk of columns */
  CHECK_GRADIENTS(OP_embedding, ((Tensor *[]){wide, NULL}), (&(Attr){.p = &attr}));
  Tensor *frozen = compact(QUANT_BF16, 5, 3);
  CHECK_GRADIENTS(OP_embedding, ((Tensor *[]){frozen, wpe}), (&(Attr){.p = &attr}));
  release(frozen);
}

static void linear_of(int m, int n, int k) {
  Tensor *x = LEAF(-1, 1, m, k), *w = LEAF(-1, 1, n, k), *wt = LEAF(-1, 1, k, n),
         *b = LEAF(-1, 1, n);
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, w, b}), NULL);
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, w, NULL}), NULL);
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, wt, b}), (&(Attr){.i = {1}}));
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, check_constant(w), check_constant(b)}), NULL);
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){check_constant(x), wt, b}), (&(Attr){.i = {1}}));
}

void check_linear(void) {
  linear_of(3, 5, 4);
  linear_of(1, 1, 1);
  linear_of(9, 17, 6);
  CHECK_GRADIENTS(OP_linear, ((Tensor *[]){LEAF(-1, 1, 2, 3, 4), LEAF(-1, 1, 2, 4), NULL}), NULL);
  for (QuantType type = QUANT_F32; type <= QUANT_NF4; type++) {
    Tensor *w = compact(type, 21, 70), *x = LEAF(-1, 1, 3, 70), *b = LEAF(-1, 1, 21);
    CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, w, b}), NULL);
    w->dim[0] = 70, w->dim[1] = 21; /* of a weight that is stored [in, out] */
    CHECK_GRADIENTS(OP_linear, ((Tensor *[]){x, w, NULL}), (&(Attr){.i = {1}}));
    release(w);
  }
}

static const Attr plus_one = {.f = {1e-6}, .i = {1}};

void check_layernorm(void) {
  const Attr attr = {.f = {1e-5}};
  CHECK_GRADIENTS(OP_layernorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), LEAF(-1, 1, 5), LEAF(-1, 1, 5)}),
                  &attr);
  CHECK_GRADIENTS(OP_layernorm, ((Tensor *[]){LEAF(1, 2, 7, 18), LEAF(-1, 1, 18), LEAF(-1, 1, 18)}),
                  &attr);
  CHECK_GRADIENTS(OP_layernorm,
                  ((Tensor *[]){LEAF(-2, 2, 3, 5), check_constant(LEAF(-1, 1, 5)),
                                check_constant(LEAF(-1, 1, 5))}),
                  &attr);
  CHECK_GRADIENTS(OP_layernorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), LEAF(-1, 1, 5), NULL}), &plus_one);
}

static void check_rmsnorm_plus_one(void) {
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), LEAF(-1, 1, 5)}), &plus_one);
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 4, 12), LEAF(-1, 1, 4)}), &plus_one);
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), check_constant(LEAF(-1, 1, 5))}),
                  &plus_one);
}

void check_rmsnorm(void) {
  const Attr attr = {.f = {1e-6}};
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), LEAF(-1, 1, 5)}), &attr);
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 4, 12), LEAF(-1, 1, 4)}),
                  &attr); /* per head */
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 6), LEAF(-1, 1, 6)}), &attr);
  CHECK_GRADIENTS(OP_rmsnorm, ((Tensor *[]){LEAF(-2, 2, 3, 5), check_constant(LEAF(-1, 1, 5))}),
                  &attr);
  check_rmsnorm_plus_one();
}

void check_rope(void) {
  enum { HEADS = 3, DIM = 4, POSITIONS = 9 };
  static const int32_t pos[] = {0, 1, 5, 8, 2};
  real *cs = check_alloc(POSITIONS * DIM * sizeof *cs);
  for (int p = 0; p < POSITIONS; p++)
    for (int i = 0; i < DIM / 2; i++) {
      cs[p * DIM + 2 * i] = (real)cos(p / pow(10, i));
      cs[p * DIM + 2 * i + 1] = (real)sin(p / pow(10, i));
    }
  RopeAttr attr = {.heads = HEADS, .head_dim = DIM, .positions = POSITIONS, .pos = pos, .cs = cs};
  CHECK_GRADIENTS(OP_rope, (Tensor *[]){LEAF(-1, 1, 5, HEADS * DIM)}, (&(Attr){.p = &attr}));
  attr.rotary = 2; /* the other half of each head stays */
  CHECK_GRADIENTS(OP_rope, (Tensor *[]){LEAF(-1, 1, 5, HEADS * DIM)}, (&(Attr){.p = &attr}));
  attr.rest = 2 * DIM;
  CHECK_GRADIENTS(OP_rope, (Tensor *[]){LEAF(-1, 1, 5, (HEADS + 2) * DIM)}, (&(Attr){.p = &attr}));
  attr.pairs = true;
  CHECK_GRADIENTS(OP_rope, (Tensor *[]){LEAF(-1, 1, 5, (HEADS + 2) * DIM)}, (&(Attr){.p = &attr}));
}

static void attention_of(AttnShape shape, int npack, const PackSpan *pack) {
  if (shape.softcap == 0) { /* every case once more with bounded scores */
    AttnShape capped = shape;
    capped.softcap = (real)1.5;
    attention_of(capped, npack, pack);
  }
  const int rows = pack[npack - 1].row + pack[npack - 1].n;
  shape.scale = (real)(1 / sqrt(shape.head_dim));
  AttentionAttr attr = {.shape = shape, .npack = npack, .pack = pack};
  Tensor *in[] = {LEAF(-2, 2, rows, shape.heads * shape.head_dim),
                  LEAF(-2, 2, rows, shape.kv_heads * shape.head_dim),
                  LEAF(-2, 2, rows, shape.kv_heads * shape.head_dim), NULL};
  CHECK_GRADIENTS(OP_attention, in, (&(Attr){.p = &attr}));
  in[3] = LEAF(-1, 2, shape.heads);
  CHECK_GRADIENTS(OP_attention_sinks, in, (&(Attr){.p = &attr}));
  Tensor *all = LEAF(-2, 2, rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  CHECK_GRADIENTS(OP_attention_packed, &all, (&(Attr){.p = &attr}));
}

void check_attention(void) {
  static const PackSpan one[] = {{0, 5, -1}}, three[] = {{0, 4, -1}, {4, 1, -1}, {5, 3, -1}};
  static const PackSpan group[] = {{0, 4, -1}, {4, 3, 0}, {7, 1, 0}, {8, 2, 0}};
  static const PackSpan two[] = {{0, 2, -1}, {2, 3, 0}, {5, 3, -1}, {8, 2, 2}, {10, 2, 2}};
  static const PackSpan blocks[] = {{0, 18, -1}, {18, 17, 0}, {35, 2, 0}}; /* past one block */
  attention_of((AttnShape){2, 2, 4, 0, 0, 0, false, 0, COMPUTE_F32, NULL}, 1, one);
  attention_of((AttnShape){2, 1, 4, 0, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, three);
  attention_of((AttnShape){4, 2, 3, 0, 0, 0, false, 0, COMPUTE_F32, NULL}, 4, group);
  attention_of((AttnShape){4, 2, 2, 0, 3, 0, false, 0, COMPUTE_F32, NULL}, 4,
               group); /* windows reach back into the prompt */
  attention_of((AttnShape){3, 1, 2, 0, 2, 0, false, 0, COMPUTE_F32, NULL}, 5, two);
  attention_of((AttnShape){2, 1, 2, 0, 0, 0, false, 0, COMPUTE_F32, NULL}, 3, blocks);
  attention_of((AttnShape){2, 1, 2, 0, 17, 0, false, 0, COMPUTE_F32, NULL}, 3, blocks);
  attention_of((AttnShape){2, 2, 4, 0, 0, 0, true, 0, COMPUTE_F32, NULL}, 1, one); /* both ways */
  attention_of((AttnShape){2, 1, 4, 0, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, three);
  attention_of((AttnShape){4, 2, 3, 0, 0, 0, true, 0, COMPUTE_F32, NULL}, 4, group);
  attention_of((AttnShape){4, 2, 2, 0, 3, 0, true, 0, COMPUTE_F32, NULL}, 4, group);
  attention_of((AttnShape){2, 1, 2, 0, 0, 0, true, 0, COMPUTE_F32, NULL}, 3, blocks);
  attention_of((AttnShape){2, 1, 2, 0, 17, 0, true, 0, COMPUTE_F32, NULL}, 3, blocks);
}

void check_attention_packed(void) { check_attention(); }
void check_attention_sinks(void) { check_attention(); }

static void attention_latent_of(AttnShape shape, int npack, const PackSpan *pack) {
  const int rows = pack[npack - 1].row + pack[npack - 1].n;
  AttentionAttr attr = {.shape = shape, .npack = npack, .pack = pack};
  Tensor *in[] = {LEAF(-2, 2, rows, shape.heads * shape.head_dim),
                  LEAF(-2, 2, rows, shape.head_dim)};
  CHECK_GRADIENTS(OP_attention_latent, in, (&(Attr){.p = &attr}));
}

void check_attention_latent(void) {
  static const PackSpan one[] = {{0, 5, -1}};
  static const PackSpan group[] = {{0, 4, -1}, {4, 3, 0}, {7, 1, 0}, {8, 2, 0}};
  static const PackSpan blocks[] = {{0, 18, -1}, {18, 17, 0}, {35, 2, 0}};
  attention_latent_of((AttnShape){2, 1, 4, (real)0.5, 0, 0, false, 3, COMPUTE_F32, NULL}, 1, one);
  attention_latent_of((AttnShape){3, 1, 6, (real)0.4, 0, 0, false, 4, COMPUTE_F32, NULL}, 4, group);
  attention_latent_of((AttnShape){3, 1, 3, (real)0.4, 3, (real)1.5, false, 3, COMPUTE_F32, NULL}, 4,
                      group);
  attention_latent_of((AttnShape){2, 1, 3, (real)0.6, 0, 0, false, 1, COMPUTE_F32, NULL}, 3,
                      blocks);
}

static LatentAttr latent_attr(void) {
  enum { POSITIONS = 9, ROPE = 4 };
  static const int32_t pos[] = {0, 1, 5, 8, 2};
  real *cs = check_alloc(POSITIONS * ROPE * sizeof *cs);
  for (int i = 0; i < POSITIONS * ROPE; i += 2) {
    cs[i] = (real)cos(i / ROPE / pow(10, i % ROPE));
    cs[i + 1] = (real)sin(i / ROPE / pow(10, i % ROPE));
  }
  return (LatentAttr){
      {.heads = 3, .nope = 5, .rope = ROPE, .v_dim = 2, .rank = 6}, POSITIONS, pos, cs};
}

void check_latent_query(void) {
  const LatentAttr attr = latent_attr();
  Tensor *q = LEAF(-1, 1, 5, 27), *w = LEAF(-1, 1, 21, 6);
  CHECK_GRADIENTS(OP_latent_query, ((Tensor *[]){q, w}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_latent_query, ((Tensor *[]){q, check_constant(w)}), (&(Attr){.p = &attr}));
}

void check_latent_key(void) {
  const LatentAttr attr = latent_attr();
  Tensor *c = LEAF(-1, 1, 5, 6), *a = LEAF(-1, 1, 5, 10);
  CHECK_GRADIENTS(OP_latent_key, ((Tensor *[]){c, a}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_latent_key, ((Tensor *[]){check_constant(c), a}), (&(Attr){.p = &attr}));
}

void check_latent_value(void) {
  const LatentAttr attr = latent_attr();
  Tensor *o = LEAF(-1, 1, 5, 18), *w = LEAF(-1, 1, 21, 6);
  CHECK_GRADIENTS(OP_latent_value, ((Tensor *[]){o, w}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_latent_value, ((Tensor *[]){check_constant(o), w}), (&(Attr){.p = &attr}));
}

/* Prompts with completions behind them, among them empty ones; past one chunk of states. */
static const PackSpan recurrent_group[] = {{0, 4, -1}, {4, 3, 0}, {7, 1, 0}, {8, 0, 0}};
static const PackSpan recurrent_two[] = {{0, 2, -1}, {2, 3, 0}, {5, 3, -1}, {8, 2, 2}, {10, 2, 2}};
static const PackSpan recurrent_long[] = {{0, 66, -1}, {66, 70, 0}, {136, 2, 0}};

static void conv_of(int npack, const PackSpan *pack, int taps, bool silu) {
  const int rows = pack[npack - 1].row + pack[npack - 1].n;
  const ConvAttr attr = {.shape = {5, taps, silu}, .rows = {.npack = npack, .pack = pack}};
  Tensor *u = LEAF(-1, 1, rows, 5), *w = LEAF(-1, 1, 5, 1, taps);
  CHECK_GRADIENTS(OP_causal_conv, ((Tensor *[]){u, w}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_causal_conv, ((Tensor *[]){check_constant(u), w}), (&(Attr){.p = &attr}));
}

void check_causal_conv(void) {
  conv_of(4, recurrent_group, 4, true);
  conv_of(5, recurrent_two, 4, true);
  conv_of(5, recurrent_two, 3, false);
  conv_of(1, recurrent_two, 1, false);
}

static void delta_of(DeltaShape s, int npack, const PackSpan *pack) {
  const int rows = pack[npack - 1].row + pack[npack - 1].n;
  const DeltaAttr attr = {.shape = s, .rows = {.npack = npack, .pack = pack}};
  Tensor *in[] = {LEAF(-1, 1, rows, delta_width(&s)), LEAF(-2, 2, rows, s.value_heads),
                  LEAF(-2, 2, rows, s.value_heads), LEAF(-1, 1, s.value_heads),
                  LEAF(-1, 1, s.value_heads)};
  CHECK_GRADIENTS(OP_delta_rule, in, (&(Attr){.p = &attr}));
}

void check_delta_rule(void) {
  delta_of((DeltaShape){1, 1, 4, 3}, 4, recurrent_group);
  delta_of((DeltaShape){2, 4, 3, 2}, 5, recurrent_two);
  delta_of((DeltaShape){1, 2, 2, DELTA_COLUMNS + 1}, 2, recurrent_two);
  delta_of((DeltaShape){1, 1, 2, 2}, 3, recurrent_long);
}

static void route_of(RouteAttr a, int experts) {
  if (a.scale == 0) a.scale = (real)1.5;
  Tensor *bias = a.sigmoid ? check_constant(LEAF(-1, 1, experts)) : NULL;
  Tensor *x = LEAF(-2, 2, 7, experts), *factors = LEAF(-1, 1, experts);
  CHECK_GRADIENTS(OP_route, ((Tensor *[]){x, bias, NULL}), (&(Attr){.p = &a}));
  CHECK_GRADIENTS(OP_route, ((Tensor *[]){x, bias, factors}), (&(Attr){.p = &a}));
  CHECK_GRADIENTS(OP_route, ((Tensor *[]){check_constant(x), bias, factors}), (&(Attr){.p = &a}));
}

void check_route(void) {
  route_of((RouteAttr){.top_k = 2}, 5);
  route_of((RouteAttr){.top_k = 2, .normed = true}, 5);
  route_of((RouteAttr){.top_k = 1}, 1);
  route_of((RouteAttr){.top_k = 3, .sigmoid = true}, 6);
  route_of(
      (RouteAttr){
          .top_k = 2, .groups = 3, .top_groups = 2, .sigmoid = true, .normed = true, .eps = 0.1},
      6);
}

/* Tokens take two of four experts; nobody takes the last one of three. */
static Tensor *some_route(int tokens, int experts) {
  Tensor *r = LEAF(-1, 1, tokens, 4);
  for (int t = 0; t < tokens; t++) {
    r->data[4 * t + 2] = (real)(t * t % (experts - 1));
    r->data[4 * t + 3] = (real)((t * t + 1) % (experts - 1));
  }
  return r;
}

static void experts_of(bool common, bool in_out, bool gelu, real limit) {
  enum { EXPERTS = 4, WIDTH = 3, HIDDEN = 5, TOKENS = 6 };
  Tensor *w[EXPERTS * EXPERT_PARTS] = {NULL}, *used[EXPERTS * EXPERT_PARTS];
  const int both = common ? 2 * WIDTH : WIDTH;
  int n = 0;
  for (int e = 0; e < EXPERTS; e++) {
    Tensor **of = w + e * EXPERT_PARTS;
    of[EXPERT_GATE] = in_out ? LEAF(-1, 1, HIDDEN, both) : LEAF(-1, 1, both, HIDDEN);
    if (!common) of[EXPERT_UP] = LEAF(-1, 1, WIDTH, HIDDEN);
    of[EXPERT_DOWN] = in_out ? LEAF(-1, 1, WIDTH, HIDDEN) : LEAF(-1, 1, HIDDEN, WIDTH);
    if (limit > 0) of[EXPERT_GATE_B] = LEAF(-1, 1, both), of[EXPERT_DOWN_B] = LEAF(-1, 1, HIDDEN);
    for (int i = 0; i < EXPERT_PARTS && e < EXPERTS - 1; i++)
      if (of[i]) used[n++] = of[i];
  }
  const ExpertsAttr a = {.experts = EXPERTS,
                         .top_k = 2,
                         .width = WIDTH,
                         .in_out = in_out,
                         .alternating = in_out,
                         .gelu = gelu,
                         .alpha = (real)1.3,
                         .limit = limit,
                         .weight = w};
  Tensor *x = LEAF(-1, 1, TOKENS, HIDDEN), *route = some_route(TOKENS, EXPERTS);
  Tensor *in[] = {x, route};
  check_gradients_beside(OP_experts, in, &(Attr){.p = &a}, n, used);
  CHECK_GRADIENTS(OP_experts, in, (&(Attr){.p = &a}));
}

void check_experts(void) {
  experts_of(false, false, false, 0);
  experts_of(true, false, true, 0);
  experts_of(true, true, false, (real)0.6);
}

static void gated_of(OpId op) {
  CHECK_GRADIENTS(op, ((Tensor *[]){LEAF(-3, 3, 3, 5), LEAF(-2, 2, 3, 5)}), NULL);
  CHECK_GRADIENTS(op, ((Tensor *[]){LEAF(-3, 3, 4), check_constant(LEAF(-2, 2, 4))}), NULL);
  CHECK_GRADIENTS(op, ((Tensor *[]){check_constant(LEAF(-3, 3, 4)), LEAF(-2, 2, 4)}), NULL);
  Tensor *x = LEAF(-3, 3, 6);
  CHECK_GRADIENTS(op, ((Tensor *[]){x, check_constant(LEAF(1, 2, 6))}), NULL);
}
void check_swiglu(void) { gated_of(OP_swiglu); }
void check_geglu(void) { gated_of(OP_geglu); }

void check_softcap(void) {
  CHECK_GRADIENTS(OP_softcap, ((Tensor *[]){LEAF(-3, 3, 3, 5)}), (&(Attr){.f = {1.5}}));
  CHECK_GRADIENTS(OP_softcap, ((Tensor *[]){LEAF(-300, 300, 9)}), (&(Attr){.f = {30}}));
}

void check_activate(void) {
  CHECK_GRADIENTS(OP_activate, ((Tensor *[]){LEAF(-3, 3, 3, 5)}), (&(Attr){.i = {ACTIVATE_GELU}}));
  CHECK_GRADIENTS(OP_activate, ((Tensor *[]){LEAF(0.1, 3, 9)}), (&(Attr){.i = {ACTIVATE_RELU}}));
  CHECK_GRADIENTS(OP_activate, ((Tensor *[]){LEAF(-3, 3, 9)}), (&(Attr){.i = {ACTIVATE_RELU2}}));
}

void check_scale(void) {
  CHECK_GRADIENTS(OP_scale, ((Tensor *[]){LEAF(-3, 3, 3, 5)}), (&(Attr){.f = {-0.7}}));
}

/* Rows repeat (a prompt's last row feeds every completion), some rows feed none. */
static const int32_t rows[] = {1, 1, 0, 3, 1, 4, 4}, targets[] = {0, 5, 2, 2, 1, 5, 0};

static void table_row(const void *table, int32_t prev, real *logits) {
  memcpy(logits, (const real *)table + prev * 6, 6 * sizeof *logits);
}

/* Targets that were sampled from sets of tokens: a list, bits, and all. */
static void targets_of_sets(void) {
  enum { WIDE = 40, N = 7 };
  static const int32_t of[N] = {0, 39, 17, 17, 1, 5, 30};
  uint32_t *words = check_alloc((size_t)N * 8 * sizeof *words);
  const uint32_t *sets[N];
  for (int i = 0; i < N; i++, words += 8) {
    const int every = i % 3 == 0 ? 39 : i % 3, n = i % 3 == 0 ? 2 : WIDE / (i % 3);
    sets[i] = i == 5 ? NULL : words;
    if (i % 3 == 0) { /* the target and another token */
      const int32_t other = (of[i] + 7) % WIDE;
      token_set_begin(words, WIDE, 2);
      token_set_add(words, WIDE, 0, of[i] < other ? of[i] : other);
      token_set_add(words, WIDE, 1, of[i] < other ? other : of[i]);
      continue;
    }
    token_set_begin(words, WIDE, n);
    for (int k = 0; k < n; k++) token_set_add(words, WIDE, k, k * every + (of[i] % every));
  }
  LogheadAttr attr = {
      .n = N, .rows = rows, .targets = of, .token_sets = sets, .inv_temp = (real)(1 / .7)};
  Tensor *hidden = LEAF(-1, 1, 5, 4), *head = LEAF(-1, 1, WIDE, 4);
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  attr.one_pass = true;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  attr.softcap = (real)0.8;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  attr.one_pass = false;
  attr.ref_softcap = (real)1.1;
  attr.ref_head = check_constant(LEAF(-1, 1, WIDE, 3));
  attr.ref_hidden = LEAF(-1, 1, N, 3)->data;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
}

/* Every divergence from a reference, in two passes and in one. */
static void divergences(void) {
  enum { N = 7 };
  static const real betas[] = {0, (real)0.2, (real)0.5, 1};
  static const int tops[] = {0, 1, 4};
  LogheadAttr attr = {.n = N, .rows = rows, .targets = targets, .inv_temp = (real)(1 / .7)};
  Tensor *hidden = LEAF(-1, 1, 5, 4), *head = LEAF(-1, 1, 6, 4);
  attr.ref_head = check_constant(LEAF(-1, 1, 6, 3));
  attr.ref_hidden = LEAF(-1, 1, N, 3)->data;
  for (int i = 0; i < 24; i++) {
    const Divergence d = {betas[i % 4], tops[i / 4 % 3]};
    attr.divergence = &d;
    attr.one_pass = i >= 12;
    attr.softcap = i % 2 ? (real)0.8 : 0;
    CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  }
}

void check_loghead(void) {
  divergences();

  LogheadAttr attr = {.n = 7, .rows = rows, .targets = targets, .inv_temp = 1};
  Tensor *hidden = LEAF(-1, 1, 5, 4), *head = LEAF(-1, 1, 6, 4);
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  attr.inv_temp = (real)(1 / .7);
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, LEAF(-1, 1, 6)}), (&(Attr){.p = &attr}));
  const Tensor *wide_ref = check_constant(LEAF(-1, 1, 6, 3));
  attr.ref_head = wide_ref; /* a reference of another width, and the full KL */
  attr.ref_hidden = LEAF(-1, 1, 7, 3)->data;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, head, NULL}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){hidden, check_constant(head), NULL}),
                  (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){check_constant(hidden), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  Tensor *frozen = compact(QUANT_NF4, 6, 4), *ref = compact(QUANT_BF16, 6, 3);
  attr.ref_head = ref;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), frozen, NULL}),
                  (&(Attr){.p = &attr}));
  attr.softcap = (real)0.8, attr.ref_softcap = (real)1.1;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), frozen, NULL}),
                  (&(Attr){.p = &attr}));
  release(frozen), release(ref);
  attr.ref_head = wide_ref;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  attr.ref_hidden = NULL;
  static const int32_t before[] = {5, 5, 0, 2, 1, 3, 3}; /* a table of logits by the token before */
  attr.ref_rows = (ReferenceRows){table_row, LEAF(-2, 2, 6, 6)->data};
  attr.ref_prev = before;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  attr.ref_rows = (ReferenceRows){0};
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  enum { MANY = 300 }; /* more than one chunk */
  int32_t *many = check_alloc(2 * MANY * sizeof *many);
  for (int i = 0; i < MANY; i++) many[i] = i * 7 % 5, many[MANY + i] = i * 3 % 6;
  attr = (LogheadAttr){.n = MANY, .rows = many, .targets = many + MANY, .inv_temp = 1};
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  attr.one_pass = true;
  CHECK_GRADIENTS(OP_loghead, ((Tensor *[]){LEAF(-1, 1, 5, 4), LEAF(-1, 1, 6, 4), NULL}),
                  (&(Attr){.p = &attr}));
  targets_of_sets();
}

void check_token_logp(void) {
  TokenLogpAttr attr = {targets, 1};
  CHECK_GRADIENTS(OP_token_logp, (Tensor *[]){LEAF(-2, 2, 7, 6)}, (&(Attr){.p = &attr}));
  attr.inv_temp = (real)(1 / .7);
  CHECK_GRADIENTS(OP_token_logp, (Tensor *[]){LEAF(-2, 2, 4, 9)}, (&(Attr){.p = &attr}));
}

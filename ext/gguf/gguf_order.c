#include "gguf/gguf_order.h"

#include "base/exponential.h"

enum { RUN_ROWS = 64 };

/* Adds a segment behind those of its part. */
static void add_segment(GgufOrder *o, int part, uint64_t rows) {
  uint64_t base = 0;
  for (int i = 0; i < o->nsegments; i++)
    if (o->segment[i].part == part) base += o->segment[i].rows * o->groups;
  o->segment[o->nsegments++] = (GgufSegment){part, rows, base};
  o->group += rows;
}

static void add_segments(GgufOrder *o, const Config *c, uint64_t rows) {
  const uint64_t keys = (uint64_t)c->linear_key_head_dim;
  const uint64_t values = o->per_key * (uint64_t)c->linear_value_head_dim;
  if (o->change & GGUF_BY_HEAD) {
    o->groups = (uint64_t)c->num_attention_heads;
    for (int i = 0; i < 3; i++) add_segment(o, 0, o->head_dim);
  } else if (o->change & (GGUF_HALVES | GGUF_IN_TURN)) {
    o->groups = o->change & GGUF_HALVES ? 1 : rows / 2;
    for (int i = 0; i < 2; i++) add_segment(o, i, rows / 2 / (o->groups ? o->groups : 1));
  } else if (o->change & GGUF_LATENT) {
    o->groups = (uint64_t)c->num_attention_heads;
    add_segment(o, 0, (uint64_t)c->qk_nope_head_dim);
    add_segment(o, 1, (uint64_t)c->v_head_dim);
  } else if (o->change & GGUF_KEY_GROUPS) {
    o->groups = o->key_heads;
    add_segment(o, 0, keys);
    add_segment(o, 0, keys);
    add_segment(o, 0, values);
    add_segment(o, 1, values);
  }
}

GgufOrder gguf_order(const Config *c, unsigned change, uint64_t rows) {
  const uint64_t heads = (uint64_t)c->linear_num_key_heads;
  const uint64_t keys = 2 * heads * (uint64_t)c->linear_key_head_dim;
  const bool wide = change & (GGUF_VALUE_ROWS | GGUF_VALUE_COLUMNS);
  GgufOrder o = {.change = change,
                 .head_dim = (uint64_t)c->head_dim,
                 .before = change & GGUF_BEHIND_KEYS ? keys : 0,
                 .size = wide ? (uint64_t)c->linear_value_head_dim : 1,
                 .key_heads = heads,
                 .per_key = heads ? (uint64_t)c->linear_num_value_heads / heads : 1};
  add_segments(&o, c, rows);
  return o;
}

bool gguf_order_moves_rows(const GgufOrder *o) {
  return o->nsegments || o->change & (GGUF_PERMUTED | GGUF_VALUE_HEADS);
}

bool gguf_order_moves_columns(const GgufOrder *o) { return o->change & GGUF_VALUE_COLUMNS; }

int gguf_order_parts(const GgufOrder *o) {
  return o->nsegments ? 1 + o->segment[o->nsegments - 1].part : 1;
}

uint64_t gguf_order_part_rows(const GgufOrder *o, int part, uint64_t rows) {
  uint64_t n = 0;
  for (int i = 0; i < o->nsegments; i++)
    if (o->segment[i].part == part) n += o->segment[i].rows * o->groups;
  return o->nsegments ? n : rows;
}

bool gguf_order_transposes(const GgufOrder *o, int part) {
  return o->change & GGUF_LATENT && !part;
}

/* The segment of a part's row. */
static const GgufSegment *segment_of(const GgufOrder *o, int part, uint64_t r) {
  const GgufSegment *s = o->segment;
  while (s->part != part || r < s->base || r >= s->base + s->rows * o->groups) s++;
  return s;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t gguf_order_run(const GgufOrder *o, int part, uint64_t r) {
  if (o->change & GGUF_PERMUTED) return o->head_dim;
  if (o->change & GGUF_VALUE_HEADS) return o->size;
  if (!o->nsegments) return RUN_ROWS;
  const GgufSegment *s = segment_of(o, part, r);
  if (s->rows == 1) return least(RUN_ROWS, s->base + o->groups - r);
  const uint64_t left = s->rows - (r - s->base) % s->rows;
  return gguf_order_transposes(o, part) ? left : least(RUN_ROWS, left);
}

static uint64_t value_head(const GgufOrder *o, uint64_t i, uint64_t inner, uint64_t outer) {
  if (i < o->before) return i;
  const uint64_t head = (i - o->before) / o->size, rest = (i - o->before) % o->size;
  return o->before + (head % inner * outer + head / inner) * o->size + rest;
}

static GgufPlace place_in_segments(const GgufOrder *o, uint64_t r) {
  const GgufSegment *s = o->segment;
  const uint64_t group = r / o->group;
  uint64_t i = r % o->group;
  for (; i >= s->rows; s++) i -= s->rows;
  return (GgufPlace){s->part, s->base + group * s->rows + i};
}

static uint64_t row_of_segments(const GgufOrder *o, int part, uint64_t r) {
  const GgufSegment *s = segment_of(o, part, r);
  uint64_t before = 0;
  for (const GgufSegment *p = o->segment; p < s; p++) before += p->rows;
  return (r - s->base) / s->rows * o->group + before + (r - s->base) % s->rows;
}

GgufPlace gguf_order_place(const GgufOrder *o, uint64_t r) {
  const uint64_t d = o->head_dim, block = d ? r / d : 0, i = d ? r % d : 0;
  if (o->nsegments) return place_in_segments(o, r);
  if (o->change & GGUF_VALUE_HEADS)
    return (GgufPlace){0, value_head(o, r, o->per_key, o->key_heads)};
  return (GgufPlace){0,
                     o->change & GGUF_PERMUTED ? block * d + 2 * (i % (d / 2)) + i / (d / 2) : r};
}

uint64_t gguf_order_row_of(const GgufOrder *o, int part, uint64_t r) {
  const uint64_t d = o->head_dim, block = d ? r / d : 0, i = d ? r % d : 0;
  if (o->nsegments) return row_of_segments(o, part, r);
  if (o->change & GGUF_VALUE_HEADS) return value_head(o, r, o->key_heads, o->per_key);
  return o->change & GGUF_PERMUTED ? block * d + i % 2 * (d / 2) + i / 2 : r;
}

uint64_t gguf_order_column(const GgufOrder *o, uint64_t c) {
  return gguf_order_moves_columns(o) ? value_head(o, c, o->per_key, o->key_heads) : c;
}

uint64_t gguf_order_column_of(const GgufOrder *o, uint64_t c) {
  return gguf_order_moves_columns(o) ? value_head(o, c, o->key_heads, o->per_key) : c;
}

void gguf_order_encode(const GgufOrder *o, uint64_t n, float *x) {
  for (uint64_t i = 0; o->change & GGUF_PLUS_ONE && i < n; i++) x[i] += 1;
  for (uint64_t i = 0; o->change & GGUF_DECAY && i < n; i++) x[i] = (float)-math_exp((double)x[i]);
}

void gguf_order_decode(const GgufOrder *o, uint64_t n, float *x) {
  for (uint64_t i = 0; o->change & GGUF_PLUS_ONE && i < n; i++) x[i] -= 1;
  for (uint64_t i = 0; o->change & GGUF_DECAY && i < n; i++) x[i] = (float)math_log(-(double)x[i]);
}

#include "gguf/gguf_order.h"

#include <math.h>

GgufOrder gguf_order(const Config *c, unsigned change) {
  const uint64_t heads = (uint64_t)c->linear_num_key_heads;
  const uint64_t keys = 2 * heads * (uint64_t)c->linear_key_head_dim;
  const bool rows = change & (GGUF_VALUE_ROWS | GGUF_VALUE_COLUMNS);
  return (GgufOrder){.change = change,
                     .head_dim = (uint64_t)c->head_dim,
                     .heads = (uint64_t)c->num_attention_heads,
                     .before = change & GGUF_BEHIND_KEYS ? keys : 0,
                     .size = rows ? (uint64_t)c->linear_value_head_dim : 1,
                     .key_heads = heads,
                     .per_key = heads ? (uint64_t)c->linear_num_value_heads / heads : 1};
}

bool gguf_order_moves_rows(const GgufOrder *o) {
  return o->change & (GGUF_PERMUTED | GGUF_BY_HEAD | GGUF_VALUE_HEADS);
}

bool gguf_order_moves_columns(const GgufOrder *o) { return o->change & GGUF_VALUE_COLUMNS; }

uint64_t gguf_order_block(const GgufOrder *o) {
  return o->change & GGUF_VALUE_HEADS ? o->size : o->head_dim;
}

static uint64_t value_head(const GgufOrder *o, uint64_t i, uint64_t inner, uint64_t outer) {
  if (i < o->before) return i;
  const uint64_t head = (i - o->before) / o->size, rest = (i - o->before) % o->size;
  return o->before + (head % inner * outer + head / inner) * o->size + rest;
}

uint64_t gguf_order_row(const GgufOrder *o, uint64_t r) {
  const uint64_t d = o->head_dim, block = r / d, i = r % d;
  if (o->change & GGUF_VALUE_HEADS) return value_head(o, r, o->per_key, o->key_heads);
  if (o->change & GGUF_BY_HEAD) return (block % 3 * o->heads + block / 3) * d + i;
  return o->change & GGUF_PERMUTED ? block * d + 2 * (i % (d / 2)) + i / (d / 2) : r;
}

uint64_t gguf_order_row_of(const GgufOrder *o, uint64_t r) {
  const uint64_t d = o->head_dim, block = r / d, i = r % d;
  if (o->change & GGUF_VALUE_HEADS) return value_head(o, r, o->key_heads, o->per_key);
  if (o->change & GGUF_BY_HEAD) return (block % o->heads * 3 + block / o->heads) * d + i;
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
  for (uint64_t i = 0; o->change & GGUF_DECAY && i < n; i++) x[i] = (float)-exp((double)x[i]);
}

void gguf_order_decode(const GgufOrder *o, uint64_t n, float *x) {
  for (uint64_t i = 0; o->change & GGUF_PLUS_ONE && i < n; i++) x[i] -= 1;
  for (uint64_t i = 0; o->change & GGUF_DECAY && i < n; i++) x[i] = (float)log(-(double)x[i]);
}

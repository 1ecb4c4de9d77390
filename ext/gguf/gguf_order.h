/* gguf_order.h - where the values of a weight stand in a file, and how they are changed there.
 *
 * Rows within a head: where the file's rotary pairs are neighbours and those of Hugging Face's
 * checkpoints are halves of a head (llama).  Rows of whole heads: gptneox's q, k and v, which the
 * checkpoint has head by head, are three blocks in the file.  Value heads: Qwen3.5's checkpoint has
 * all value heads of the first key head first, and the file the first value head of every key head.
 */
#ifndef GRPO_GGUF_ORDER_H
#define GRPO_GGUF_ORDER_H

#include "model/config.h"

typedef enum GgufChange {
  GGUF_PERMUTED = 1,      /* rows are permuted within each head */
  GGUF_BY_HEAD = 2,       /* rows are q, k, v head by head; all of q, of k, of v in the file */
  GGUF_PLUS_ONE = 4,      /* 1 + w in the file */
  GGUF_KEEP_F32 = 8,      /* float32 whatever the type of the others */
  GGUF_VOCABULARY = 16,   /* embedding or output projection */
  GGUF_VALUE_HEADS = 32,  /* rows, or single values, of value heads */
  GGUF_VALUE_ROWS = 64,   /* each with linear_value_head_dim rows */
  GGUF_BEHIND_KEYS = 128, /* which follow those of queries and keys */
  GGUF_VALUE_COLUMNS = 256 /* columns of value heads */,
  GGUF_DECAY = 512,      /* -exp(w) in the file */
  GGUF_FILTERS = 1024,   /* [channels, 1, taps]; [channels, taps] in the file */
  GGUF_WHOLE_NAME = 2048 /* the row's names have no suffix besides */
} GgufChange;

typedef struct GgufOrder {
  unsigned change;
  uint64_t head_dim, heads;    /* of queries */
  uint64_t before, size;       /* rows or columns before the value heads, and of each */
  uint64_t key_heads, per_key; /* value heads of a key head */
} GgufOrder;

GgufOrder gguf_order(const Config *c, unsigned change);
bool gguf_order_moves_rows(const GgufOrder *o);
bool gguf_order_moves_columns(const GgufOrder *o);
/* Rows that stay one block, from a multiple of their number on; 1 or more. */
uint64_t gguf_order_block(const GgufOrder *o);
/* The row in the file of row r, counted in Hugging Face's order, and the other way round. */
uint64_t gguf_order_row(const GgufOrder *o, uint64_t r);
uint64_t gguf_order_row_of(const GgufOrder *o, uint64_t r);
/* The column in the file of column c, and the other way round; `size` columns stay together. */
uint64_t gguf_order_column(const GgufOrder *o, uint64_t c);
uint64_t gguf_order_column_of(const GgufOrder *o, uint64_t c);
/* Changes values of the checkpoint to those of the file, and back. */
void gguf_order_encode(const GgufOrder *o, uint64_t n, float *x);
void gguf_order_decode(const GgufOrder *o, uint64_t n, float *x);

#endif

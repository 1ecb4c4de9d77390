/* gguf_order.h - where the values of a weight stand in a file, and how they are changed there.
 *
 * Rows within a head: where the file's rotary pairs are neighbours and those of Hugging Face's
 * checkpoints are halves of a head (llama).  Value heads: Qwen3.5's checkpoint has all value heads
 * of the first key head first, and the file the first value head of every key head.
 *
 * Segments: the checkpoint's rows are groups of the same segments, and the file has each segment of
 * all groups together.  These may be in two tensors of the file, the parts of the weight:
 *
 *   gptneox            groups of q, k, v of a head
 *   gate and up        one group, or groups of two rows (gpt-oss); two parts
 *   latent attention   groups of keys, values of a head; two parts
 *   Qwen3-Next         groups of q, k, v, z of a key head; z is the second part
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
  GGUF_DECAY = 512,          /* -exp(w) in the file */
  GGUF_FILTERS = 1024,       /* [channels, 1, taps]; [channels, taps] in the file */
  GGUF_WHOLE_NAME = 2048,    /* the row's names have no suffix besides */
  GGUF_STACK = 4096,         /* a weight or bias of every expert */
  GGUF_SECOND = 8192,        /* the second part of the weight */
  GGUF_HALVES = 1 << 14,     /* rows of the first part, then of the second */
  GGUF_IN_TURN = 1 << 15,    /* rows of the two parts in turn */
  GGUF_LATENT = 1 << 16,     /* keys and values head by head, which come from a latent */
  GGUF_KEY_GROUPS = 1 << 17, /* q, k, v, z, or b, a, of a DeltaNet key head by key head */
  GGUF_VECTOR = 1 << 18,     /* [1, n]; [n] in the file */
  GGUF_READ_ONLY = 1 << 19,  /* another form, which files of other programs may have */
  GGUF_UNADAPTED = 1 << 20   /* llama.cpp ignores an adapter on it */
} GgufChange;

enum { GGUF_PARTS = 2, GGUF_SEGMENTS = 4 };

typedef struct GgufSegment {
  int part;
  uint64_t rows; /* in each group */
  uint64_t base; /* of the part: where those of the first group are */
} GgufSegment;

typedef struct GgufOrder {
  unsigned change;
  uint64_t head_dim;
  uint64_t before, size;       /* rows or columns before the value heads, and of each */
  uint64_t key_heads, per_key; /* value heads of a key head */
  int nsegments;               /* 0: there are none */
  uint64_t group, groups;      /* rows of a group, and their number */
  GgufSegment segment[GGUF_SEGMENTS];
} GgufOrder;

typedef struct GgufPlace {
  int part;
  uint64_t row;
} GgufPlace;

/* rows: of the weight; of one expert's in a stack. */
GgufOrder gguf_order(const Config *c, unsigned change, uint64_t rows);
bool gguf_order_moves_rows(const GgufOrder *o);
bool gguf_order_moves_columns(const GgufOrder *o);
int gguf_order_parts(const GgufOrder *o);
/* The rows of a part of a weight that has `rows`. */
uint64_t gguf_order_part_rows(const GgufOrder *o, int part, uint64_t rows);
/* In a file the rows and columns of each head of this part are exchanged. */
bool gguf_order_transposes(const GgufOrder *o, int part);
/* Rows of the part that are read together from row r on, where the last such rows ended. */
uint64_t gguf_order_run(const GgufOrder *o, int part, uint64_t r);
/* The place in the file of row r, counted in Hugging Face's order, and the other way round. */
GgufPlace gguf_order_place(const GgufOrder *o, uint64_t r);
uint64_t gguf_order_row_of(const GgufOrder *o, int part, uint64_t r);
/* The column in the file of column c, and the other way round; `size` columns stay together. */
uint64_t gguf_order_column(const GgufOrder *o, uint64_t c);
uint64_t gguf_order_column_of(const GgufOrder *o, uint64_t c);
/* Changes values of the checkpoint to those of the file, and back. */
void gguf_order_encode(const GgufOrder *o, uint64_t n, float *x);
void gguf_order_decode(const GgufOrder *o, uint64_t n, float *x);

#endif

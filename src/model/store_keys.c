#include "model/store_keys.h"

enum { STORE_REALS = 2048 }; /* keys, and as many values, that a chunk stores in the cache */

/* Rows whose keys and values are stored in the cache, `run` rows a chunk. */
typedef struct Store {
  int nspans;
  const AttnSpan *spans;
  const AttnShape *shape;
  const real *k, *v;
  int ld, run;
} Store;

/* A chunk that should end at `row` stores the rows of the span before the returned row; the next
 * chunk begins there, so that no two chunks write the same block. */
static int cut_row(const AttnShape *s, const AttnSpan *a, int row) {
  if (row <= a->row) return a->row;
  const int first = kv_cut(s, a->own, a->own_at + row - a->row);
  return a->row + (first - a->own_at < a->n ? first - a->own_at : a->n);
}

/* The number of rows of a span that a chunk stores, from row *first on. */
static int rows_to_store(const Store *s, const AttnSpan *a, int chunk, int *first) {
  const int from = chunk * s->run, to = from + s->run;
  if (a->row + a->n <= from || a->row >= to) return 0;
  *first = cut_row(s->shape, a, from);
  return cut_row(s->shape, a, to) - *first;
}

static void store_span(const Store *s, const AttnSpan *a, int first, int n) {
  const size_t at = (size_t)first * (size_t)s->ld;
  if (a->prefix && a->own_at == 0 && first == a->row) kv_join(s->shape, a->prefix, a->own);
  kv_store(s->shape, a->own, a->own_at + first - a->row, n, s->k + at, s->ld, s->v + at, s->ld);
}

static void store_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Store *s = arg;
  const AttnSpan *spans = s->spans;
  int first;
  for (int i = 0; i < s->nspans; i++)
    if (rows_to_store(s, spans + i, chunk, &first) == 1)
      kv_fetch(s->shape, spans[i].own, spans[i].own_at + first - spans[i].row);
  for (int i = 0; i < s->nspans; i++) {
    const int n = rows_to_store(s, spans + i, chunk, &first);
    if (n > 0) store_span(s, spans + i, first, n);
  }
}

void store_keys(Pool *pool, int nspans, const AttnSpan *spans, const AttnShape *shape,
                Tensor *const qkv[3]) {
  const int q = shape->heads * shape->head_dim, kv = shape->kv_heads * shape->head_dim;
  Store s = {nspans, spans, shape, NULL, NULL, kv, STORE_REALS / kv + 1};
  if (qkv[1]) {
    s.k = qkv[1]->data, s.v = shape->v_dim ? s.k : qkv[2]->data;
  } else {
    s.k = qkv[0]->data + q, s.v = s.k + kv;
    s.ld = q + 2 * kv;
  }
  pool_run(pool, (qkv[0]->dim[0] + s.run - 1) / s.run, store_chunk, &s);
}

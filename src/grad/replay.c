#include "grad/replay.h"

#include <string.h>

enum { CHUNK_REALS = 8192 };

void replay_begin(Replay *r) {
  r->column = 0;
  r->operations = 1469598103934665603u;
}

Status replay_end(Replay *r) {
  ReplayStore *s = r->store;
  if (!r->take && !s->operations) s->operations = r->operations;
  if (s->operations == r->operations) return GRPO_OK;
  return fail(GRPO_EARG, "replay: this forward's operations differ from those that were recorded");
}

/* Copies rows of one block of columns into the store or out of it. */
typedef struct Move {
  const Replay *r;
  real *rows;  /* [n, width] of the forward */
  real *block; /* [store's rows, width] */
  size_t width;
  int n, step; /* rows; rows of a chunk */
} Move;

static void move_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Move *m = arg;
  const int from = chunk * m->step, to = from + m->step < m->n ? from + m->step : m->n;
  for (int i = 0; i < m->r->nruns; i++) {
    const ReplayRun *run = &m->r->run[i];
    const int first = run->row > from ? run->row : from;
    const int n = (run->row + run->n < to ? run->row + run->n : to) - first;
    if (n <= 0) continue;
    real *row = m->rows + (size_t)first * m->width;
    real *kept = m->block + (run->at + (size_t)(first - run->row)) * m->width;
    const size_t bytes = (size_t)n * m->width * sizeof *row;
    if (m->r->take)
      memcpy(row, kept, bytes);
    else
      memcpy(kept, row, bytes);
  }
}

/* The next `width` columns. */
static Status move(const Ctx *cx, Replay *r, real *rows, int n, int width) {
  const size_t w = (size_t)width;
  Move m = {.r = r, .rows = rows, .width = w, .n = n, .step = CHUNK_REALS / width + 1};
  if (r->column + w > r->store->columns)
    return fail(GRPO_ELIMIT, "replay: the store has %zu columns, but the forward needs more",
                r->store->columns);
  m.block = r->store->data + r->column * r->store->rows;
  r->column += w;
  pool_run(cx->pool, (n + m.step - 1) / m.step, move_chunk, &m);
  return GRPO_OK;
}

static Status both(const Ctx *cx, Replay *r, const Node *nd) {
  const int width = last_dim(nd->out);
  const int n = width ? (int)(nd->out->n / (size_t)width) : 0;
  const int saved = nd->op->replay->saved ? nd->op->replay->saved(nd) : 0;
  r->operations = (r->operations ^ (uintptr_t)nd->op) * 1099511628211u + (uint64_t)width;
  if (!width) return GRPO_OK;
  try(move(cx, r, nd->out->data, n, width));
  return saved ? move(cx, r, nd->saved, n, saved) : GRPO_OK;
}

Status replay_record(const Ctx *cx, Replay *r, const Node *nd) { return both(cx, r, nd); }

Status replay_take(const Ctx *cx, Replay *r, Node *nd) {
  try(both(cx, r, nd));
  return nd->op->replay->rebuild ? nd->op->replay->rebuild(cx, nd) : GRPO_OK;
}

/* Results kept in one forward and taken in another, whose rows stand elsewhere. */
#include <string.h>

#include "grad/tape.h"
#include "testing.h"

enum { ROWS = 6, K = 5, N = 3, RANK = 2, STORE_ROWS = 9 };

static Tape tape;
static real w[N * K], a[RANK * K], b[N * RANK], data[STORE_ROWS * 16];
static const Attr scale = {.f = {0.5}};

static void fill(real *x, int n, int from) {
  for (int i = 0; i < n; i++) x[i] = (real)((i * 7 + from) % 11) / 4 - 1;
}

static Tensor *leaf(real *x, int rows, int columns) {
  Tensor *t = NULL;
  CHECK(!tape_tensor(&tape, 2, (const int[]){rows, columns}, &t));
  memcpy(t->data, x, t->n * sizeof *x);
  return t;
}

/* x w^T beside an adapter, which must have a gradient for its backward to be looked at */
static Status run(Replay *r, real *x, int rows, Tensor **out, Tensor **grad) {
  Tensor *in[] = {leaf(x, rows, K), leaf(w, N, K), NULL, leaf(a, RANK, K), leaf(b, N, RANK)};
  in[4]->needs_grad = true;
  *grad = in[4];
  replay_begin(r);
  tape.replay = r;
  const Status s = tape_apply(&tape, OP_lora_linear, in, &scale, out);
  tape.replay = NULL;
  try(s);
  return replay_end(r);
}

static void start(real *x) {
  fill(x, ROWS * K, 3), fill(w, N * K, 1), fill(a, RANK * K, 5), fill(b, N * RANK, 2);
  CHECK(!tape_init(&tape, NULL));
}

TEST(rows_are_taken_from_where_they_were_kept) {
  real x[ROWS * K], rest[2 * K], seed[2 * N], want[N * RANK], zeros[2 * K] = {0};
  ReplayStore store = {data, STORE_ROWS, N + RANK, 0};
  const ReplayRun kept[] = {{0, 4, 5}, {4, 2, 0}}, taken[] = {{0, 1, 1}, {1, 1, 6}};
  Replay keep = {.store = &store, .nruns = 2, .run = kept};
  Replay take = {.store = &store, .take = true, .nruns = 2, .run = taken};
  Tensor *all, *some, *grad, *plain;
  start(x), fill(seed, 2 * N, 1);
  CHECK(!run(&keep, x, ROWS, &all, &grad));
  CHECK(keep.column == store.columns && store.operations);
  CHECK(!run(&take, zeros, 2, &some, &grad)); /* its input is not looked at */
  CHECK(memcmp(some->data, all->data + 5 * N, N * sizeof(real)) == 0);
  CHECK(memcmp(some->data + N, all->data + 1 * N, N * sizeof(real)) == 0);
  CHECK(!tape_backward_from(&tape, some, seed)); /* dB comes from what was kept beside the result */
  memcpy(want, grad->grad, sizeof want);
  memcpy(rest, x + 5 * K, K * sizeof *x), memcpy(rest + K, x + 1 * K, K * sizeof *x);
  store.operations = 0;
  CHECK(!run(&keep, rest, 2, &plain, &grad));
  CHECK(!tape_backward_from(&tape, plain, seed));
  CHECK(memcmp(want, grad->grad, sizeof want) == 0);
  tape_free(&tape);
}

TEST(a_narrow_store_and_other_operations_are_errors) {
  real x[ROWS * K];
  ReplayStore store = {data, STORE_ROWS, N, 0};
  const ReplayRun kept = {0, ROWS, 0};
  Replay r = {.store = &store, .nruns = 1, .run = &kept};
  Tensor *out, *grad;
  start(x);
  CHECK(run(&r, x, ROWS, &out, &grad) == GRPO_ELIMIT);
  store.columns = N + RANK;
  CHECK(!run(&r, x, ROWS, &out, &grad));
  replay_begin(&r); /* a forward that lacks one */
  CHECK(replay_end(&r) == GRPO_EARG);
  tape_free(&tape);
}

TEST(what_computes_as_always_is_not_kept) {
  real x[ROWS * K];
  ReplayStore store = {data, STORE_ROWS, N, 0};
  const ReplayRun kept = {0, ROWS, 0};
  Replay r = {.store = &store, .nruns = 1, .run = &kept};
  Tensor *out;
  start(x);
  replay_begin(&r);
  tape.replay = &r;
  CHECK(!tape_apply(&tape, OP_add, (Tensor *[]){leaf(x, ROWS, K), leaf(x, ROWS, K)}, NULL, &out));
  tape.replay = NULL;
  CHECK(r.column == 0);
  tape_free(&tape);
}

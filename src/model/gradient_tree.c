#include "model/gradient_tree.h"

#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"
#include "model/slices.h"
#include "os/comm.h"

/* A partial sum over the leaves start .. start + 2^height - 1, which waits for its right sibling.
 * Entry i of the stack owns row i of the memory. */
typedef struct Waiting {
  int start, height;
  bool filled; /* false: none of its leaves had a gradient */
} Waiting;

enum { MOST_WAITING = 64 };

struct GradientTree {
  Model *m;
  Tensor *more;
  uint64_t numbers; /* of a gradient */
  TreeSteps steps;
  int leaves, block;
  int leaf;  /* whose gradients the parameters have now */
  int end;   /* the last leaf of this process, plus 1 */
  bool open; /* it has some */
  bool shared;
  int nwaiting, room;
  Waiting waiting[MOST_WAITING];
  real *memory;     /* [room, numbers] */
  real *exchange;   /* parts of sums on their way; NULL: no step is shared */
  size_t exchanged; /* numbers that it has room for */
};

/* ---- the cut ------------------------------------------------------------------------ */

static int log2_below(int n) {
  int k = 0;
  while (n >> (k + 1)) k++;
  return k;
}

int gradient_tree_block(uint64_t numbers, int groups, int blocks) {
  const uint64_t bytes = numbers * sizeof(real);
  const uint64_t fit = bytes ? GRADIENT_TREE_BYTES / bytes : MOST_WAITING; /* sums */
  const int height = log2_below(groups);
  const int leaves = blocks ? blocks : fit >= (uint64_t)height ? groups : 1 << fit;
  return leaves < groups ? (groups + leaves - 1) / leaves : 1;
}

static int leaves_of(uint64_t numbers, int groups, int blocks) {
  const int block = gradient_tree_block(numbers, groups, blocks);
  return (groups + block - 1) / block;
}

static void leaves_of_rank(int leaves, int rank, int ranks, int *first, int *end) {
  *first = (int)((int64_t)leaves * rank / ranks);
  *end = (int)((int64_t)leaves * (rank + 1) / ranks);
}

/* The subtrees that make up a rank's leaves: those which close_leaf() leaves. */
static int subtrees(int leaf, int end, Waiting *out) {
  int n = 0;
  while (leaf < end) {
    int height = 0;
    while (leaf % (2 << height) == 0 && leaf + (2 << height) <= end) height++;
    if (out) out[n] = (Waiting){.start = leaf, .height = height};
    leaf += 1 << height;
    n++;
  }
  return n;
}

/* The most sums that wait at once while the leaves first .. end - 1 are closed. */
static int most_waiting(int first, int end) {
  int n = 0, most = 0;
  for (int closed = first + 1; closed <= end; closed++) {
    n++;
    for (int size = 2; closed % size == 0 && closed - size >= first; size *= 2) n--;
    if (n > most) most = n;
  }
  return most;
}

/* One process keeps the last leaf in the gradients.  A rank puts the total of all into a sum. */
static int sums_of_step(int leaves, const TreeSteps *s, bool shared) {
  int first, end;
  if (!shared) return most_waiting(0, leaves - 1);
  leaves_of_rank(leaves, s->rank, s->ranks, &first, &end);
  const int most = most_waiting(first, end);
  return most ? most : 1;
}

int gradient_tree_sums(uint64_t numbers, const TreeSteps *s) {
  int most = 0;
  for (int groups = s->fewest; groups <= s->groups; groups++) {
    const int leaves = leaves_of(numbers, groups, s->blocks);
    const int n = sums_of_step(leaves, s, s->ranks > 1 && leaves > 1);
    if (n > most) most = n;
  }
  return most;
}

/* The numbers that this rank sends and gets at once in a step that ranks share. */
static size_t exchange_of_step(int leaves, const TreeSteps *s) {
  int own = 0, all = 0;
  for (int r = 0; r < s->ranks; r++) {
    int first, end;
    leaves_of_rank(leaves, r, s->ranks, &first, &end);
    const int n = subtrees(first, end, NULL);
    all += n;
    if (r == s->rank) own = n;
  }
  return ((size_t)own * (size_t)s->ranks + (size_t)all) * slice_chunk(s->ranks);
}

size_t gradient_tree_exchange(uint64_t numbers, const TreeSteps *s) {
  size_t most = 0;
  for (int groups = s->fewest; groups <= s->groups && s->ranks > 1; groups++) {
    const int leaves = leaves_of(numbers, groups, s->blocks);
    const size_t n = leaves > 1 ? exchange_of_step(leaves, s) : 0;
    if (n > most) most = n;
  }
  return most;
}

size_t gradient_tree_bytes(uint64_t numbers, const TreeSteps *steps) {
  return (size_t)gradient_tree_sums(numbers, steps) * (size_t)numbers * sizeof(real);
}

/* ---- making -------------------------------------------------------------------------- */

static Status reserve(GradientTree *t, int room) {
  if (room <= t->room) return GRPO_OK;
  const size_t bytes = (size_t)room * (size_t)t->numbers * sizeof(real);
  mem_free_aligned(t->memory);
  t->room = 0;
  t->memory = mem_fits((double)room * t->numbers * sizeof(real)) ? mem_alloc_aligned(bytes) : NULL;
  if (!t->memory)
    return fail(GRPO_ENOMEM, "update: no memory for %zu MiB of partial gradients", bytes >> 20);
  t->room = room;
  return GRPO_OK;
}

static Status reserve_exchange(GradientTree *t, size_t numbers) {
  if (numbers <= t->exchanged) return GRPO_OK;
  mem_free_aligned(t->exchange);
  t->exchanged = 0;
  t->exchange = mem_alloc_aligned(numbers * sizeof *t->exchange);
  if (!t->exchange) return fail(GRPO_ENOMEM, "update: no memory for %zu numbers of ranks", numbers);
  t->exchanged = numbers;
  return GRPO_OK;
}

Status gradient_tree_new(GradientTree **out, Model *m, Tensor *more, const TreeSteps *steps) {
  GradientTree *t = mem_zalloc(sizeof *t);
  if (!t) return fail(GRPO_ENOMEM, "update: no memory for its sums of gradients");
  t->m = m;
  t->more = more;
  t->steps = *steps;
  t->numbers = model_count_trainable(m) + (more ? more->n : 0);
  Status s = reserve(t, gradient_tree_sums(t->numbers, steps));
  if (s == GRPO_OK) s = reserve_exchange(t, gradient_tree_exchange(t->numbers, steps));
  if (s == GRPO_OK)
    *out = t;
  else
    gradient_tree_free(t);
  return s;
}

void gradient_tree_free(GradientTree *t) {
  if (!t) return;
  mem_free_aligned(t->memory);
  mem_free_aligned(t->exchange);
  mem_free(t);
}

/* ---- all gradients --------------------------------------------------------------------- */

/* Walks the trainable tensors; `at` is the offset of the current one in a sum. */
typedef struct Walk {
  int next;
  bool more_done;
  size_t at, end;
} Walk;

static Tensor *walk_next(const GradientTree *t, Walk *w) {
  Param *p = w->more_done ? NULL : model_next_trainable(t->m, &w->next);
  Tensor *x = p ? &p->t : w->more_done ? NULL : t->more;
  if (!p) w->more_done = true;
  w->at = w->end;
  if (x) w->end += x->n;
  return x;
}

static void set_live(GradientTree *t, bool live) {
  Tensor *x;
  for (Walk w = {0}; (x = walk_next(t, &w));) x->grad_live = live;
}

/* No pass of this leaf may have reached a parameter; its gradient then is what it was before. */
static void clear_unreached(GradientTree *t) {
  Tensor *x;
  for (Walk w = {0}; (x = walk_next(t, &w));)
    if (!x->grad_live) memset(x->grad, 0, x->n * sizeof *x->grad);
}

static real *sum_at(const GradientTree *t, int i) { return t->memory + (size_t)i * t->numbers; }

/* ---- the sum ----------------------------------------------------------------------------- */

/* Sum i, empty or not, is increased by the gradients of the leaf. */
static void add_leaf(GradientTree *t, const Ctx *cx, int i) {
  Tensor *x;
  for (Walk w = {0}; (x = walk_next(t, &w));) {
    real *sum = sum_at(t, i) + w.at;
    if (t->waiting[i].filled)
      vec_acc(cx, x->n, x->grad, sum);
    else
      vec_copy(cx, x->n, x->grad, sum);
  }
  t->waiting[i].filled = true;
}

/* Adds sum i to the gradients; a parameter without a gradient gets sum i. */
static void take_sum(GradientTree *t, const Ctx *cx, int i) {
  Tensor *x;
  if (!t->waiting[i].filled) return;
  for (Walk w = {0}; (x = walk_next(t, &w));) {
    if (t->open)
      vec_acc(cx, x->n, sum_at(t, i) + w.at, x->grad);
    else
      vec_copy(cx, x->n, sum_at(t, i) + w.at, x->grad);
  }
  t->open = true;
}

/* Sums of equal height at the end of the stack are added. */
static void join(GradientTree *t, const Ctx *cx) {
  while (t->nwaiting > 1) {
    const int i = t->nwaiting - 1;
    Waiting *left = &t->waiting[i - 1], *right = &t->waiting[i];
    if (left->height != right->height || left->start % (2 << left->height)) return;
    if (right->filled && left->filled)
      vec_acc(cx, t->numbers, sum_at(t, i), sum_at(t, i - 1));
    else if (right->filled)
      vec_copy(cx, t->numbers, sum_at(t, i), sum_at(t, i - 1));
    left->filled |= right->filled;
    left->height++;
    t->nwaiting--;
  }
}

/* The leaf is complete, and not the last of a step that this process has alone. */
static void close_leaf(GradientTree *t, const Ctx *cx) {
  const Waiting *top = t->nwaiting ? &t->waiting[t->nwaiting - 1] : NULL;
  const bool pair = t->leaf % 2 && top && top->start == t->leaf - 1;
  if (!pair) t->waiting[t->nwaiting++] = (Waiting){.start = t->leaf};
  if (t->open) {
    clear_unreached(t);
    add_leaf(t, cx, t->nwaiting - 1);
    set_live(t, false);
  }
  if (pair) t->waiting[t->nwaiting - 1].height++;
  join(t, cx);
  t->open = false;
  t->leaf++;
}

Status gradient_tree_begin(GradientTree *t, int groups, bool shared) {
  t->block = gradient_tree_block(t->numbers, groups, t->steps.blocks);
  t->leaves = leaves_of(t->numbers, groups, t->steps.blocks);
  try(reserve(t, sums_of_step(t->leaves, &t->steps, shared)));
  t->shared = shared;
  t->leaf = t->nwaiting = 0;
  t->end = t->leaves;
  if (shared) leaves_of_rank(t->leaves, t->steps.rank, t->steps.ranks, &t->leaf, &t->end);
  t->open = false;
  set_live(t, false);
  return GRPO_OK;
}

void gradient_tree_enter(GradientTree *t, const Ctx *cx, int group) {
  while (t->leaf < group / t->block) close_leaf(t, cx);
  t->open = true;
}

int gradient_tree_waiting(const GradientTree *t) { return t->nwaiting; }

/* ---- ranks ------------------------------------------------------------------------------- */

/* The sums of all ranks, in the order of their leaves. */
typedef struct Sums {
  int n;
  size_t of_rank[COMM_RANKS + 1]; /* the first of rank r */
  Waiting sum[];
} Sums;

static int subtrees_of_rank(const GradientTree *t, int rank, Waiting *out) {
  int first, end;
  leaves_of_rank(t->leaves, rank, t->steps.ranks, &first, &end);
  return subtrees(first, end, out);
}

/* Which sums there are, and which are filled. */
static Status gather_sums(const GradientTree *t, Sums **out) {
  int n = 0;
  for (int r = 0; r < comm_size(); r++) n += subtrees_of_rank(t, r, NULL);
  Sums *s = mem_zalloc(sizeof *s + (size_t)n * sizeof *s->sum);
  bool *filled = mem_zalloc((size_t)n * sizeof *filled);
  Status st = s && filled ? GRPO_OK : fail(GRPO_ENOMEM, "update: a list of %d sums", n);
  for (int r = 0; r < comm_size() && s; r++) {
    s->of_rank[r] = (size_t)s->n;
    s->n += subtrees_of_rank(t, r, s->sum + s->n);
  }
  if (s) s->of_rank[comm_size()] = (size_t)s->n;
  for (int i = 0; i < t->nwaiting && st == GRPO_OK; i++)
    filled[s->of_rank[comm_rank()] + (size_t)i] = t->waiting[i].filled;
  if (st == GRPO_OK) st = comm_share(filled, s->of_rank);
  for (int i = 0; i < n && st == GRPO_OK; i++) s->sum[i].filled = filled[i];
  mem_free(filled);
  if (st == GRPO_OK)
    *out = s;
  else
    mem_free(s);
  return st;
}

/* Adds sum `right` of a chunk to sum `left`, which is before it. */
static void add_sums(const Ctx *cx, real *chunk, size_t n, Waiting *sum, int left, int right) {
  real *to = chunk + (size_t)left * n, *from = chunk + (size_t)right * n;
  if (sum[right].filled && sum[left].filled)
    vec_acc(cx, n, from, to);
  else if (sum[right].filled)
    vec_copy(cx, n, from, to);
  sum[left].filled |= sum[right].filled;
}

/* The first n numbers of `chunk` become the total of its sums.  stack: room for all of them. */
static bool total(const Ctx *cx, const Sums *s, real *chunk, size_t n, Waiting *sum, int *stack) {
  int top = 0;
  memcpy(sum, s->sum, (size_t)s->n * sizeof *sum);
  for (int i = 0; i < s->n; i++) {
    stack[top++] = i;
    for (; top > 1; top--) {
      Waiting *left = &sum[stack[top - 2]];
      if (left->height != sum[stack[top - 1]].height || left->start % (2 << left->height)) break;
      add_sums(cx, chunk, n, sum, stack[top - 2], stack[top - 1]);
      left->height++;
    }
  }
  for (; top > 1; top--) add_sums(cx, chunk, n, sum, stack[top - 2], stack[top - 1]);
  return sum[0].filled;
}

/* The numbers that a rank adds up: its slice, and `more` behind the last one. */
static Slice slice_of(const GradientTree *t, int rank) {
  Slice s = slice_of_rank(t->m, rank, comm_size());
  if (rank == comm_size() - 1) s.end = t->numbers;
  return s;
}

/* The part of this rank's slice that is exchanged in one round. */
static Slice chunk_of(const GradientTree *t, int rank, int round) {
  const size_t most = slice_chunk(comm_size());
  Slice s = slice_of(t, rank);
  s.from += (uint64_t)round * most;
  if (s.from > s.end) s.from = s.end;
  if (s.end > s.from + most) s.end = s.from + most;
  return s;
}

static size_t length(Slice s) { return (size_t)(s.end - s.from); }

/* Lays out what this rank has for the others. */
static void put_chunks(const GradientTree *t, int round, real *to) {
  for (int r = 0; r < comm_size(); r++) {
    const Slice s = chunk_of(t, r, round);
    for (int i = 0; i < t->nwaiting; i++, to += length(s)) {
      if (t->waiting[i].filled)
        memcpy(to, sum_at(t, i) + s.from, length(s) * sizeof *to);
      else
        memset(to, 0, length(s) * sizeof *to);
    }
  }
}

/* The numbers of this rank in sum 0 become the total of all ranks. */
static Status add_ranks(GradientTree *t, const Ctx *cx, const Sums *s, Waiting *sum, int *stack) {
  size_t to_at[COMM_RANKS + 1] = {0}, from_at[COMM_RANKS + 1] = {0};
  const size_t most = slice_chunk(comm_size());
  const size_t out = (size_t)t->nwaiting * (size_t)comm_size() * most;
  try(reserve_exchange(t, out + (size_t)s->n * most));
  real *from = t->exchange + out;
  bool filled = false;
  for (int round = 0;; round++) {
    const Slice own = chunk_of(t, comm_rank(), round);
    size_t all = 0;
    for (int r = 0; r < comm_size(); r++) {
      const size_t n = length(chunk_of(t, r, round)), sums = s->of_rank[r + 1] - s->of_rank[r];
      to_at[r + 1] = to_at[r] + (size_t)t->nwaiting * n * sizeof(real);
      from_at[r + 1] = from_at[r] + sums * length(own) * sizeof(real);
      all += n;
    }
    if (!all) break;
    put_chunks(t, round, t->exchange);
    try(comm_exchange(t->exchange, to_at, from, from_at));
    filled = total(cx, s, from, length(own), sum, stack);
    memcpy(sum_at(t, 0) + own.from, from, length(own) * sizeof(real));
  }
  t->nwaiting = 1;
  t->waiting[0].filled = filled;
  return GRPO_OK;
}

/* The gradients of this rank's slice become those of sum 0, and every rank has those of `more`. */
static Status take_own(GradientTree *t, const Ctx *cx) {
  const Slice own = slice_of(t, comm_rank());
  Tensor *x;
  size_t first, count;
  t->open = t->waiting[0].filled;
  t->nwaiting = 0;
  for (Walk w = {0}; t->open && (x = walk_next(t, &w));)
    if (slice_part(own, w.at, x->n, &first, &count))
      vec_copy(cx, count, sum_at(t, 0) + w.at + first, x->grad + first);
  if (!t->open || !t->more) return GRPO_OK;
  return comm_broadcast(comm_size() - 1, t->more->grad, t->more->n * sizeof(real));
}

static Status join_ranks(GradientTree *t, const Ctx *cx) {
  Sums *s;
  try(gather_sums(t, &s));
  Waiting *sum = mem_alloc((size_t)s->n * sizeof *sum);
  int *stack = mem_alloc((size_t)s->n * sizeof *stack);
  const Status st = sum && stack ? add_ranks(t, cx, s, sum, stack)
                                 : fail(GRPO_ENOMEM, "update: a list of %d sums", s->n);
  mem_free(sum);
  mem_free(stack);
  mem_free(s);
  return st;
}

int gradient_tree_leaves(const GradientTree *t, int groups) {
  return leaves_of(t->numbers, groups, t->steps.blocks);
}

void gradient_tree_range(const GradientTree *t, int groups, int rank, int *first, int *end) {
  const int block = gradient_tree_block(t->numbers, groups, t->steps.blocks);
  leaves_of_rank(gradient_tree_leaves(t, groups), rank, t->steps.ranks, first, end);
  *first = *first * block < groups ? *first * block : groups;
  *end = *end * block < groups ? *end * block : groups;
}

/* ---- the end --------------------------------------------------------------------------------- */

Status gradient_tree_end(GradientTree *t, const Ctx *cx) {
  Tensor *x;
  while (t->leaf < t->end - !t->shared) close_leaf(t, cx);
  if (t->shared) {
    try(join_ranks(t, cx));
    try(take_own(t, cx));
  } else if (t->open)
    clear_unreached(t);
  while (t->nwaiting) take_sum(t, cx, --t->nwaiting);
  if (t->open)
    set_live(t, true);
  else
    for (Walk w = {0}; (x = walk_next(t, &w));) memset(x->grad, 0, x->n * sizeof *x->grad);
  return GRPO_OK;
}

#include "model/gradient_tree.h"

#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"
#include "os/comm.h"

/* A sum that waits, of 2^height leaves from `start` on.  Its numbers are in the memory of its place
 * in the stack. */
typedef struct Waiting {
  int start, height;
  bool filled; /* false: none of its leaves had a gradient */
} Waiting;

enum {
  MOST_WAITING = 64,
  CHUNK = 1 << 16 /* numbers that ranks exchange at once, of each sum */
};

struct GradientTree {
  Model *m;
  Tensor *more;
  uint64_t numbers; /* of a gradient */
  int blocks;       /* the most leaves; 0: what GRADIENT_TREE_BYTES allows */
  int leaves, block;
  int leaf;  /* whose gradients the parameters have now */
  int end;   /* the last leaf of this process, plus 1 */
  bool open; /* it has some */
  bool shared;
  int nwaiting, room;
  Waiting waiting[MOST_WAITING];
  real *memory;   /* [room, numbers] */
  real *exchange; /* [sums of all ranks, CHUNK]; NULL: no step was shared yet */
  int exchanged;  /* sums that `exchange` has room for */
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

static void leaves_of_rank(int leaves, int rank, int *first, int *end) {
  *first = (int)((int64_t)leaves * rank / comm_size());
  *end = (int)((int64_t)leaves * (rank + 1) / comm_size());
}

/* Ranks have incomplete subtrees at both ends of their leaves, and hold them all at the end. */
static int sums_that_wait(uint64_t numbers, int groups, int blocks) {
  const int most = groups > 1 ? log2_below(leaves_of(numbers, groups, blocks)) : 0;
  return most && comm_size() > 1 ? 2 * most + 1 : most;
}

size_t gradient_tree_bytes(uint64_t numbers, int groups, int blocks) {
  return (size_t)sums_that_wait(numbers, groups, blocks) * (size_t)numbers * sizeof(real);
}

/* ---- making -------------------------------------------------------------------------- */

static Status reserve(GradientTree *t, int groups) {
  const int room = sums_that_wait(t->numbers, groups, t->blocks);
  if (room <= t->room) return GRPO_OK;
  const size_t bytes = gradient_tree_bytes(t->numbers, groups, t->blocks);
  mem_free_aligned(t->memory);
  t->room = 0;
  t->memory = mem_alloc_aligned(bytes);
  if (!t->memory)
    return fail(GRPO_ENOMEM, "update: no memory for %zu MiB of partial gradients", bytes >> 20);
  t->room = room;
  return GRPO_OK;
}

Status gradient_tree_new(GradientTree **out, Model *m, Tensor *more, int groups, int blocks) {
  GradientTree *t = mem_zalloc(sizeof *t);
  if (!t) return fail(GRPO_ENOMEM, "update: no memory for its sums of gradients");
  t->m = m;
  t->more = more;
  t->blocks = blocks;
  t->numbers = model_count_trainable(m) + (more ? more->n : 0);
  const Status s = reserve(t, groups);
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

/* The tensors one after the other; at: where the numbers of the last one are in a sum. */
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

/* The gradients become sum i plus themselves, or sum i if there are none. */
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
  try(reserve(t, groups));
  t->block = gradient_tree_block(t->numbers, groups, t->blocks);
  t->leaves = leaves_of(t->numbers, groups, t->blocks);
  t->shared = shared;
  t->leaf = t->nwaiting = 0;
  t->end = t->leaves;
  if (shared) leaves_of_rank(t->leaves, comm_rank(), &t->leaf, &t->end);
  t->open = false;
  set_live(t, false);
  return GRPO_OK;
}

void gradient_tree_enter(GradientTree *t, const Ctx *cx, int group) {
  while (t->leaf < group / t->block) close_leaf(t, cx);
  t->open = true;
}

/* ---- ranks ------------------------------------------------------------------------------- */

/* The sums of all ranks, in the order of their leaves. */
typedef struct Sums {
  int n;
  size_t of_rank[COMM_RANKS + 1]; /* the first of rank r */
  Waiting sum[];
} Sums;

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

static int subtrees_of_rank(const GradientTree *t, int rank, Waiting *out) {
  int first, end;
  leaves_of_rank(t->leaves, rank, &first, &end);
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

static Status reserve_exchange(GradientTree *t, int sums) {
  if (sums <= t->exchanged) return GRPO_OK;
  mem_free_aligned(t->exchange);
  t->exchanged = 0;
  t->exchange = mem_alloc_aligned((size_t)sums * CHUNK * sizeof *t->exchange);
  if (!t->exchange) return fail(GRPO_ENOMEM, "update: no memory for %d sums of ranks", sums);
  t->exchanged = sums;
  return GRPO_OK;
}

/* Sum 0 becomes the total of all ranks. */
static Status add_ranks(GradientTree *t, const Ctx *cx, const Sums *s, Waiting *sum, int *stack) {
  const size_t mine = s->of_rank[comm_rank()];
  size_t at[COMM_RANKS + 1];
  bool filled = false;
  try(reserve_exchange(t, s->n));
  for (uint64_t from = 0; from < t->numbers; from += CHUNK) {
    const size_t n = t->numbers - from < CHUNK ? (size_t)(t->numbers - from) : CHUNK;
    for (int i = 0; i < t->nwaiting; i++) {
      real *to = t->exchange + (mine + (size_t)i) * n;
      if (t->waiting[i].filled)
        memcpy(to, sum_at(t, i) + from, n * sizeof *to);
      else
        memset(to, 0, n * sizeof *to);
    }
    for (int r = 0; r <= comm_size(); r++) at[r] = s->of_rank[r] * n * sizeof(real);
    try(comm_share(t->exchange, at));
    filled = total(cx, s, t->exchange, n, sum, stack);
    memcpy(sum_at(t, 0) + from, t->exchange, n * sizeof(real));
  }
  t->nwaiting = 1;
  t->waiting[0].filled = filled;
  return GRPO_OK;
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
  return leaves_of(t->numbers, groups, t->blocks);
}

void gradient_tree_range(const GradientTree *t, int groups, int rank, int *first, int *end) {
  const int block = gradient_tree_block(t->numbers, groups, t->blocks);
  leaves_of_rank(leaves_of(t->numbers, groups, t->blocks), rank, first, end);
  *first = *first * block < groups ? *first * block : groups;
  *end = *end * block < groups ? *end * block : groups;
}

/* ---- the end --------------------------------------------------------------------------------- */

Status gradient_tree_end(GradientTree *t, const Ctx *cx) {
  Tensor *x;
  while (t->leaf < t->end - !t->shared) close_leaf(t, cx);
  if (t->shared) try(join_ranks(t, cx));
  if (t->open) clear_unreached(t);
  while (t->nwaiting) take_sum(t, cx, --t->nwaiting);
  if (t->open)
    set_live(t, true);
  else
    for (Walk w = {0}; (x = walk_next(t, &w));) memset(x->grad, 0, x->n * sizeof *x->grad);
  return GRPO_OK;
}

#include "model/gradient_tree.h"

#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"

/* A sum that waits, of 2^height leaves.  Its numbers are in the memory of its place in the
 * stack. */
typedef struct Waiting {
  int height;
  bool filled; /* false: none of its leaves had a gradient */
} Waiting;

enum { MOST_WAITING = 32 };

struct GradientTree {
  Model *m;
  Tensor *more;
  uint64_t numbers; /* of a gradient */
  int blocks;       /* the most leaves; 0: what GRADIENT_TREE_BYTES allows */
  int leaves, block;
  int leaf;  /* whose gradients the parameters have now */
  bool open; /* it has some */
  int nwaiting, room;
  Waiting waiting[MOST_WAITING];
  real *memory; /* [room, numbers] */
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

static int sums_that_wait(uint64_t numbers, int groups, int blocks) {
  return groups > 1 ? log2_below(leaves_of(numbers, groups, blocks)) : 0;
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
    if (left->height != right->height) return;
    if (right->filled && left->filled)
      vec_acc(cx, t->numbers, sum_at(t, i), sum_at(t, i - 1));
    else if (right->filled)
      vec_copy(cx, t->numbers, sum_at(t, i), sum_at(t, i - 1));
    left->filled |= right->filled;
    left->height++;
    t->nwaiting--;
  }
}

/* The leaf is complete, and not the last. */
static void close_leaf(GradientTree *t, const Ctx *cx) {
  const bool pair = t->leaf % 2; /* with the leaf before, which waits */
  if (!pair) t->waiting[t->nwaiting++] = (Waiting){0};
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

Status gradient_tree_begin(GradientTree *t, int groups) {
  try(reserve(t, groups));
  t->block = gradient_tree_block(t->numbers, groups, t->blocks);
  t->leaves = leaves_of(t->numbers, groups, t->blocks);
  t->leaf = t->nwaiting = 0;
  t->open = false;
  set_live(t, false);
  return GRPO_OK;
}

void gradient_tree_enter(GradientTree *t, const Ctx *cx, int group) {
  while (t->leaf < group / t->block) close_leaf(t, cx);
  t->open = true;
}

void gradient_tree_end(GradientTree *t, const Ctx *cx) {
  Tensor *x;
  while (t->leaf < t->leaves - 1) close_leaf(t, cx);
  if (t->open) clear_unreached(t);
  while (t->nwaiting) take_sum(t, cx, --t->nwaiting);
  if (t->open) {
    set_live(t, true);
    return;
  }
  for (Walk w = {0}; (x = walk_next(t, &w));) memset(x->grad, 0, x->n * sizeof *x->grad);
}

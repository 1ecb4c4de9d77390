#include "model/classifier.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward.h"
#include "model/model_struct.h"

enum { ROWS_AT_ONCE = 2048 }; /* of one forward, unless a sequence alone is longer */

Status classifier_new(Classifier **out, Model *trunk, int labels) {
  const size_t n = (size_t)labels * (size_t)model_config(trunk)->hidden_size;
  Classifier *c = mem_zalloc(sizeof *c);
  real *score = mem_zalloc(n * sizeof *score);
  if (!c || !score) {
    mem_free(c);
    mem_free(score);
    model_release(trunk);
    return fail(GRPO_ENOMEM, "classifier: no memory for a head of %d labels", labels);
  }
  *c = (Classifier){trunk, labels, score};
  *out = c;
  return GRPO_OK;
}

void classifier_free(Classifier *c) {
  if (!c) return;
  model_release(c->trunk);
  mem_free(c->score);
  mem_free(c);
}

/* ---- a head that is trained ------------------------------------------------------------- */

static Status copy_weights(Model *to, const Model *from, const real *score) {
  for (int i = 0; i < to->nparams; i++) {
    Param *p = &to->param[i];
    const Param *q = model_find((Model *)(uintptr_t)from, p->name);
    if (&p->t == to->t[M_SCORE]) {
      if (score) memcpy(p->t.data, score, p->t.n * sizeof *score);
    } else if (!q || q->t.n != p->t.n || q->t.quant) {
      return fail(GRPO_EARG, "a head is trained with its model, whose weights must be float32");
    } else {
      memcpy(p->t.data, q->t.data, p->t.n * sizeof *p->t.data);
    }
  }
  model_updated(to);
  return GRPO_OK;
}

Status model_with_score(Model **out, const Model *m, int labels, const real *score, uint64_t seed) {
  Config c = *model_config(m);
  Model *made;
  if (m->lora) return fail(GRPO_EARG, "a head is trained with its model, not with an adapter");
  c.num_labels = labels;
  c.tie_word_embeddings = true; /* there is no projection */
  try(model_new(&made, m->pool, &c, seed));
  made->compute = m->compute;
  const Status s = copy_weights(made, m, score);
  if (s != GRPO_OK) {
    model_release(made);
    return s;
  }
  *out = made;
  return GRPO_OK;
}

/* ---- logits ------------------------------------------------------------------------------ */

Sequence sequence_trimmed(const Config *c, Sequence s) {
  int len = s.len;
  while (len > 0 && s.ids[len - 1] == c->pad_token_id) len--;
  return (Sequence){s.ids, len ? len : 1};
}

/* How many tokens at the beginning do all of them share, each keeping one for itself? */
static int common_length(int n, const Sequence *s) {
  int common = s[0].len - 1;
  for (int i = 1; i < n; i++) {
    common = min_int(common, s[i].len - 1);
    for (int t = 0; t < common; t++)
      if (s[i].ids[t] != s[0].ids[t]) common = t;
  }
  return common;
}

/* The pack's groups: one, where there is a common beginning, else a group for each sequence.  A
 * sequence of one token is a prompt with a completion that is not computed. */
typedef struct Groups {
  int n;
  PackGroup *group;
  const int32_t **completion;
  int *completion_len;
} Groups;

static void put_sequence(Groups *g, int i, Sequence s, int prompt_len) {
  const int len = s.len - prompt_len;
  g->completion[i] = len ? s.ids + prompt_len : s.ids;
  g->completion_len[i] = len ? len : 1;
}

static Status make_groups(Arena *a, int n, const Sequence *s, Groups *g) {
  const int common = common_length(n, s);
  *g = (Groups){.group = arena_alloc(a, (size_t)n * sizeof *g->group),
                .completion = arena_alloc(a, (size_t)n * sizeof *g->completion),
                .completion_len = arena_alloc(a, (size_t)n * sizeof *g->completion_len)};
  if (!g->group || !g->completion || !g->completion_len)
    return fail(GRPO_ENOMEM, "classifier: %d sequences", n);
  if (common > 0) {
    for (int i = 0; i < n; i++) put_sequence(g, i, s[i], common);
    g->group[g->n++] =
        (PackGroup){s[0].ids, common, n, g->completion, g->completion_len, INT32_MAX, 0};
    return GRPO_OK;
  }
  for (int i = 0; i < n; i++) {
    put_sequence(g, i, s[i], 1);
    g->group[g->n++] = (PackGroup){
        s[i].ids, 1, 1, &g->completion[i], &g->completion_len[i], s[i].len > 1 ? INT32_MAX : 1, 0};
  }
  return GRPO_OK;
}

/* The logits of a row of hidden. */
static void apply_head(const Classifier *c, const real *hidden, real *logits) {
  const int width = model_config(c->trunk)->hidden_size;
  for (int k = 0; k < c->labels; k++) {
    const real *w = c->score + (size_t)k * (size_t)width;
    double sum = 0;
    for (int i = 0; i < width; i++) sum += (double)w[i] * (double)hidden[i];
    logits[k] = (real)sum;
  }
}

/* The values of completion i are those before each of its tokens, and, where end_below is beyond
 * its length, after the last one: the last of them is wanted. */
static void read_pooled(const Classifier *c, const Groups *g, const Pack *p, const Tensor *hidden,
                        real *logits) {
  const int width = model_config(c->trunk)->hidden_size;
  int value = 0, at = 0;
  for (int k = 0; k < g->n; k++)
    for (int i = 0; i < g->group[k].n; i++, at++) {
      const int len = g->group[k].completion_len[i];
      value += len + (len < g->group[k].end_below);
      apply_head(c, hidden->data + (size_t)p->value_rows[value - 1] * (size_t)width,
                 logits + (size_t)at * (size_t)c->labels);
    }
}

static Status forward_some(Classifier *c, Tape *t, int n, const Sequence *s, real *logits) {
  Groups g;
  Pack p;
  Tensor *hidden;
  tape_reset(t);
  try(make_groups(&t->arena, n, s, &g));
  try(pack_groups(&t->arena, model_config(c->trunk), g.n, g.group, &p));
  try(forward_hidden(c->trunk, t, &p, &hidden));
  read_pooled(c, &g, &p, hidden, logits);
  return GRPO_OK;
}

static Status forward_all(Classifier *c, Tape *t, int n, const Sequence *s, real *logits) {
  for (int from = 0, to; from < n; from = to) {
    int64_t rows = s[from].len;
    for (to = from + 1; to < n && rows + s[to].len <= ROWS_AT_ONCE; to++) rows += s[to].len;
    try(forward_some(c, t, to - from, s + from, logits + (size_t)from * (size_t)c->labels));
  }
  return GRPO_OK;
}

static Status check_lengths(const Config *c, int n, const Sequence *s) {
  for (int i = 0; i < n; i++)
    if (s[i].len > c->max_position_embeddings)
      return fail(GRPO_EARG, "text %d has %d tokens, but the classifier's context is %d", i + 1,
                  s[i].len, c->max_position_embeddings);
  return GRPO_OK;
}

Status classifier_logits(Classifier *c, int n, const Sequence *s, real *logits) {
  Tape t;
  Sequence *own = mem_alloc((size_t)(n + 1) * sizeof *own);
  if (!own) return fail(GRPO_ENOMEM, "classifier: %d sequences", n);
  for (int i = 0; i < n; i++) own[i] = sequence_trimmed(model_config(c->trunk), s[i]);
  Status st = check_lengths(model_config(c->trunk), n, own);
  if (st == GRPO_OK) st = model_tape(c->trunk, &t);
  if (st == GRPO_OK) {
    t.off = true;
    st = forward_all(c, &t, n, own, logits);
    tape_free(&t);
  }
  mem_free(own);
  return st;
}

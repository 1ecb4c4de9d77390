#include "model/pack.h"

#include "base/minmax.h"

/* Numbers of rows, outputs, spans and values of the groups so far. */
typedef struct Sizes {
  int64_t rows, outputs, spans, values;
} Sizes;

static Status check_ids(const Config *c, int group, const char *what, const int32_t *ids, int n) {
  for (int i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= c->vocab_size)
      return fail(GRPO_EARG, "group %d: %s token %d has id %d, outside the vocabulary of %d",
                  group + 1, what, i + 1, (int)ids[i], c->vocab_size);
  return GRPO_OK;
}

/* Is the last token of completion i a row? */
static int has_end(const PackGroup *g, int i) { return g->completion_len[i] < g->end_below; }

static int longest(const PackGroup *g) {
  int most = g->longest > g->prompt_len ? g->longest : g->prompt_len;
  for (int i = 0; !g->longest && i < g->n; i++)
    most = max_int(most, g->prompt_len + g->completion_len[i]);
  return most;
}

/* A prompt that several sequences share has one kind of factors. */
static Status check_factors(const Config *c, int group, const PackGroup *g) {
  const bool is_long = config_is_long(c, longest(g));
  for (int i = 0; is_long && !g->longest && i < g->n; i++)
    if (!config_is_long(c, g->prompt_len + g->completion_len[i]))
      return fail(GRPO_EARG,
                  "group %d: some of its sequences are longer than %d tokens, where longrope's "
                  "factors change, and others are not; give max_new_tokens, or take them apart",
                  group + 1, c->rope_original_max_position_embeddings);
  return GRPO_OK;
}

static Status measure(const Config *c, int group, const PackGroup *g, Sizes *s) {
  if (g->prompt_len < 1) return fail(GRPO_EARG, "group %d: the prompt is empty", group + 1);
  try(check_ids(c, group, "prompt", g->prompt, g->prompt_len));
  s->rows += g->prompt_len;
  s->spans++;
  for (int i = 0; i < g->n; i++) {
    const int len = g->completion_len[i];
    if (len < 1) return fail(GRPO_EARG, "group %d: completion %d is empty", group + 1, i + 1);
    if (len > c->max_position_embeddings - g->prompt_len)
      return fail(GRPO_EARG,
                  "group %d: prompt of %d and completion of %d tokens exceed the model's context "
                  "of %d",
                  group + 1, g->prompt_len, len, c->max_position_embeddings);
    try(check_ids(c, group, "completion", g->completion[i], len));
    const int rows = len - 1 + has_end(g, i);
    s->rows += rows;
    s->outputs += len;
    if (g->end_below) s->values += len + has_end(g, i);
    s->spans += rows > 0;
  }
  if (g->prompt_len > c->max_position_embeddings)
    return fail(GRPO_EARG, "group %d: the prompt of %d tokens exceeds the model's context of %d",
                group + 1, g->prompt_len, c->max_position_embeddings);
  return check_factors(c, group, g);
}

typedef struct Filling {
  int32_t *ids, *pos, *length, *sequences, *out_rows, *targets, *value_rows;
  PackSpan *spans;
  int rows, outputs, nspans, values;
} Filling;

static void put_rows(Filling *f, const int32_t *ids, int n, int pos, int length, int sequences,
                     int prefix) {
  if (n) f->spans[f->nspans++] = (PackSpan){f->rows, n, prefix};
  for (int i = 0; i < n; i++, f->rows++) {
    f->ids[f->rows] = ids[i];
    f->pos[f->rows] = pos + i;
    f->length[f->rows] = length;
    f->sequences[f->rows] = sequences;
  }
}

static void put_group(Filling *f, const PackGroup *g) {
  const int prompt_span = f->nspans, length = longest(g);
  put_rows(f, g->prompt, g->prompt_len, 0, length, g->n, -1);
  const int last = f->rows - 1;
  for (int i = 0; i < g->n; i++) {
    const int len = g->completion_len[i], first = f->rows;
    put_rows(f, g->completion[i], len - 1 + has_end(g, i), g->prompt_len, length, 1, prompt_span);
    for (int t = 0; t < len; t++, f->outputs++) {
      f->out_rows[f->outputs] = t ? first + t - 1 : last;
      f->targets[f->outputs] = g->completion[i][t];
    }
    for (int t = 0; g->end_below && t < len + has_end(g, i); t++)
      f->value_rows[f->values++] = t ? first + t - 1 : last;
  }
}

Status pack_groups(Arena *a, const Config *c, int ngroups, const PackGroup *groups, Pack *out) {
  Sizes s = {0};
  for (int i = 0; i < ngroups; i++) try(measure(c, i, &groups[i], &s));
  if (s.rows > INT32_MAX / 2 || s.outputs > INT32_MAX / 2)
    return fail(GRPO_ELIMIT, "a pack of %lld rows is too large", (long long)s.rows);
  Filling f = {.ids = arena_alloc(a, (size_t)s.rows * sizeof *f.ids),
               .pos = arena_alloc(a, (size_t)s.rows * sizeof *f.pos),
               .length = arena_alloc(a, (size_t)s.rows * sizeof *f.length),
               .sequences = arena_alloc(a, (size_t)s.rows * sizeof *f.sequences),
               .out_rows = arena_alloc(a, (size_t)s.outputs * sizeof *f.out_rows),
               .targets = arena_alloc(a, (size_t)s.outputs * sizeof *f.targets),
               .value_rows = arena_alloc(a, (size_t)s.values * sizeof *f.value_rows),
               .spans = arena_alloc(a, (size_t)s.spans * sizeof *f.spans)};
  if (!f.ids || !f.pos || !f.length || !f.sequences || !f.out_rows || !f.targets || !f.value_rows ||
      !f.spans)
    return fail(GRPO_ENOMEM, "no memory for a pack of %lld rows", (long long)s.rows);
  for (int i = 0; i < ngroups; i++) put_group(&f, &groups[i]);
  *out = (Pack){.nrows = f.rows,
                .ids = f.ids,
                .pos = f.pos,
                .length = f.length,
                .sequences = f.sequences,
                .nspans = f.nspans,
                .spans = f.spans,
                .nout = f.outputs,
                .out_rows = f.out_rows,
                .targets = f.targets,
                .nvalues = f.values,
                .value_rows = f.value_rows};
  return GRPO_OK;
}

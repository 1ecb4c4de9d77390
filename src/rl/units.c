#include "rl/units.h"

#include <string.h>

#include "kern/token_set.h"

/* A completion's last token predicts nothing, so it needs no row. */
static int rows_of(int len) { return len - 1; }

int units_of_batch(const Batch *b, int end_below, Unit *out) {
  int nunits = 0, token0 = 0;
  for (int p = 0; p < b->nprompts; p++) {
    Unit u = {.first = p * b->group, .rows = b->prompt_len[p], .token0 = token0};
    for (int i = p * b->group; i < (p + 1) * b->group; i++) {
      const int len = b->completion[i].len, rows = rows_of(len) + (len < end_below);
      if (u.n && u.rows + rows > UNIT_ROWS) {
        out[nunits++] = u;
        u = (Unit){.first = i, .rows = b->prompt_len[p], .token0 = u.token0 + u.tokens};
      }
      u.n++;
      u.rows += rows;
      u.tokens += len;
    }
    out[nunits++] = u;
    token0 = u.token0 + u.tokens;
  }
  return nunits;
}

/* Without a prompt, the first token of the target serves as one. */
static Example whole(const Example *e) {
  if (e->prompt_len > 0) return *e;
  return (Example){.prompt = e->target,
                   .prompt_len = 1,
                   .target = e->target + 1,
                   .target_len = e->target_len - 1};
}

int units_of_examples(int n, const Example *examples, Unit *out) {
  int nunits = 0;
  Unit u = {0};
  for (int i = 0; i < n; i++) {
    const Example e = whole(&examples[i]);
    const int rows = e.prompt_len + rows_of(e.target_len);
    if (u.n && u.rows + rows > SFT_UNIT_ROWS) {
      out[nunits++] = u;
      u = (Unit){.first = i, .token0 = u.token0 + u.tokens};
    }
    u.n++;
    u.rows += rows;
    u.tokens += e.target_len;
  }
  if (u.n) out[nunits++] = u;
  return nunits;
}

int unit_rows_max(int group, int max_prompt, int max_new) {
  const int64_t one = (int64_t)max_prompt + rows_of(max_new);
  const int64_t all = (int64_t)max_prompt + (int64_t)group * rows_of(max_new);
  const int64_t cut = one > UNIT_ROWS ? one : UNIT_ROWS;
  return (int)(all < cut ? all : cut);
}

Status unit_pack_batch(Arena *a, const Config *c, const Batch *b, const Unit *u, int end_below,
                       Pack *out) {
  const int32_t **ids = arena_alloc(a, (size_t)u->n * sizeof *ids);
  int *len = arena_alloc(a, (size_t)u->n * sizeof *len);
  if (!ids || !len) return fail(GRPO_ENOMEM, "update: no memory for a packed group");
  for (int i = 0; i < u->n; i++) {
    ids[i] = b->completion[u->first + i].ids;
    len[i] = b->completion[u->first + i].len;
  }
  PackGroup g = {.n = u->n, .completion = ids, .completion_len = len, .end_below = end_below};
  g.prompt = batch_prompt(b, u->first / b->group, &g.prompt_len);
  g.longest = g.prompt_len + b->longest;
  return pack_groups(a, c, 1, &g, out);
}

/* ---- the reference's packs ------------------------------------------------------------- */

typedef struct RefLayout {
  const Batch *b;
  int end; /* completion after the unit's last */
  PackGroup *group;
  const int32_t **ids; /* of the completions */
  int *len;
  int at; /* outputs so far */
} RefLayout;

static bool same_ref_prompt(const PackGroup *g, const int32_t *ids, int len) {
  return g->prompt_len == len && memcmp(g->prompt, ids, (size_t)len * sizeof *ids) == 0;
}

/* Lays out completions from `first` on, as many as fit into UNIT_ROWS rows, at least one.  Returns
 * the number of their groups. */
static int lay_ref_groups(RefLayout *l, int first, int *next) {
  const Batch *b = l->b;
  int n = 0, rows = 0, i = first, len;
  for (; i < l->end; i++) {
    const int32_t *prompt = batch_ref_prompt(b, i, &len);
    const Completion *c = &b->completion[i];
    const bool shared = n && same_ref_prompt(&l->group[n - 1], prompt, len);
    const int more = rows_of(c->len) + (shared ? 0 : len);
    if (len == 0 || (n && rows + more > UNIT_ROWS)) break;
    l->ids[i - first] = c->ids;
    l->len[i - first] = c->len;
    if (!shared)
      l->group[n++] = (PackGroup){.prompt = prompt,
                                  .prompt_len = len,
                                  .completion = l->ids + (i - first),
                                  .completion_len = l->len + (i - first),
                                  .longest = len + b->longest};
    l->group[n - 1].n++;
    l->at += c->len;
    rows += more;
  }
  *next = i;
  return n;
}

Status unit_pack_reference(Arena *a, const Config *c, const Batch *b, const Unit *u,
                           RefPacks *out) {
  const size_t n = (size_t)u->n;
  RefLayout l = {b,
                 u->first + u->n,
                 arena_alloc(a, n * sizeof *l.group),
                 arena_alloc(a, n * sizeof *l.ids),
                 arena_alloc(a, n * sizeof *l.len),
                 0};
  *out = (RefPacks){0, arena_alloc(a, n * sizeof *out->pack)};
  if (!l.group || !l.ids || !l.len || !out->pack)
    return fail(GRPO_ENOMEM, "reference: no memory for a packed group");
  for (int i = u->first; i < l.end;) {
    RefPack *p = &out->pack[out->n];
    p->at = l.at;
    const int groups = lay_ref_groups(&l, i, &i);
    if (groups) {
      try(pack_groups(a, c, groups, l.group, &p->pack));
      out->n++;
    } else {
      l.at += b->completion[i++].len;
    }
  }
  return GRPO_OK;
}

/* ---- tokens and activations that sampling has recorded --------------------------------------- */

Status unit_token_sets(Arena *a, int vocab, const Batch *b, const Unit *u,
                       const uint32_t *const **out) {
  const uint32_t **sets = NULL;
  bool any = false;
  for (int i = u->first; i < u->first + u->n; i++) any |= b->completion[i].sampling_mask != NULL;
  *out = NULL;
  if (!any) return GRPO_OK;
  if (!(sets = arena_alloc(a, (size_t)u->tokens * sizeof *sets)))
    return fail(GRPO_ENOMEM, "update: no memory for a packed group");
  *out = sets;
  for (int i = u->first; i < u->first + u->n; i++) {
    const Completion *c = &b->completion[i];
    const uint32_t *set = c->sampling_mask ? c->sampling_mask->words : NULL;
    for (int t = 0; t < c->len; t++) {
      *sets++ = set && set[0] ? set : NULL;
      if (set) set = token_set_next(set, vocab);
    }
  }
  return GRPO_OK;
}

Status unit_replay(Arena *a, RolloutActivations *k, const Batch *b, const Unit *u, const Pack *p,
                   Replay **out) {
  Replay *r = arena_alloc(a, sizeof *r);
  ReplayRun *run = arena_alloc(a, (size_t)p->nspans * sizeof *run);
  const int slot = u->first / b->group;
  if (!r || !run) return fail(GRPO_ENOMEM, "update: no memory for %d spans", p->nspans);
  int n = 0;
  run[n++] = (ReplayRun){0, p->spans[0].n, rollout_activations_row(k, slot, -1)};
  for (int i = u->first; i < u->first + u->n; i++) {
    if (rows_of(b->completion[i].len) == 0) continue; /* no span */
    run[n] =
        (ReplayRun){p->spans[n].row, p->spans[n].n, rollout_activations_row(k, slot, i % b->group)};
    n++;
  }
  *r = (Replay){.store = &k->store, .take = true, .nruns = n, .run = run};
  *out = r;
  return GRPO_OK;
}

Status unit_pack_examples(Arena *a, const Config *c, const Example *examples, const Unit *u,
                          Pack *out) {
  PackGroup *g = arena_alloc(a, (size_t)u->n * sizeof *g);
  Example *e = arena_alloc(a, (size_t)u->n * sizeof *e);
  const int32_t **ids = arena_alloc(a, (size_t)u->n * sizeof *ids);
  if (!g || !e || !ids) return fail(GRPO_ENOMEM, "sft: no memory for packed examples");
  for (int i = 0; i < u->n; i++) {
    e[i] = whole(&examples[u->first + i]);
    ids[i] = e[i].target;
    g[i] = (PackGroup){.prompt = e[i].prompt,
                       .prompt_len = e[i].prompt_len,
                       .n = 1,
                       .completion = &ids[i],
                       .completion_len = &e[i].target_len};
  }
  return pack_groups(a, c, u->n, g, out);
}

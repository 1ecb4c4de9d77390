#include "rl/update_ranks.h"

#include <math.h>

#include "grad/policy.h"
#include "os/comm.h"
#include "rl/share.h"

/* ---- who has what ---------------------------------------------------------------------- */

/* Gives the groups of this optimizer step their places. */
static void place_groups(Update *u) {
  Plan *p = &u->plan;
  int last = -1;
  u->groups = 0;
  for (int i = 0; i < u->norder; i++) {
    const int group = p->unit[p->order[i]].first / u->b->group;
    u->groups += group != last;
    p->place[p->order[i]] = u->groups - 1;
    last = group;
  }
}

/* A critic's trunk has a tree of its own, which must be cut between the same groups. */
static bool cuts_agree(const GradientTree *a, const GradientTree *b, int groups) {
  for (int r = 0; b && r < comm_size(); r++) {
    int first[2], end[2];
    gradient_tree_range(a, groups, r, &first[0], &end[0]);
    gradient_tree_range(b, groups, r, &first[1], &end[1]);
    if (first[0] != first[1] || end[0] != end[1]) return false;
  }
  return true;
}

static bool is_divided(const Update *u) {
  const Engine *e = u->e;
  return u->b == &e->batch[BATCH_SAMPLE] && share_splits_updates(e, u->groups) &&
         cuts_agree(e->tree, e->critic_tree, u->groups);
}

/* The places in plan.order of rank r's units. */
static void places_of_rank(const Update *u, int rank, int *first, int *end) {
  const Plan *p = &u->plan;
  int group, last;
  gradient_tree_range(u->e->tree, u->groups, rank, &group, &last);
  for (*first = 0; *first < u->norder && p->place[p->order[*first]] < group;) ++*first;
  for (*end = *first; *end < u->norder && p->place[p->order[*end]] < last;) ++*end;
}

/* Has this rank sampled what it trains on now? */
static bool sampled_own(const Update *u) {
  int first, end;
  share_range(u->e, BATCH_SAMPLE, u->b->nprompts, comm_rank(), &first, &end);
  for (int i = u->first; i < u->end; i++) {
    const int group = u->plan.unit[u->plan.order[i]].first / u->b->group;
    if (group < first || group >= end) return false;
  }
  return true;
}

void update_divide(Update *u) {
  place_groups(u);
  u->first = 0;
  u->end = u->norder;
  u->shared = is_divided(u);
  if (u->shared) places_of_rank(u, comm_rank(), &u->first, &u->end);
  u->sampled_own = u->b == &u->e->batch[BATCH_SAMPLE] && sampled_own(u);
}

MicroBatch update_own_part(const Update *u, const MicroBatch *mb) {
  const int first = mb->first > u->first ? mb->first : u->first;
  const int end = mb->first + mb->n < u->end ? mb->first + mb->n : u->end;
  MicroBatch own = *mb;
  own.first = first;
  own.n = end > first ? end - first : 0;
  return own;
}

bool update_has_common_batch(const Update *u) {
  for (int r = 0; u->shared && r < comm_size(); r++) {
    int first, end;
    places_of_rank(u, r, &first, &end);
    for (int i = 0; i < u->plan.nbatches; i++) {
      const MicroBatch *mb = &u->plan.batch[i];
      if (mb->first < first && first < mb->first + mb->n) return true;
    }
  }
  return false;
}

void update_units_of_rank(const Update *u, int rank, int *first, int *end) {
  const Plan *p = &u->plan;
  int group, last;
  share_range(u->e, share_slot(u->e, u->b), u->b->nprompts, rank, &group, &last);
  for (*first = 0; *first < p->nunits && p->unit[*first].first / u->b->group < group;) ++*first;
  for (*end = *first; *end < p->nunits && p->unit[*end].first / u->b->group < last;) ++*end;
}

/* ---- what the others have computed ------------------------------------------------------ */

static Status gather_mismatch(Update *u) {
  size_t at[COMM_RANKS + 1];
  uint8_t mismatch[COMM_RANKS];
  for (int r = 0; r <= comm_size(); r++) at[r] = (size_t)r;
  mismatch[comm_rank()] = u->mismatch;
  try(comm_share(mismatch, at));
  for (int r = 0; r < comm_size(); r++) u->mismatch |= mismatch[r];
  return GRPO_OK;
}

Status update_gather_losses(Update *u, const UnitLoss *before) {
  size_t at[COMM_RANKS + 1];
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    places_of_rank(u, r, &first, &end);
    at[r] = (size_t)first * sizeof *u->of_place;
    at[r + 1] = (size_t)end * sizeof *u->of_place;
  }
  try(comm_share(u->of_place, at));
  try(gather_mismatch(u));
  update_restore(u, before);
  for (int i = 0; i < u->norder; i++) {
    const UnitLoss *l = &u->of_place[i];
    u->loss += l->loss;
    u->aux_loss += l->aux_loss;
    loss_metrics_add(&u->sums, &l->sums);
    if (!u->values) continue;
    value_sums_add(&u->values->sums, &l->values);
    u->values->deviation = fmax(u->values->deviation, l->deviation);
  }
  return GRPO_OK;
}

Status update_gather_tokens(Update *u) {
  const Plan *p = &u->plan;
  size_t at[COMM_RANKS + 1];
  at[0] = 0;
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    places_of_rank(u, r, &first, &end);
    const Unit *last = end > first ? &p->unit[p->order[end - 1]] : NULL;
    at[r + 1] = last ? (size_t)(last->token0 + last->tokens) * sizeof(real) : at[r];
  }
  try(comm_share(p->logp, at));
  return comm_share(p->entropy, at);
}

Status update_gather_deviation(double *deviation) {
  double of_rank[COMM_RANKS];
  size_t at[COMM_RANKS + 1];
  for (int r = 0; r <= comm_size(); r++) at[r] = (size_t)r * sizeof *of_rank;
  of_rank[comm_rank()] = *deviation;
  try(comm_share(of_rank, at));
  for (int r = 0; r < comm_size(); r++)
    if (!(of_rank[r] <= *deviation)) *deviation = of_rank[r];
  return GRPO_OK;
}

Status update_gather_values(Update *u) {
  const Values *v = u->values;
  size_t at[COMM_RANKS + 1];
  at[0] = 0;
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    update_units_of_rank(u, r, &first, &end);
    const int last = end > first ? v->first[end - 1] + v->count[end - 1] : 0;
    at[r + 1] = end > first ? (size_t)last * sizeof(real) : at[r];
  }
  return comm_share(v->now, at);
}

#include "rl/share.h"

#include "base/buf.h"
#include "base/mem.h"
#include "os/comm.h"
#include "rl/completion_bytes.h"
#include "rl/engine_impl.h"

/* ---- who has what ---------------------------------------------------------------------- */

bool share_splits_updates(const Engine *e, int groups) {
  return comm_size() > 1 && e->tree && gradient_tree_leaves(e->tree, groups) > 1;
}

/* A rank samples the groups whose gradients it will compute; if updates are not divided, all ranks
 * sample equally many. */
void share_range(const Engine *e, BatchSlot slot, int groups, int rank, int *first, int *end) {
  if (slot == BATCH_SAMPLE && share_splits_updates(e, groups)) {
    gradient_tree_range(e->tree, groups, rank, first, end);
    return;
  }
  *first = (int)((int64_t)groups * rank / comm_size());
  *end = (int)((int64_t)groups * (rank + 1) / comm_size());
}

int share_owner(const Engine *e, BatchSlot slot, int groups, int group) {
  int rank = 0, first, end;
  for (; rank < comm_size() - 1; rank++) {
    share_range(e, slot, groups, rank, &first, &end);
    if (group >= first && group < end) break;
  }
  return rank;
}

BatchSlot share_slot(const Engine *e, const Batch *b) {
  return b == &e->batch[BATCH_EVAL] ? BATCH_EVAL : BATCH_SAMPLE;
}

/* ---- completions ------------------------------------------------------------------------- */

/* Reads the completions of all other ranks. */
static Status take_all(const Engine *e, BatchSlot slot, int n, const int *slots, const char *all,
                       const size_t *at) {
  const Batch *b = &e->batch[slot];
  const char *next[COMM_RANKS];
  for (int r = 0; r < comm_size(); r++) next[r] = all + at[r];
  for (int i = 0; i < n; i++) {
    const int group = slots ? slots[i] : i, owner = share_owner(e, slot, b->nprompts, group);
    if (owner == comm_rank()) continue;
    for (int k = 0; k < b->group; k++) {
      Completion *c = &b->completion[group * b->group + k];
      try(completion_take(&next[owner], all + at[owner + 1], b->max_new, b->target_len[group], c));
      c->request = i;
      c->sample = k;
    }
  }
  return GRPO_OK;
}

Status share_completions(const Engine *e, BatchSlot slot, int n, const int *slots) {
  const Batch *b = &e->batch[slot];
  Buf mine = {0};
  size_t at[COMM_RANKS + 1];
  char *all = NULL;
  for (int i = 0; i < n; i++) {
    const int group = slots ? slots[i] : i;
    if (share_owner(e, slot, b->nprompts, group) != comm_rank()) continue;
    for (int k = 0; k < b->group; k++)
      completion_put(&mine, &b->completion[group * b->group + k], b->target_len[group]);
  }
  Status s = comm_agree(buf_status(&mine));
  if (s == GRPO_OK) s = comm_gather(mine.data, mine.len, &all, at);
  if (s == GRPO_OK) s = comm_agree(take_all(e, slot, n, slots, all, at));
  mem_free(all);
  buf_free(&mine);
  return s;
}

Status share_rows(const Engine *e, const Batch *b, void *rows, size_t bytes) {
  size_t at[COMM_RANKS + 1];
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    share_range(e, share_slot(e, b), b->nprompts, r, &first, &end);
    at[r] = (size_t)first * (size_t)b->group * bytes;
    at[r + 1] = (size_t)end * (size_t)b->group * bytes;
  }
  return comm_share(rows, at);
}

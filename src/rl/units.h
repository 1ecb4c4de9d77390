/* units.h - units of accumulation: the sequences of one forward and backward pass.
 *
 * A unit is one whole group, its completions packed behind their shared prompt;
 * a group of more than UNIT_ROWS rows is cut into pieces that each repeat the
 * prompt.  For kind = "sft" a unit is as many consecutive examples as fit
 * SFT_UNIT_ROWS rows.  Cuts depend on lengths alone, units follow prompt order,
 * and gradients are added in that order within a leaf of gradient_tree.h.  So
 * neither the number of threads nor micro_batch_tokens can change a bit of a
 * gradient, except for bnpo, whose loss is an average over each micro-batch.
 */
#ifndef GRPO_RL_UNITS_H
#define GRPO_RL_UNITS_H

#include "base/arena.h"
#include "model/pack.h"
#include "rl/batch.h"

enum { UNIT_ROWS = 2048, SFT_UNIT_ROWS = 1024 };

typedef struct Unit {
  int first, n; /* completions (examples) first .. first + n - 1 */
  int rows;     /* of the packed forward */
  int token0;   /* completion tokens of the step before this unit */
  int tokens;   /* completion tokens of this unit */
} Unit;

/* An example for kind = "sft": the loss is on the target only. */
typedef struct Example {
  const int32_t *prompt,
      *target; /* target: at least 1 token; prompt may be empty if target has 2 */
  int prompt_len, target_len;
  const uint8_t
      *mask; /* [target_len] 0: read, not learned (what a tool said); NULL: all is learned */
} Example;

/* Writes the units to out, at most one for each sequence; returns their number.  end_below: as in
 * PackGroup: 0, or, for a critic, max_new_tokens: the longest completion has no row for its end, so
 * that no unit is larger than unit_rows_max(). */
int units_of_batch(const Batch *b, int end_below, Unit *out);
int units_of_examples(int n, const Example *examples, Unit *out);

/* The largest unit of groups with these lengths: rows. */
int unit_rows_max(int group, int max_prompt, int max_new);

Status unit_pack_batch(Arena *a, const Config *c, const Batch *b, const Unit *u, int end_below,
                       Pack *out);
/* The packs that the reference runs for a unit, one after the other. */
typedef struct RefPack {
  Pack pack;
  int at; /* its first output among those of the unit */
} RefPack;
typedef struct RefPacks {
  int n;
  RefPack *pack;
} RefPacks;
/* Completions with equal prompts of the reference are packed behind one of them, up to UNIT_ROWS
 * rows at once.  A completion that is not measured is in no pack. */
Status unit_pack_reference(Arena *a, const Config *c, const Batch *b, const Unit *u, RefPacks *out);
/* The tokens that each of the unit's were sampled from (Pack.token_sets); NULL: all were. */
Status unit_token_sets(Arena *a, int vocab, const Batch *b, const Unit *u,
                       const uint32_t *const **out);
/* Where sampling has recorded the activations of the pack's rows. */
Status unit_replay(Arena *a, RolloutActivations *k, const Batch *b, const Unit *u, const Pack *p,
                   Replay **out);
Status unit_pack_examples(Arena *a, const Config *c, const Example *examples, const Unit *u,
                          Pack *out);

#endif

/* batch.h - one rollout: prompts, their completions and what was recorded while sampling.
 *
 * A batch is `nprompts` groups of `group` completions; completion i belongs to
 * prompt i / group.  All memory is one block per array, taken by
 * batch_reserve(): rolling out again takes none as long as the batch is large
 * enough.  Ids and numbers of completion i are rows of width max_new.
 */
#ifndef GRPO_RL_BATCH_H
#define GRPO_RL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/decode.h"

typedef struct Prompt {
  const int32_t *ids;
  int len;
  uint32_t index;        /* the prompt's number in the run: its random numbers follow from it */
  const int32_t *target; /* the text that its completions are compared with */
  int target_len;        /* 0: none */
} Prompt;

typedef struct Batch {
  int max_prompts, max_sequences, max_prompt, max_new; /* capacity */
  int nprompts, group;
  int32_t *prompt_ids;    /* [max_prompts, max_prompt] */
  int *prompt_len;        /* [max_prompts] */
  int *target_len;        /* [max_prompts] positions where target_logp is filled, at most max_new */
  Completion *completion; /* [max_sequences]; pointers into the arrays below */
  int32_t *ids;           /* [max_sequences, max_new] */
  float *logp, *entropy;  /* [max_sequences, max_new] at the sampling temperature */
  float *target_logp;     /* [max_sequences, max_new] of the prompt's target, at that temperature */
  uint8_t *sampled; /* [max_sequences, max_new] 1: sampled by the model, 0: injected by a tool or an
                       environment; NULL: no turns, all are sampled */
  SamplingMask
      *sampling_mask; /* [max_sequences] what the filters of sampling left; NULL: never truncated */
  float *ref_logp;    /* [max_sequences, max_new]; NULL: not reserved */
  bool has_ref;       /* ref_logp is filled */
  /* The reference may read another prompt before a completion than the policy. */
  int max_ref_prompt;      /* 0: none is reserved */
  int32_t *ref_prompt_ids; /* [max_sequences, max_ref_prompt] */
  int *ref_prompt_len;     /* [max_sequences] 0: the completion is not measured */
  bool has_ref_prompts;    /* false: the reference reads the policy's prompts */
  int longest;             /* max_new_tokens of sampling */
  double temperature;      /* that the recorded log-probabilities are for */
  double seconds;          /* that sampling took */
  uint64_t version;        /* model_version() of the weights that sampled it all; 0: several did */
  uint64_t generation;     /* +1 at every rollout: handles notice that theirs is gone */
} Batch;

/* The batches of an engine. */
typedef enum BatchSlot { BATCH_SAMPLE, BATCH_EVAL, BATCH_SLOTS } BatchSlot;

/* Optional arrays of a batch. */
typedef enum BatchParts { BATCH_REF = 1, BATCH_TURNS = 2 } BatchParts;

/* Makes room for at least these numbers; growing takes new memory and drops what the batch held. */
Status batch_reserve(Batch *b, int prompts, int sequences, int max_prompt, int max_new, int parts);
/* Says whether the completions of this group record, from now on, the tokens that filters leave. */
Status batch_record_masks(Batch *b, int slot, bool record);
/* Makes room for prompts of the reference, in a batch that has room for its completions. */
Status batch_reserve_ref_prompts(Batch *b, int max_ref_prompt);
void batch_free(Batch *b);

int batch_size(const Batch *b);           /* completions */
int64_t batch_tokens(const Batch *b);     /* of all completions, injected ones included */
int batch_sampled(const Batch *b, int i); /* tokens of completion i that the model sampled */
const int32_t *batch_prompt(const Batch *b, int prompt, int *len);
Status batch_set_prompt(Batch *b, int slot, const Prompt *p); /* EARG when it does not fit */
/* Sets the text that the reference reads before completion i; len 0: it does not measure it. */
Status batch_set_ref_prompt(Batch *b, int i, const int32_t *ids, int len);
const int32_t *batch_ref_prompt(const Batch *b, int i, int *len); /* len 0: not measured */

#endif

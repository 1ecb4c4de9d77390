/* estimate.h - how much memory a step takes, from shapes alone. */
#ifndef GRPO_MODEL_ESTIMATE_H
#define GRPO_MODEL_ESTIMATE_H

#include <stddef.h>

#include "kern/kern.h"
#include "model/config.h"
#include "model/model.h"

/* Bytes that forward and backward of a pack of nrows rows and nout outputs take in the tape's
 * arena, within 10 % where that is more than a few MiB. */
typedef enum StepMemory { STEP_FORWARD, STEP_TRAIN, STEP_CHECKPOINTED } StepMemory;
size_t estimate_step_bytes(const Config *c, Compute compute, int nrows, int nout, int nspans,
                           StepMemory kind);
/* Bytes of the tape's arena that forward_layers and the final norm take without gradients; keys:
 * the most that a row sees. */
size_t estimate_forward_bytes(const Config *c, Compute compute, int nrows, int nspans, int keys);
/* Bytes that the model's adapter adds to a step on nrows rows; train: with results of all
 * layers. */
size_t estimate_lora_bytes(const Model *m, int nrows, bool train);
/* Reals of a row that a training forward can take from decoding (grad/replay.h). */
size_t estimate_activation_columns(const Config *c, int lora_rank, int lora_modules);

#endif

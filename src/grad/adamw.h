/* adamw.h - the options of AdamW (torch.optim.AdamW, arXiv:1711.05101), which the other optimizers
 * share, and its settings at a step. */
#ifndef GRPO_GRAD_ADAMW_H
#define GRPO_GRAD_ADAMW_H

#include "base/options.h"
#include "kern/optimizers.h"

typedef struct AdamWOptions {
#include "base/option_fields.h"
#include "grad/adamw.def"
} AdamWOptions;
extern const OptionSet adamw_option_set;
void adamw_options_init(AdamWOptions *o);
/* The settings of adamw_step() for optimizer step `step` (from 1): bias corrections, and the factor
 * that scales gradients of the norm `norm` down to max_norm (<= 0: not scaled). */
AdamW adamw_at(const AdamWOptions *o, uint64_t step, double lr, double max_norm, double norm);

#endif

/* op_table.h - every operation by its number in ops.def. */
#ifndef GRPO_GRAD_OP_TABLE_H
#define GRPO_GRAD_OP_TABLE_H

#include "grad/ops.h"

extern const OpDef *const op_table[OP_COUNT];

#endif

/* op_loghead.h - how much of the logits exists at once. */
#ifndef GRPO_GRAD_OP_LOGHEAD_H
#define GRPO_GRAD_OP_LOGHEAD_H

/* The number of outputs whose logits loghead makes at once. */
int loghead_rows(int vocab);

#endif

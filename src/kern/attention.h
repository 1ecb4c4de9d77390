/* attention.h - attention of packed sequences that share a prefix. */
#ifndef GRPO_KERN_ATTENTION_H
#define GRPO_KERN_ATTENTION_H

#include "base/err.h"
#include "kern/kv.h"

/* o[rows, heads * attn_value_dim]; lse[rows, heads] = log sum exp of the scaled scores, or NULL.
 * Row-invariant. */
Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse);

#endif

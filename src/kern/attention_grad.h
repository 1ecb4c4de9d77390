/* attention_grad.h - attention backward. */
#ifndef GRPO_KERN_ATTENTION_GRAD_H
#define GRPO_KERN_ATTENTION_GRAD_H

#include "base/err.h"
#include "kern/kv.h"

/* Gradients for training spans, whose segments have row0 >= 0 and own_at == 0.  dq, dk and dv
 * are added to; any may be NULL.  With v_dim dk and dv may be one array, which gets what keys
 * get in both roles. */
Status attn_backward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                     const real *q, int ldq, const real *o, int ldo, const real *lse,
                     const real *dout, int lddo, real *dq, int lddq, real *dk, real *dv, int lddkv);

#endif

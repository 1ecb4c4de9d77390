/* attention_f32.h - attention's forward for one strip of rows and one part of the keys. */
#ifndef GRPO_KERN_ATTENTION_F32_H
#define GRPO_KERN_ATTENTION_F32_H

#include "kern/attention_strip.h"

/* Computes a strip's sums over a part, in which some row sees some key. */
void attn_part_f32(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                   const Sums *to);

#endif

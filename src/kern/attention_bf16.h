/* attention_bf16.h - attention's forward for one strip of rows and one part of the keys. */
#ifndef GRPO_KERN_ATTENTION_BF16_H
#define GRPO_KERN_ATTENTION_BF16_H

#include "kern/attention_strip.h"

/* attn_part_f32 for segments of bf16 pairs */
void attn_part_bf16(const Attn *a, const Work *w, const Part *p, const Row *rows, int n,
                    const Sums *to);

#endif

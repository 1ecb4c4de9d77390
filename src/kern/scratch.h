/* scratch.h - a piece of the arena for each worker of the pool. */
#ifndef GRPO_KERN_SCRATCH_H
#define GRPO_KERN_SCRATCH_H

#include "base/err.h"
#include "kern/kern.h"

typedef struct Scratch {
  real *data;
  size_t size; /* reals of one worker */
  int workers;
} Scratch;

/* ENOMEM says `what` needed it.  The memory goes with the arena's mark. */
Status scratch_new(const Ctx *cx, size_t size, const char *what, Scratch *out);

static inline real *scratch_of(const Scratch *s, int worker) {
  return s->data + s->size * (size_t)(worker < s->workers ? worker : 0);
}

#endif

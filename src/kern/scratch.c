#include "kern/scratch.h"

Status scratch_new(const Ctx *cx, size_t size, const char *what, Scratch *out) {
  const int workers = pool_threads(cx->pool);
  size = (size + 15) / 16 * 16;
  *out = (Scratch){arena_alloc(cx->arena, sizeof(real) * size * (size_t)workers), size, workers};
  return out->data ? GRPO_OK : fail(GRPO_ENOMEM, "%s: scratch memory", what);
}

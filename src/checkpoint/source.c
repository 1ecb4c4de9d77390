#include "checkpoint/source.h"

#include "base/mem.h"

uint64_t source_count(const SourceTensor *t) {
  uint64_t n = 1;
  for (int d = 0; d < t->ndim && d < SOURCE_DIMS; d++) n *= t->dim[d];
  return n;
}

void source_close(WeightSource *s) {
  if (s->close) s->close(s);
  mem_free(s->tensor);
  *s = (WeightSource){0};
}

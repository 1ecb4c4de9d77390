#include "checkpoint/source.h"

#include "base/mem.h"

void source_close(WeightSource *s) {
  if (s->close) s->close(s);
  mem_free(s->tensor);
  *s = (WeightSource){0};
}

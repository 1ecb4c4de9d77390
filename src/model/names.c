#include "model/names.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *x, const void *y) {
  const NameRef *a = x, *b = y;
  return strcmp(a->name, b->name);
}

void names_sort(NameRef *refs, const Param *param, int n) {
  for (int i = 0; i < n; i++) refs[i] = (NameRef){param[i].name, i};
  qsort(refs, (size_t)n, sizeof *refs, by_name);
}

int names_find(const NameRef *refs, int n, const char *name) {
  const NameRef key = {name, 0};
  const NameRef *r = bsearch(&key, refs, (size_t)n, sizeof key, by_name);
  return r ? r->index : -1;
}

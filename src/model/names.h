/* names.h - parameters found by their names. */
#ifndef GRPO_MODEL_NAMES_H
#define GRPO_MODEL_NAMES_H

#include "model/param.h"

typedef struct NameRef {
  const char *name;
  int index;
} NameRef;

/* refs[i] becomes the name of parameter i, then refs are sorted by name. */
void names_sort(NameRef *refs, const Param *param, int n);
int names_find(const NameRef *refs, int n, const char *name); /* the parameter's index; -1: none */

#endif

#include "script/reference_type.h"

static ReferenceType *first;

void reference_type_add(ReferenceType *type) {
  type->next = first;
  first = type;
}

const ReferenceType *reference_type_first(void) { return first; }

#include "script/parts.h"

static ExtensionPart *first;

void part_add(ExtensionPart *part) {
  part->next = first;
  first = part;
}

const ExtensionPart *part_first(void) { return first; }

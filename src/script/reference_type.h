/* reference_type.h - the types of objects beside models that core.engine takes as reference.
 *
 * An extension that makes a ReferenceSource links a row, with EXTENSION of base/extension.h.
 */
#ifndef GRPO_SCRIPT_REFERENCE_TYPE_H
#define GRPO_SCRIPT_REFERENCE_TYPE_H

#include <lua.h>

#include "base/extension.h"
#include "rl/reference_source.h"

typedef struct ReferenceType {
  const char *name;                                /* of the metatable */
  ReferenceSource (*check)(lua_State *L, int arg); /* of an object of this type; may raise */
  struct ReferenceType *next;
} ReferenceType;

void reference_type_add(ReferenceType *type);
const ReferenceType *reference_type_first(void);

#endif

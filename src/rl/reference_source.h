/* reference_source.h - a reference that is not a model: the token before decides its logits.
 *
 * It takes the place of a reference model in EngineOptions.  The core makes none; an extension
 * does, and tells script/reference_type.h the object of Lua that holds it.
 */
#ifndef GRPO_RL_REFERENCE_SOURCE_H
#define GRPO_RL_REFERENCE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "kern/real.h"

typedef struct ReferenceSource {
  void *of; /* the first argument of every function; NULL: the engine has no such reference */
  int vocab;
  void (*row)(const void *of, int32_t prev, real *logits); /* fills [vocab]; any thread may */
  size_t (*bytes)(const void *of);                         /* that it holds */
  void (*retain)(void *of); /* an engine holds it from the time it is made */
  void (*free)(void *of);   /* drops one reference */
} ReferenceSource;

#endif

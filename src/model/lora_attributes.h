/* lora_attributes.h - attributes of an adapter's operation on the tape. */
#ifndef GRPO_MODEL_LORA_ATTRIBUTES_H
#define GRPO_MODEL_LORA_ATTRIBUTES_H

#include "base/rng.h"
#include "grad/tape.h"
#include "model/lora_weights.h"

/* The module's scale and, where key is given, its dropout; memory is the tape's. */
Status lora_attributes(Tape *t, const Lora *l, const LoraModule *mod, const RngKey *key, Attr *a);

#endif

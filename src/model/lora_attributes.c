#include "model/lora_attributes.h"

#include "grad/attrs.h"

Status lora_attributes(Tape *t, const Lora *l, const LoraModule *mod, const RngKey *key, Attr *a) {
  a->f[0] = mod->scale;
  if (!key || l->dropout == 0) return GRPO_OK;
  LoraDropout *d = arena_alloc(&t->arena, sizeof *d);
  if (!d) return fail(GRPO_ENOMEM, "adapter: no memory for its dropout");
  *d = (LoraDropout){l->dropout, *key};
  d->key.stream = RNG_DROPOUT;
  d->key.sample = key->sample << 20 | mod->id;
  a->p = d;
  return GRPO_OK;
}

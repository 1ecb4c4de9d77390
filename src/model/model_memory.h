/* model_memory.h - how much memory a model takes, found by making it while memory is measured
 * (base/mem.h). */
#ifndef GRPO_MODEL_MODEL_MEMORY_H
#define GRPO_MODEL_MODEL_MEMORY_H

#include "model/lora.h"
#include "model/model.h"

/* How a model would be kept instead. */
typedef struct ModelForm {
  const Storage *storage;  /* NULL: as it is */
  const LoraOptions *lora; /* an adapter that it would get; NULL: none */
} ModelForm;

/* While memory is measured: a frozen model of m's shape, without its values; of a view, its
 * owner's.  form NULL: as it is. */
Status model_outline(Model **out, const Model *m, const ModelForm *form);
/* Likewise a view of `base`, with an adapter like m's, if it has one. */
Status model_outline_view(Model **out, Model *base, const Model *m);
const Model *model_owner(const Model *m); /* of the weights: m, or what it is a view of */
/* Bytes of a new model with random weights. */
Status model_new_bytes(const Config *c, size_t *bytes);

enum { STORAGES = STORE_NF4 + 1 };
/* ENOMEM and what to do about it: the weights of a checkpoint alone exceed what the machine has
 * free; bytes: what they take, by Storage. */
Status model_refuse(const char *path, Storage storage, const size_t bytes[STORAGES]);
/* ENOMEM and what would fit, when a model made from the configuration, with random weights, exceeds
 * what the machine has free. */
Status model_check_new(const Config *c);

#endif

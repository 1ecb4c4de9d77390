/* lora_weights.h - the weights of an adapter: the pairs A, B beside a model's frozen weights. */
#ifndef GRPO_MODEL_LORA_WEIGHTS_H
#define GRPO_MODEL_LORA_WEIGHTS_H

#include "base/rng.h"
#include "grad/panel_cache.h"
#include "grad/tape.h"
#include "model/param.h"

/* A and B beside one weight. */
typedef struct LoraModule {
  Param *base;  /* the embedding's for a tied output projection */
  Param *a, *b; /* [rank, in], [out, rank] */
  double scale;
  uint32_t id; /* its number, for dropout's key */
} LoraModule;

typedef struct Lora {
  char *config; /* adapter_config.json's text */
  int rank;
  double dropout;
  int nmodules;
  LoraModule *module; /* [nmodules] */
  int nslots;
  LoraModule **at; /* [nslots = num_hidden_layers * L_COUNT + M_COUNT]; NULL: none */
  LoraModule *embedding, *head;
  int nparams;      /* 2 nmodules */
  Param *param;     /* A, B, A, B, ... */
  NameRef *by_name; /* sorted */
  char *names;      /* [nparams, LORA_NAME_BYTES] */
  real *weights, *grads;
  size_t reals;
  PanelCache panels;
  bool off;
  struct Lora *dropped; /* the one merged before this one */
} Lora;

enum { LORA_NAME_BYTES = 128 };

/* Makes tables for these numbers of modules and slots, all empty. */
Status lora_weights_tables(Lora *l, int nmodules, int nslots);
/* Memory for the weights, all zero, and their panels. */
Status lora_weights_allocate(Lora *l);
/* An adapter of its own on the same base, with the same values; not trainable. */
Status lora_weights_copy(Lora **out, const Lora *from);
void lora_weights_free(Lora *l); /* and those merged before it; NULL is fine */
/* Takes or frees the memory of gradients. */
Status lora_weights_set_trainable(Lora *l, bool on);
Status lora_weights_pack(Lora *l, const Ctx *cx);        /* renews stale panels */
int lora_weights_index(const Lora *l, const char *name); /* of a parameter; -1: none */

/* Attributes of its operation on the tape: the module's scale and, where key is given, its dropout;
 * memory is the tape's. */
Status lora_attributes(Tape *t, const Lora *l, const LoraModule *mod, const RngKey *key, Attr *a);

#endif

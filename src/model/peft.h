/* peft.h - what adapter_config.json says: for lora.c and the tests of this layer.
 *
 * Matching is PEFT's: a name in a list stands for a module's whole path or its last words, a string
 * is a regular expression over the whole path; patterns of ranks and alphas match the end of a
 * path.
 */
#ifndef GRPO_MODEL_PEFT_H
#define GRPO_MODEL_PEFT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "formats/json.h"

typedef struct PeftConfig {
  Json *json;
  const char *where; /* names the source in messages; the caller's */
  int rank;
  double alpha, dropout;
  bool use_rslora;
} PeftConfig;

typedef struct PeftModule {
  const char *path; /* "model.layers.0.self_attn.q_proj" */
  bool in_layer;    /* a projection of layer `layer`; else embedding or head */
  int layer;
} PeftModule;

/* EFORMAT for everything that would change the result and is not supported. */
Status peft_parse(PeftConfig *out, const char *text, size_t len, const char *where);
void peft_free(PeftConfig *c);
bool peft_name_matches(const char *path, const char *name);
Status peft_targets(const PeftConfig *c, const PeftModule *m, bool *yes);
Status peft_rank(const PeftConfig *c, const char *path, int *rank, double *alpha);

#endif

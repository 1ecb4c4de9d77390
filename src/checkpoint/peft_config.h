/* peft_config.h - adapter_config.json: which modules get an adapter, and of which rank.
 *
 * Matching is PEFT's: a name in a list stands for a module's whole path or its last words, a string
 * is a regular expression over the whole path; patterns of ranks and alphas match the end of a
 * path.
 */
#ifndef GRPO_CHECKPOINT_PEFT_CONFIG_H
#define GRPO_CHECKPOINT_PEFT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "formats/json.h"
#include "model/lora.h"

typedef struct PeftConfig {
  Json *json;
  const char *where; /* names the source in messages; the caller's */
  int rank;
  double alpha, dropout;
  bool use_rslora;
} PeftConfig;

/* EFORMAT for everything that would change the result and is not supported. */
Status peft_config_parse(PeftConfig *out, const char *text, size_t len, const char *where);
void peft_config_free(PeftConfig *c);
Status peft_config_targets(const PeftConfig *c, const LoraSite *s, bool *yes);
Status peft_config_rank(const PeftConfig *c, const char *path, int *rank, double *alpha);

#endif

/* api.h - the handles that several files of src/api take, and what every such file includes. */
#ifndef GRPO_API_API_H
#define GRPO_API_API_H

#include "api/args.h"
#include "api/context.h"
#include "grpo.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct grpo_tokenizer {
  HANDLE_FIELDS;
  Tokenizer *t;
};
struct grpo_model {
  HANDLE_FIELDS;
  Model *m;
  Tokenizer *tok; /* what is saved with it; NULL: none, or not read from tok_path yet */
  char *tok_path; /* NULL: no tokenizer lies beside the weights or the adapter */
  char *base;     /* path that the weights were read from; NULL: none */
};

#endif

/* api.h - the handles that several files of src/api take, and what every such file includes. */
#ifndef GRPO_API_API_H
#define GRPO_API_API_H

#include "api/args.h"
#include "api/context.h"
#include "grpo.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct grpo_tokenizer {
  grpo_context *c;
  Tokenizer *t;
};
struct grpo_model {
  grpo_context *c;
  Model *m;
};

#endif

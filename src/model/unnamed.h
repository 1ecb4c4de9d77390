/* unnamed.h - ids without a token, as a padded vocabulary has them. */
#ifndef GRPO_MODEL_UNNAMED_H
#define GRPO_MODEL_UNNAMED_H

#include "model/config.h"
#include "text/tokenizer.h"

/* Lists the ids of the model's vocabulary that the tokenizer has no token for and that end no
 * completion.  *ids: to be given to mem_free, NULL if there are none.  tok NULL: there are none. */
Status unnamed_ids(const Config *c, const Tokenizer *tok, int32_t **ids, int *n);

#endif

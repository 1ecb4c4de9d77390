/* classifier.h - a decoder with a sequence-classification head: a classifier or a reward model.
 *
 * The state after the last token of a sequence, times score.weight, gives one logit for each label.
 * Padding at the end of a sequence does not count: the last token is the last one that is not the
 * configuration's pad_token_id, or the first where all are.
 */
#ifndef GRPO_MODEL_CLASSIFIER_H
#define GRPO_MODEL_CLASSIFIER_H

#include "model/model.h"

typedef struct Classifier {
  Model *trunk; /* frozen, held; its output projection has no meaning */
  int labels;
  real *score; /* [labels, hidden_size] */
} Classifier;

/* Takes over the caller's reference to the trunk, also on failure.  The head is zero. */
Status classifier_new(Classifier **out, Model *trunk, int labels);
void classifier_free(Classifier *c); /* NULL is fine */

/* A language model's weights, copied, with a head that is trained like them: score.weight [labels,
 * hidden_size], in place of the output projection.  score: its values; NULL: normal(0,
 * initializer_range).  EARG if the model is frozen or has an adapter. */
Status model_with_score(Model **out, const Model *m, int labels, const real *score, uint64_t seed);

typedef struct Sequence {
  const int32_t *ids;
  int len; /* at least 1 */
} Sequence;

/* Without padding at its end. */
Sequence sequence_trimmed(const Config *c, Sequence s);
/* logits [n, labels] of n sequences.  What the beginnings of neighbours have in common is computed
 * once, with the same bits. */
Status classifier_logits(Classifier *c, int n, const Sequence *s, real *logits);

#endif

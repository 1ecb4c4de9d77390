/* nonfinite.h - finds where the first value that is not finite came from.
 *
 * A step checks its loss and its gradient norm alone, which costs nothing.  Where one of them is
 * not finite, the step is not taken; the same numbers are computed once more, and this file looks
 * at the result of every operation and at the gradients that it sends back.
 */
#ifndef GRPO_RL_NONFINITE_H
#define GRPO_RL_NONFINITE_H

#include "rl/engine_impl.h"
#include "rl/units.h"

typedef struct Nonfinite {
  Engine *e;
  Tape *tape;
  const Batch *b;              /* the completions; NULL: examples */
  const Unit *unit;            /* the one in work; NULL: none yet */
  const Pack *pack;            /* of examples: where each begins */
  int end_below;               /* of a unit of completions, as in PackGroup */
  char layer[LORA_NAME_BYTES]; /* the last parameter that a forward has used */
  char place[96];              /* the sample */
  char found[512];             /* what came first, and where; "": nothing yet */
  const char *advice;
} Nonfinite;

/* From now on the engine's tape is looked at.  b NULL: examples. */
void nonfinite_begin(Nonfinite *n, Engine *e, const Batch *b);
void nonfinite_end(Nonfinite *n);
/* For %g: a NaN without its sign, which depends on the machine. */
double nonfinite_shown(double x);
/* Looks at `count` numbers of the unit's completion tokens: `what` is what they are, as in "the
 * advantage".  mask NULL: all count.  Is one of them not finite? */
bool nonfinite_tokens(Nonfinite *n, const Unit *unit, const real *x, const real *mask,
                      const char *what, const char *advice);
/* A rollout has ended because the logits for the next token of completion c, of the batch's prompt
 * `slot`, are not finite.  Runs the training forward over its tokens, and says what came first.
 * when: "at step 3", for the message. */
Status nonfinite_rollout(Engine *e, Batch *b, int slot, const Completion *c, const char *when);

#endif

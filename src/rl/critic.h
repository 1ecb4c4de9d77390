/* critic.h - PPO's critic: a linear value head on hidden states.
 *
 * A shared critic is the head alone, on the policy's own states, and its gradient continues into
 * the policy.  A separate one has a trunk of its own: a copy of the policy as it was when the
 * critic was made, trained beside it; of a policy with an adapter, a copy of the adapter on the
 * shared base. The head begins at zero, so the first values are 0 whatever the weights.
 */
#ifndef GRPO_RL_CRITIC_H
#define GRPO_RL_CRITIC_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "model/pack.h"

/* in the order of the choices of train.ppo.critic, behind none */
typedef enum CriticKind { CRITIC_NONE, CRITIC_SHARED, CRITIC_SEPARATE } CriticKind;

typedef struct Critic Critic;

/* kind: not CRITIC_NONE.  Trained with the optimizer options o; the head's weight decays, and its
 * moments are float32 with every optimizer. */
Status critic_new(Critic **out, Model *policy, CriticKind kind, const OptimizerOptions *o);
void critic_free(Critic *c); /* NULL is fine */

Model *critic_trunk(Critic *c); /* NULL: shared */
Tensor *critic_head(Critic *c); /* [1, hidden_size] */

/* value [p->nvalues] of hidden states: the policy's, or those of the trunk. */
Status critic_values(Critic *c, Tape *t, const Pack *p, Tensor *hidden, Tensor **value);

/* The norm over head and trunk; NaN where one of them is.  With ranks: as the optimizer's. */
Status critic_grad_norm(Critic *c, const Ctx *cx, double *norm);
/* Takes an optimizer step (optimizer_step); norm: over everything that the step trains. */
Status critic_step(Critic *c, const Ctx *cx, double lr, double max_norm, double norm);

/* dir/critic.safetensors: score.weight, its moments and the trained weights of a trunk;
 * dir/critic_optimizer.safetensors: a trunk's moments.  Exact.  dir NULL: as optimizer_save(). */
Status critic_save(const Critic *c, const char *dir);
Status critic_load(Critic *c, const char *dir);

#endif

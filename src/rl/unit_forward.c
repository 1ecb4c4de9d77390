#include "rl/unit_forward.h"

#include "base/mem.h"
#include "model/forward.h"
#include "model/forward_logits.h"

/* The reference model's final hidden states of the pack's outputs, [nout, hidden_size].  They stay
 * in the tape's arena; the rest of the reference's forward is released. */
static Status reference_hidden(Engine *e, const Pack *p, real **out) {
  Tape *t = &e->tape;
  const size_t n = (size_t)p->nout * (size_t)model_config(e->reference)->hidden_size;
  Tensor *hidden;
  real *rows;
  *out = arena_alloc(&t->arena, n * sizeof **out);
  if (!*out) return fail(GRPO_ENOMEM, "update: no memory for the reference's states");
  const ArenaMark mark = arena_mark(&t->arena);
  const bool off = t->off;
  Pack plain = *p;
  plain.replay = NULL; /* the activations are the policy's */
  t->off = true;
  Status s = forward_hidden(e->reference, t, &plain, &hidden);
  if (s == GRPO_OK) s = forward_out_hidden(t, p, hidden, &rows);
  t->off = off;
  try(s);
  mem_copy(*out, rows, n * sizeof **out);
  arena_release(&t->arena, mark);
  return GRPO_OK;
}

Status unit_forward(Engine *e, Pack *p, bool full_kl, double temperature, Tensor **value,
                    Tensor **logp) {
  Tensor *hidden;
  real *ref_hidden = NULL;
  if (full_kl && e->o.source.of)
    p->ref_rows = (ReferenceRows){e->o.source.row, e->o.source.of};
  else if (full_kl)
    try(reference_hidden(e, p, &ref_hidden));
  try(forward_hidden(e->policy, &e->tape, p, &hidden));
  if (value) try(critic_values(e->critic, &e->tape, p, hidden, value));
  return forward_logp(e->policy, &e->tape, p, hidden, temperature, ref_hidden ? e->reference : NULL,
                      ref_hidden, logp);
}

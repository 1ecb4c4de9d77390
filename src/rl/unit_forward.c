#include "rl/unit_forward.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward.h"
#include "model/forward_logits.h"

Status unit_count_routes(Engine *e, Pack *p) {
  if (e->o.router_aux_loss_coef == 0) return GRPO_OK;
  return balance_new(&e->tape.arena, model_config(e->policy)->num_experts, p->sequences,
                     &p->balance);
}

double unit_balance(const Engine *e, const Pack *p, double share) {
  if (!p->balance) return 0;
  return share * balance_end(p->balance, share * e->o.router_aux_loss_coef);
}

/* Runs the reference and copies its final hidden states of the pack's outputs to `to`; the rest of
 * its forward is released. */
static Status reference_hidden(Engine *e, const Pack *p, real *to) {
  Tape *t = &e->tape;
  const size_t n = (size_t)p->nout * (size_t)model_config(e->reference)->hidden_size;
  Tensor *hidden;
  real *rows;
  const ArenaMark mark = arena_mark(&t->arena);
  const bool off = t->off;
  Pack plain = *p;
  plain.replay = NULL;  /* the activations are the policy's */
  plain.dropout = NULL; /* which a reference that is the policy itself does without */
  t->off = true;
  Status s = forward_hidden(e->reference, t, &plain, &hidden);
  if (s == GRPO_OK) s = forward_out_hidden(t, p, hidden, &rows);
  t->off = off;
  try(s);
  mem_copy(to, rows, n * sizeof *to);
  arena_release(&t->arena, mark);
  return GRPO_OK;
}

/* The reference's states of all outputs [outputs, hidden_size], which stay in the tape's arena;
 * zeros where no pack gives them. */
static Status reference_states(Engine *e, int outputs, const RefPacks *ref, real **out) {
  const size_t c = (size_t)model_config(e->reference)->hidden_size;
  /* an estimate lays out larger packs than the unit's */
  for (int i = 0; i < ref->n; i++)
    outputs = max_int(outputs, ref->pack[i].at + ref->pack[i].pack.nout);
  const bool whole = ref->n == 1 && ref->pack[0].pack.nout == outputs;
  const size_t bytes = (size_t)outputs * c * sizeof **out;
  *out = whole ? arena_alloc(&e->tape.arena, bytes) : arena_zalloc(&e->tape.arena, bytes);
  if (!*out) return fail(GRPO_ENOMEM, "update: no memory for the reference's states");
  for (int i = 0; i < ref->n; i++)
    try(reference_hidden(e, &ref->pack[i].pack, *out + (size_t)ref->pack[i].at * c));
  return GRPO_OK;
}

Status unit_forward(Engine *e, Pack *p, const RefPacks *ref, double temperature, Tensor **value,
                    Tensor **logp) {
  Tensor *hidden;
  real *ref_hidden = NULL;
  if (ref && e->o.source.of)
    p->ref_rows = (ReferenceRows){e->o.source.row, e->o.source.of};
  else if (ref)
    try(reference_states(e, p->nout, ref, &ref_hidden));
  try(unit_count_routes(e, p));
  try(forward_hidden(e->policy, &e->tape, p, &hidden));
  if (value) try(critic_values(e->critic, &e->tape, p, hidden, value));
  return forward_logp(e->policy, &e->tape, p, hidden, temperature, ref_hidden ? e->reference : NULL,
                      ref_hidden, logp);
}

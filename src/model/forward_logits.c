#include "model/forward_logits.h"

#include <string.h>

#include "grad/op_lora.h"
#include "grad/weight.h"
#include "kern/elementwise.h"
#include "kern/gemm.h"
#include "model/forward.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/panels.h"

/* The output projection of the reference, with its adapter. */
static Status reference_head(Model *ref, Tape *t, const real *hidden, LogheadAttr *a) {
  const Lora *l = lora_active(ref);
  try(panels_renew(ref, &t->cx));
  a->ref_hidden = hidden;
  a->ref_head = ref->t[M_HEAD];
  a->ref_bias = ref->t[M_HEAD_B];
  a->ref_softcap = (real)ref->config.logit_softcap;
  if (!l || !l->head) return GRPO_OK;
  real *low = arena_alloc(&t->arena, (size_t)a->n * (size_t)l->head->a->t.dim[0] * sizeof *low);
  if (!low) return fail(GRPO_ENOMEM, "model: no memory for the reference's adapter");
  a->ref_low = low;
  a->ref_lora_b = &l->head->b->t;
  return lora_down(&t->cx, a->n, &l->head->a->t, (real)l->head->scale, hidden, low);
}

/* A reference that looks only at the token before each output. */
static Status reference_rows(Tape *t, const Pack *p, LogheadAttr *a) {
  int32_t *prev = arena_alloc(&t->arena, (size_t)p->nout * sizeof *prev);
  if (!prev) return fail(GRPO_ENOMEM, "model: no memory for %d outputs of the reference", p->nout);
  for (int i = 0; i < p->nout; i++) prev[i] = p->ids[p->out_rows[i]];
  a->ref_rows = p->ref_rows;
  a->ref_prev = prev;
  return GRPO_OK;
}

Status forward_row_logits(Model *m, const Ctx *cx, int n, const real *hidden, real *logits) {
  const Lora *l = lora_active(m);
  const Config *c = &m->config;
  const ArenaMark mark = arena_mark(cx->arena);
  const real *bias = m->t[M_HEAD_B] ? m->t[M_HEAD_B]->data : NULL;
  LowRank up;
  if (l && l->head) {
    const LoraModule *mod = l->head;
    real *low = arena_alloc(cx->arena, (size_t)n * (size_t)mod->a->t.dim[0] * sizeof *low);
    if (!low) return fail(GRPO_ENOMEM, "model: no memory for the adapter of the output projection");
    try(lora_down(cx, n, &mod->a->t, (real)mod->scale, hidden, low));
    try(lora_up(cx, &mod->b->t, low, &up));
  }
  try(weight_forward(cx, n, m->t[M_HEAD], false, hidden, bias, l && l->head ? &up : NULL, logits));
  if (c->logit_softcap > 0)
    softcap_forward(cx, (size_t)n * (size_t)c->vocab_size, (real)c->logit_softcap, logits, logits);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status forward_logp(Model *m, Tape *t, const Pack *p, Tensor *hidden, double temperature,
                    Model *ref, const real *ref_hidden, Tensor **out) {
  if (!(temperature > 0)) return fail(GRPO_EARG, "model: temperature %g must be > 0", temperature);
  if (ref && ref->config.vocab_size != m->config.vocab_size)
    return fail(GRPO_ESHAPE,
                "model: the reference has a vocabulary of %d, but the policy has one of %d",
                ref->config.vocab_size, m->config.vocab_size);
  LogheadAttr *a = arena_alloc(&t->arena, sizeof *a);
  if (!a) return fail(GRPO_ENOMEM, "model: no memory for the output projection");
  try(panels_renew(m, &t->cx));
  *a = (LogheadAttr){.n = p->nout,
                     .rows = p->out_rows,
                     .targets = p->targets,
                     .token_sets = p->token_sets,
                     .one_pass = p->one_pass,
                     .divergence = ref || p->ref_rows.fill ? p->divergence : NULL,
                     .inv_temp = (real)(1 / temperature),
                     .softcap = (real)m->config.logit_softcap};
  if (ref) try(reference_head(ref, t, ref_hidden, a));
  if (p->ref_rows.fill) try(reference_rows(t, p, a));
  const Lora *l = lora_active(m);
  Tensor *in[] = {hidden, m->t[M_HEAD], m->t[M_HEAD_B], NULL, NULL};
  const Attr attr = {.p = a};
  if (!l || !l->head) return tape_apply(t, OP_loghead, in, &attr, out);
  Attr low = {0};
  try(lora_attributes(t, l, l->head, p->dropout, &low));
  try(tape_apply(t, OP_lora_low, (Tensor *[]){hidden, &l->head->a->t}, &low, &in[3]));
  in[4] = &l->head->b->t;
  return tape_apply(t, OP_lora_loghead, in, &attr, out);
}

Status forward_out_hidden(Tape *t, const Pack *p, const Tensor *hidden, real **out) {
  const size_t c = (size_t)hidden->dim[1];
  real *y = arena_alloc(&t->arena, (size_t)p->nout * c * sizeof *y);
  if (!y) return fail(GRPO_ENOMEM, "model: no memory for %d rows of the reference", p->nout);
  for (int i = 0; i < p->nout; i++)
    memcpy(y + (size_t)i * c, hidden->data + (size_t)p->out_rows[i] * c, c * sizeof *y);
  *out = y;
  return GRPO_OK;
}

Status forward_logits(Model *m, Tape *t, const Pack *p, Tensor **logits) {
  Tensor *hidden;
  try(forward_hidden(m, t, p, &hidden));
  const LoraModule *mod = lora_active(m) ? lora_active(m)->head : NULL;
  Tensor *in[] = {hidden, m->t[M_HEAD], m->t[M_HEAD_B], mod ? &mod->a->t : NULL,
                  mod ? &mod->b->t : NULL};
  const Attr a = {.f = {mod ? mod->scale : 0}};
  try(tape_apply(t, mod ? OP_lora_linear : OP_linear, in, &a, logits));
  if (m->config.logit_softcap == 0) return GRPO_OK;
  const Attr cap = {.f = {m->config.logit_softcap}};
  return tape_apply(t, OP_softcap, logits, &cap, logits);
}

Status forward_diverged(Model *m, const Ctx *cx) {
  for (int i = 0; i < model_num_params(m); i++)
    if (!param_is_finite(cx, model_param(m, i)))
      return fail(GRPO_EDIVERGED,
                  "decoder: the model's logits are not finite, because %s holds such values; load "
                  "a sound copy of the model",
                  model_param(m, i)->name);
  return fail(GRPO_EDIVERGED, "decoder: the model's logits are not finite");
}

#include "model/forward_pass.h"

#include "base/mem.h"

/* y = w x + b, and an adapter's part. */
Status pass_project(Pass *p, const LoraModule *mod, Tensor *w, Tensor *b, int in_out, Tensor *x,
                    Tensor **y) {
  if (mod) {
    Tensor *lora_in[] = {x, w, b, &mod->a->t, &mod->b->t};
    Attr lora = {.i = {in_out}};
    try(lora_attributes(p->t, p->lora, mod, p->rows->dropout, &lora));
    return tape_apply(p->t, OP_lora_linear, lora_in, &lora, y);
  }
  const Attr a = {.i = {in_out}};
  return tape_apply(p->t, OP_linear, (Tensor *[]){x, w, b}, &a, y);
}

/* The projection in `slot`; its bias is in the next slot. */
Status pass_linear(Pass *p, const Layer *l, LayerSlot slot, Tensor *x, Tensor **y) {
  const LoraModule *mod = p->lora ? p->lora->at[(l - p->m->layer) * L_COUNT + slot] : NULL;
  return pass_project(p, mod, l->t[slot], l->t[slot + 1], (int)(l->in_out >> slot & 1), x, y);
}

/* A norm's weight of ones, for families whose norms have none. */
Status pass_ones(Pass *p, int n, Tensor **w) {
  real *data = arena_alloc(&p->t->arena, (size_t)n * sizeof *data);
  *w = arena_alloc(&p->t->arena, sizeof **w);
  if (!data || !*w) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  for (int i = 0; i < n && !mem_measuring(); i++) data[i] = 1;
  **w = tensor_view(data, 1, &n);
  return GRPO_OK;
}

Status pass_norm(Pass *p, Tensor *x, Tensor *w, Tensor *b, Tensor **y) {
  const Traits traits = config_traits(&p->m->config);
  Tensor *in[] = {x, w, b};
  const Attr a = {.f = {p->m->config.norm_eps}, .i = {(traits & TRAIT_PLUS_ONE) != 0}};
  const bool layer = traits & (TRAIT_CONV1D | TRAIT_LAYERNORM);
  return tape_apply(p->t, layer ? OP_layernorm : OP_rmsnorm, in, &a, y);
}

/* y = factor x; 0 and 1: y is x.  A product or a norm made x. */
Status pass_scaled(Pass *p, Tensor *x, double factor, Tensor **y) {
  const Attr a = {.f = {factor}};
  *y = x;
  return factor == 0 || factor == 1 ? GRPO_OK
                                    : tape_apply_over(p->t, OP_scale, (Tensor *[]){x}, &a, 0, y);
}

Status pass_slice(Pass *p, Tensor *x, int from, int n, Tensor **y) {
  Tensor *in[] = {x};
  const Attr a = {.i = {1, from, n}};
  return tape_apply(p->t, OP_narrow, in, &a, y);
}

/* Cuts the columns of x into n tensors of these widths. */
Status pass_split(Pass *p, Tensor *x, int n, const int *width, Tensor **y) {
  for (int i = 0, at = 0; i < n; at += width[i++]) try(pass_slice(p, x, at, width[i], &y[i]));
  return GRPO_OK;
}

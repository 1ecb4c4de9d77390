#include "model/forward_mlp.h"

#include <math.h>

#include "kern/elementwise.h"

static Status gate_and_up(Pass *p, const Layer *l, Tensor *h, Tensor *gate_up[2]) {
  Tensor *both;
  if (l->t[L_GATE_UP_W]) {
    try(pass_linear(p, l, L_GATE_UP_W, h, &both));
    const int f = both->dim[1] / 2;
    return pass_split(p, both, 2, (const int[]){f, f}, gate_up);
  }
  try(pass_linear(p, l, L_GATE_W, h, &gate_up[0]));
  return pass_linear(p, l, L_UP_W, h, &gate_up[1]);
}

/* Only gate and up are kept for backward, which computes their product again. */
Status pass_gated(Pass *p, Tensor *const in[2], Tensor **act) {
  const OpId op = config_traits(&p->m->config) & TRAIT_GELU ? OP_geglu : OP_swiglu;
  return (p->in_place ? tape_apply : tape_apply_transient)(p->t, op, in, NULL, act);
}

static Status activated(Pass *p, Tensor *x, Tensor **act) {
  static const Act acts[] = {
      [ACT_GELU] = ACTIVATE_GELU, [ACT_RELU] = ACTIVATE_RELU, [ACT_RELU2] = ACTIVATE_RELU2};
  const Activation kind = config_activation(&p->m->config);
  if (kind == ACT_GELU_TANH) return tape_apply(p->t, OP_gelu, (Tensor *[]){x}, NULL, act);
  const Attr a = {.i = {acts[kind]}};
  return tape_apply(p->t, OP_activate, (Tensor *[]){x}, &a, act);
}

/* A feed-forward layer, or in a mixture the expert that every token takes. */
static Status dense(Pass *p, const Layer *l, Tensor *h, Tensor **y) {
  Tensor *in[2], *act;
  if (config_traits(&p->m->config) & TRAIT_GATED) {
    try(gate_and_up(p, l, h, in));
    try(pass_gated(p, in, &act));
  } else {
    try(pass_linear(p, l, L_UP_W, h, &in[0]));
    try(activated(p, in[0], &act));
  }
  return pass_linear(p, l, L_DOWN_W, act, y);
}

/* Attributes of a mixture, in the tape's arena. */
typedef struct Mixture {
  RouteAttr route;
  ExpertsAttr experts;
} Mixture;

static Status new_mixture(Pass *p, const Layer *l, const Mixture **out) {
  const Config *c = &p->m->config;
  Mixture *m = arena_alloc(&p->t->arena, sizeof *m);
  const bool alternating = config_traits(c) & TRAIT_ALTERNATING;
  if (!m) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  m->route = (RouteAttr){.top_k = c->num_experts_per_tok,
                         .groups = c->n_group,
                         .top_groups = c->topk_group,
                         .sigmoid = l->t[L_ROUTER_FIX] != NULL,
                         .eps = config_traits(c) & TRAIT_ROUTER_EPS ? 1e-6 : 1e-20,
                         .normed = c->norm_topk_prob,
                         .scale = (real)c->routed_scaling_factor,
                         .balance = p->rows->balance};
  m->experts = (ExpertsAttr){.experts = c->num_experts,
                             .top_k = c->num_experts_per_tok,
                             .width = c->moe_intermediate_size,
                             .in_out = alternating,
                             .alternating = alternating,
                             .gelu = (config_traits(c) & TRAIT_GELU) != 0,
                             .limit = (real)c->swiglu_limit,
                             .alpha = (real)c->swiglu_alpha,
                             .weight = l->expert};
  *out = m;
  return GRPO_OK;
}

/* y = x + gate shared(h), the expert that every token takes. */
static Status add_shared(Pass *p, const Layer *l, Tensor *h, Tensor *x, Tensor **y) {
  Tensor *shared, *gate;
  try(dense(p, l, h, &shared));
  if (l->t[L_SHARED_GATE_W]) {
    try(pass_linear(p, l, L_SHARED_GATE_W, h, &gate));
    try(tape_apply(p->t, OP_sigmoid, &gate, NULL, &gate));
    try(tape_apply(p->t, OP_mul, (Tensor *[]){shared, gate}, NULL, &shared));
  }
  return tape_apply_over(p->t, OP_add, (Tensor *[]){x, shared}, NULL, 0, y);
}

/* The experts' sum for h, by the router's scores of r. */
static Status routed(Pass *p, const Layer *l, Tensor *r, Tensor *h, Tensor **y) {
  const Mixture *m;
  Tensor *in[] = {NULL, l->t[L_ROUTER_FIX], l->t[L_ROUTER_FACTOR]}, *route;
  try(new_mixture(p, l, &m));
  const Attr route_attr = {.p = &m->route}, experts = {.p = &m->experts};
  try(pass_linear(p, l, L_ROUTER_W, r, &in[0]));
  try(tape_apply(p->t, OP_route, in, &route_attr, &route));
  return tape_apply(p->t, OP_experts, (Tensor *[]){h, route}, &experts, y);
}

static Status mixture(Pass *p, const Layer *l, Tensor *h, Tensor **y) {
  try(routed(p, l, h, h, y));
  return l->t[L_DOWN_W] ? add_shared(p, l, h, *y, y) : GRPO_OK;
}

/* y = norm(dense(h)) + norm(experts(norm(x))); the router reads norm(x) / sqrt(hidden). */
static Status beside(Pass *p, const Layer *l, Tensor *x, Tensor *h, Tensor **y) {
  Tensor *in[2], *r;
  try(dense(p, l, h, &in[0]));
  try(pass_norm(p, in[0], l->t[L_DENSE_POST_W], NULL, &in[0]));
  try(pass_norm(p, x, l->t[L_ROUTER_SCALE], NULL, &r));
  try(pass_scaled(p, r, 1 / sqrt(p->m->config.hidden_size), &r));
  try(pass_norm(p, x, l->t[L_MIX_NORM_W], NULL, &in[1]));
  try(routed(p, l, r, in[1], &in[1]));
  try(pass_norm(p, in[1], l->t[L_MIX_POST_W], NULL, &in[1]));
  return tape_apply_over(p->t, OP_add, in, NULL, 0, y);
}

Status pass_mlp(Pass *p, const Layer *l, Tensor *x, Tensor *h, Tensor **y) {
  if (config_traits(&p->m->config) & TRAIT_BESIDE)
    try(beside(p, l, x, h, y));
  else
    try((l->expert ? mixture : dense)(p, l, h, y));
  if (l->t[L_POST2_W]) try(pass_norm(p, *y, l->t[L_POST2_W], NULL, y));
  return pass_scaled(p, *y, p->m->config.residual_scale, y);
}

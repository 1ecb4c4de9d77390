/* elementwise.h - operations on n elements. */
#ifndef GRPO_KERN_ELEMENTWISE_H
#define GRPO_KERN_ELEMENTWISE_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/kern.h"

/* Runs fn on pieces of n elements, whose number depends on n alone. */
typedef void (*PieceFn)(void *arg, size_t at, size_t n);
void each_piece(const Ctx *cx, size_t n, PieceFn fn, void *arg);

/* y = act(gate) * up, n elements; act: silu, or gelu (tanh approximation) */
typedef enum GateAct { GATE_SILU, GATE_GELU } GateAct;
void gated_forward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up, real *y);
/* dgate or dup may be NULL */
void gated_backward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up,
                    const real *dy, real *dgate, bool add_gate, real *dup, bool add_up);
/* tanh approximation ("gelu_new", "gelu_pytorch_tanh") */
void gelu_forward(const Ctx *cx, size_t n, const real *x, real *y);
void gelu_backward(const Ctx *cx, size_t n, const real *x, const real *dy, real *dx, bool add);
/* y = cap tanh(x / cap); may be in place */
void softcap_forward(const Ctx *cx, size_t n, real cap, const real *x, real *y);
/* dx (+)= dy (1 - (y / cap)^2); dx may be dy */
void softcap_backward(const Ctx *cx, size_t n, real cap, const real *y, const real *dy, real *dx,
                      bool add);
/* Activations of feed-forward layers without a gate: gelu by the error function, max(x, 0), and its
 * square. */
typedef enum Act { ACTIVATE_GELU, ACTIVATE_RELU, ACTIVATE_RELU2 } Act;
void act_forward(const Ctx *cx, Act act, size_t n, const real *x, real *y);
void act_backward(const Ctx *cx, Act act, size_t n, const real *x, const real *dy, real *dx,
                  bool add);
/* y = factor x, or with `add` y += factor x */
void vec_scale(const Ctx *cx, size_t n, real factor, const real *x, real *y, bool add);
void vec_add(const Ctx *cx, size_t n, const real *a, const real *b, real *y);
void vec_acc(const Ctx *cx, size_t n, const real *x, real *y); /* y += x */
void vec_copy(const Ctx *cx, size_t n, const real *x, real *y);

/* sum of x^2, in double, chunks of fixed size in index order */
double vec_sumsq(const Ctx *cx, size_t n, const real *x);
/* The sums that it adds, of SUMSQ_PIECE numbers each; the last may have fewer.  part: one for each
 * piece. */
enum { SUMSQ_PIECE = 1 << 14 };
void vec_sumsq_pieces(const Ctx *cx, size_t n, const real *x, double *part);
/* y = alpha x + (1 - alpha) y */
void vec_lerp(const Ctx *cx, size_t n, const real *x, real alpha, real *y);

#endif

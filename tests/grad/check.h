/* check.h - gradient checks in double: analytic gradients against central differences.
 *
 * A check makes leaves, then calls check_gradients() for the operation: every element of every leaf
 * that needs a gradient is moved by +-h, and the change of sum(out * u), u random, is compared.
 * Beside that it holds each operation to the tape's rules: gradients add up over two passes, and
 * come out the same when only one input needs one.
 */
#ifndef GRPO_TESTS_GRAD_CHECK_H
#define GRPO_TESTS_GRAD_CHECK_H

#include "grad/attrs.h"
#include "grad/tape.h"
#include "testing.h"

/* A row of ops.def without a check does not link. */
#define OP(name, inputs, attributes) extern void check_##name(void);
#include "grad/ops.def"
#undef OP

Tape *check_tape(void);
double check_random(double low, double high); /* a fixed stream */
/* A leaf with a gradient, random in low .. high; dims end with -1. */
Tensor *check_leaf(double low, double high, const int *dims);
Tensor *check_constant(Tensor *t); /* the same without a need for a gradient */
void *check_alloc(size_t bytes);   /* lives as long as the leaves: until the check ends */

#define DIMS(...)            ((const int[]){__VA_ARGS__, -1})
#define LEAF(low, high, ...) check_leaf(low, high, DIMS(__VA_ARGS__))

void check_gradients_at(const char *file, int line, OpId op, Tensor *const in[], const Attr *attr);
#define CHECK_GRADIENTS(op, in, attr) check_gradients_at(__FILE__, __LINE__, op, in, attr)
/* The gradients of n further leaves, which the operation's attributes name. */
void check_gradients_beside(OpId op, Tensor *const in[], const Attr *attr, int n,
                            Tensor *const *beside);

#endif

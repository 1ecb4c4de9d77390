/* check_balance.c - the gradient of the auxiliary loss of two layers' routers, beside that of their
 * results, against central differences. */
#include <math.h>

#include "check.h"
#include "grad/balance.h"

enum { TOKENS = 150, EXPERTS = 5, TOP = 2, LAYERS = 2 };

static const double scale = 0.7;

typedef struct Routers {
  Tape tape;
  Tensor x[LAYERS];
  const int32_t *sequences;
  real data[LAYERS][TOKENS * EXPERTS], u[LAYERS][TOKENS * 2 * TOP];
} Routers;

/* sum of u y + scale loss; grads: also backward.  Numbers of experts in y have no gradient. */
static double value(Routers *r, bool grads) {
  Balance *b = NULL;
  Tensor *y[LAYERS];
  double sum = 0;
  tape_reset(&r->tape);
  r->tape.off = !grads;
  CHECK(!balance_new(&r->tape.arena, EXPERTS, r->sequences, &b));
  const RouteAttr a = {.top_k = TOP, .normed = true, .scale = 1, .balance = b};
  for (int i = 0; i < LAYERS; i++) {
    Tensor *in[] = {&r->x[i], NULL, NULL};
    CHECK(!tape_apply(&r->tape, OP_route, in, &(Attr){.p = &a}, &y[i]));
    for (size_t k = 0; k < y[i]->n; k++) sum += r->u[i][k] * y[i]->data[k];
  }
  sum += scale * balance_end(b, scale);
  for (int i = 0; grads && i < LAYERS; i++) CHECK(!tape_backward_from(&r->tape, y[i], r->u[i]));
  return sum;
}

static void check(const int32_t *sequences) {
  static Routers r;
  const double h = 1e-6;
  real grad[LAYERS][TOKENS * EXPERTS] = {{0}};
  tape_init(&r.tape, NULL);
  r.sequences = sequences;
  for (int i = 0; i < LAYERS; i++) {
    r.x[i] = tensor_view(r.data[i], 2, DIMS(TOKENS, EXPERTS));
    r.x[i].needs_grad = true;
    r.x[i].grad = grad[i];
    for (int k = 0; k < TOKENS * EXPERTS; k++) r.data[i][k] = 2 * sin(k * k + 3 * i);
    for (int k = 0; k < TOKENS * 2 * TOP; k++)
      r.u[i][k] = k % (2 * TOP) < TOP ? 1e-3 * cos(k * (i + 2)) : 0;
  }
  value(&r, true);
  for (int i = 0; i < LAYERS; i++)
    for (int k = 0; k < TOKENS * EXPERTS; k += 7) {
      const real at = r.data[i][k];
      r.data[i][k] = at + h;
      const double up = value(&r, false);
      r.data[i][k] = at - h;
      const double down = value(&r, false);
      r.data[i][k] = at;
      CHECK_NEAR(grad[i][k], (up - down) / (2 * h), 1e-8);
    }
  tape_free(&r.tape);
}

TEST(gradient_of_the_auxiliary_loss_agrees_with_differences) {
  int32_t sequences[TOKENS];
  for (int t = 0; t < TOKENS; t++) sequences[t] = 1 + t % 4;
  check(NULL);
  check(sequences);
}

/* check_shape.c - reductions, products and operations that move elements. */
#include "check.h"

static void along_axes(OpId op, int from) {
  for (int axis = from; axis < 3; axis++)
    CHECK_GRADIENTS(op, (Tensor *[]){LEAF(-2, 2, 3, 4, 2)}, (&(Attr){.i = {axis}}));
  for (int axis = from; axis < 1; axis++)
    CHECK_GRADIENTS(op, (Tensor *[]){LEAF(-2, 2, 6)}, (&(Attr){.i = {axis}}));
}

void check_sum(void) { along_axes(OP_sum, -1); }
void check_mean(void) { along_axes(OP_mean, -1); }
void check_max(void) { along_axes(OP_max, -1); }
void check_softmax(void) { along_axes(OP_softmax, 0); }
void check_log_softmax(void) { along_axes(OP_log_softmax, 0); }

void check_quantile(void) {
  static const double q[] = {0, .1, .5, .83, 1};
  for (int i = 0; i < 5; i++)
    CHECK_GRADIENTS(OP_quantile, (Tensor *[]){LEAF(-2, 2, 3, 3)}, (&(Attr){.f = {q[i]}}));
  CHECK_GRADIENTS(OP_quantile, (Tensor *[]){LEAF(-2, 2, 1)}, (&(Attr){.f = {.5}}));
}

void check_matmul(void) {
  CHECK_GRADIENTS(OP_matmul, ((Tensor *[]){LEAF(-2, 2, 3, 4), LEAF(-2, 2, 4, 5)}), NULL);
  CHECK_GRADIENTS(OP_matmul, ((Tensor *[]){LEAF(-2, 2, 1, 7), LEAF(-2, 2, 7, 1)}), NULL);
  CHECK_GRADIENTS(OP_matmul, ((Tensor *[]){LEAF(-2, 2, 4), LEAF(-2, 2, 4, 5)}), NULL);
  CHECK_GRADIENTS(OP_matmul, ((Tensor *[]){LEAF(-2, 2, 3, 4), LEAF(-2, 2, 4)}), NULL);
  CHECK_GRADIENTS(OP_matmul, ((Tensor *[]){LEAF(-2, 2, 4), LEAF(-2, 2, 4)}), NULL);
}

void check_transpose(void) {
  CHECK_GRADIENTS(OP_transpose, (Tensor *[]){LEAF(-2, 2, 3, 4)}, (&(Attr){.i = {0, 1}}));
  CHECK_GRADIENTS(OP_transpose, (Tensor *[]){LEAF(-2, 2, 2, 3, 4)}, (&(Attr){.i = {0, 2}}));
  CHECK_GRADIENTS(OP_transpose, (Tensor *[]){LEAF(-2, 2, 2, 3, 4, 2)}, (&(Attr){.i = {2, 1}}));
  CHECK_GRADIENTS(OP_transpose, (Tensor *[]){LEAF(-2, 2, 5)}, (&(Attr){.i = {0, 0}}));
}

void check_reshape(void) {
  CHECK_GRADIENTS(OP_reshape, (Tensor *[]){LEAF(-2, 2, 3, 4)}, (&(Attr){.i = {1, 12}}));
  CHECK_GRADIENTS(OP_reshape, (Tensor *[]){LEAF(-2, 2, 12)}, (&(Attr){.i = {3, 2, -1, 3}}));
  CHECK_GRADIENTS(OP_reshape, (Tensor *[]){LEAF(-2, 2, 1, 1)}, (&(Attr){.i = {0}}));
}

void check_narrow(void) {
  CHECK_GRADIENTS(OP_narrow, (Tensor *[]){LEAF(-2, 2, 5)}, (&(Attr){.i = {0, 1, 3}}));
  CHECK_GRADIENTS(OP_narrow, (Tensor *[]){LEAF(-2, 2, 3, 4)}, (&(Attr){.i = {0, 2, 1}}));
  CHECK_GRADIENTS(OP_narrow, (Tensor *[]){LEAF(-2, 2, 3, 4, 2)}, (&(Attr){.i = {1, 1, 2}}));
}

void check_concat(void) {
  CHECK_GRADIENTS(OP_concat, ((Tensor *[]){LEAF(-2, 2, 3), LEAF(-2, 2, 2)}), (&(Attr){.i = {0}}));
  CHECK_GRADIENTS(OP_concat, ((Tensor *[]){LEAF(-2, 2, 3, 4), LEAF(-2, 2, 3, 1)}),
                  (&(Attr){.i = {1}}));
  CHECK_GRADIENTS(OP_concat, ((Tensor *[]){LEAF(-2, 2, 1, 2, 2), LEAF(-2, 2, 3, 2, 2)}),
                  (&(Attr){.i = {0}}));
}

void check_gather(void) {
  const int32_t ids[] = {2, 0, 1, 1, 2, 0};
  GatherAttr vector = {0, 6, ids}, rows = {1, 4, ids}, columns = {0, 4, ids}, middle = {1, 6, ids};
  CHECK_GRADIENTS(OP_gather, (Tensor *[]){LEAF(-2, 2, 3)}, (&(Attr){.p = &vector}));
  CHECK_GRADIENTS(OP_gather, (Tensor *[]){LEAF(-2, 2, 4, 3)}, (&(Attr){.p = &rows}));
  CHECK_GRADIENTS(OP_gather, (Tensor *[]){LEAF(-2, 2, 3, 4)}, (&(Attr){.p = &columns}));
  CHECK_GRADIENTS(OP_gather, (Tensor *[]){LEAF(-2, 2, 3, 3, 2)}, (&(Attr){.p = &middle}));
}

static const int32_t sequence[] = {1, 1, 2, 4, 4, 4, 1}; /* 3 is empty; 1 comes back */
static const SegmentAttr segments = {4, 7, sequence};

void check_segment_sum(void) {
  CHECK_GRADIENTS(OP_segment_sum, (Tensor *[]){LEAF(-2, 2, 7)}, (&(Attr){.p = &segments}));
}
void check_segment_mean(void) {
  CHECK_GRADIENTS(OP_segment_mean, (Tensor *[]){LEAF(-2, 2, 7)}, (&(Attr){.p = &segments}));
}
void check_spread(void) {
  CHECK_GRADIENTS(OP_spread, (Tensor *[]){LEAF(-2, 2, 4)}, (&(Attr){.p = &segments}));
}

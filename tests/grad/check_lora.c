/* check_lora.c - low-rank adapters beside frozen weights. */
#include "check.h"

static const LoraDropout half = {0.5, {.seed = 5, .stream = RNG_DROPOUT, .step = 3, .prompt = 1}};

static void linear_of(int m, int n, int k, int r, const LoraDropout *d) {
  Tensor *x = LEAF(-1, 1, m, k), *a = LEAF(-1, 1, r, k), *b = LEAF(-1, 1, n, r);
  Tensor *w = check_constant(LEAF(-1, 1, n, k)), *bias = check_constant(LEAF(-1, 1, n));
  Tensor *wt = check_constant(LEAF(-1, 1, k, n));
  const Attr plain = {.f = {1.5}, .p = d}, conv1d = {.i = {1}, .f = {0.25}, .p = d};
  CHECK_GRADIENTS(OP_lora_linear, ((Tensor *[]){x, w, bias, a, b}), &plain);
  CHECK_GRADIENTS(OP_lora_linear, ((Tensor *[]){x, w, NULL, a, b}), &plain);
  CHECK_GRADIENTS(OP_lora_linear, ((Tensor *[]){x, wt, bias, a, b}), &conv1d);
  check_constant(x);
  CHECK_GRADIENTS(OP_lora_linear, ((Tensor *[]){x, wt, NULL, a, b}), &conv1d);
}

void check_lora_linear(void) {
  linear_of(3, 5, 4, 2, NULL);
  linear_of(1, 1, 1, 1, NULL);
  linear_of(9, 17, 6, 3, NULL);
  linear_of(7, 5, 19, 2, &half);
  linear_of(18, 3, 8, 4, &half); /* more than one chunk of rows */
  Tensor *x = LEAF(-1, 1, 2, 3, 4), *w = check_constant(LEAF(-1, 1, 2, 4));
  CHECK_GRADIENTS(OP_lora_linear, ((Tensor *[]){x, w, NULL, LEAF(-1, 1, 3, 4), LEAF(-1, 1, 2, 3)}),
                  (&(Attr){.f = {2}}));
}

void check_lora_low(void) {
  Tensor *x = LEAF(-1, 1, 5, 11), *a = LEAF(-1, 1, 3, 11);
  CHECK_GRADIENTS(OP_lora_low, ((Tensor *[]){x, a}), (&(Attr){.f = {0.5}}));
  CHECK_GRADIENTS(OP_lora_low, ((Tensor *[]){x, a}), (&(Attr){.f = {2}, .p = &half}));
  CHECK_GRADIENTS(OP_lora_low, ((Tensor *[]){check_constant(x), a}), (&(Attr){.f = {2}}));
}

void check_lora_embedding(void) {
  static const int32_t ids[] = {3, 0, 3, 1, 4, 3};
  EmbeddingAttr e = {.tokens = 6, .ids = ids};
  const Attr attr = {.f = {1.5}, .p = &e};
  Tensor *x = LEAF(-1, 1, 6, 7), *a = LEAF(-1, 1, 2, 5), *b = LEAF(-1, 1, 7, 2);
  CHECK_GRADIENTS(OP_lora_embedding, ((Tensor *[]){x, a, b}), &attr);
  CHECK_GRADIENTS(OP_lora_embedding, ((Tensor *[]){check_constant(x), a, b}), &attr);
}

/* Rows repeat (a prompt's last row feeds every completion), some rows feed none. */
static const int32_t rows[] = {1, 1, 0, 3, 1, 4, 4}, targets[] = {0, 5, 2, 2, 1, 5, 0};

void check_lora_loghead(void) {
  LogheadAttr a = {.n = 7, .rows = rows, .targets = targets, .inv_temp = (real)(1 / .7)};
  const Attr attr = {.p = &a};
  Tensor *hidden = LEAF(-1, 1, 5, 4), *head = check_constant(LEAF(-1, 1, 6, 4));
  Tensor *low = LEAF(-1, 1, 5, 2), *b = LEAF(-1, 1, 6, 2);
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, head, NULL, low, b}), &attr);
  a.softcap = 2;
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, head, LEAF(-1, 1, 6), low, b}), &attr);
  /* a reference with an adapter of its own, and the full KL */
  a.ref_head = check_constant(LEAF(-1, 1, 6, 3));
  a.ref_hidden = LEAF(-1, 1, 7, 3)->data;
  a.ref_low = LEAF(-1, 1, 7, 2)->data;
  a.ref_lora_b = check_constant(LEAF(-1, 1, 6, 2));
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, head, NULL, low, b}), &attr);
  check_constant(hidden);
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, head, NULL, low, b}), &attr);
  enum { MANY = 300 }; /* more than one chunk */
  int32_t *many = check_alloc(2 * MANY * sizeof *many);
  for (int i = 0; i < MANY; i++) many[i] = i * 7 % 5, many[MANY + i] = i * 3 % 6;
  a = (LogheadAttr){.n = MANY, .rows = many, .targets = many + MANY, .inv_temp = 1};
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, LEAF(-1, 1, 6, 4), NULL, low, b}), &attr);
  a.one_pass = true;
  CHECK_GRADIENTS(OP_lora_loghead, ((Tensor *[]){hidden, LEAF(-1, 1, 6, 4), NULL, low, b}), &attr);
}

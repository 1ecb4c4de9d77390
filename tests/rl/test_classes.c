/* Kernel classes side by side in one process: each engine gives the bits that it gives alone; and
 * a backend beside the CPU. */
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "grad/op_table.h"
#include "grad/value.h"
#include "kern/dispatch.h"
#include "os/file.h"
#include "tiny.h"

enum { CLASSES = 10, STEPS = 3 };

typedef struct Form {
  Storage storage; /* but STORE_F32: with an adapter */
  Compute compute;
} Form;

/* An engine whose steps are computed by a class, which the model names or, with NULL, the process.
 * Random weights are a class's own, so the process's choice fills them. */
static void open_with(Tiny *t, const char *class, bool named, const Form *form) {
  const KernelClass *cpu;
  const char *dir = test_path("%s/%s", test_tmp(), class);
  OK(kern_select(class));
  OK(kern_class(class, &cpu));
  *t = (Tiny){0};
  tiny_options(&t->o);
  test_compute = form->compute;
  tiny_models(t, 2, NULL, true);
  test_compute = COMPUTE_F32;
  if (form->storage != STORE_F32) {
    OK(file_mkdirs(dir));
    OK(save_model(t->model, dir, WEIGHT_F32, 0));
    model_release(t->model);
    OK(weights_load_compute(&t->model, t->pool, dir, form->storage, form->compute));
    tiny_lora(t, 0.1);
  }
  if (named) {
    OK(kern_select("generic"));
    model_set_kernels(t->model, cpu);
    model_set_kernels(t->reference, cpu);
  }
  tiny_engine(t);
}

static void step(Tiny *t, uint32_t number) {
  UpdateOptions o;
  StepMetrics m;
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-2;
  o.loss.kl = 0.1;
  o.loss.max_new_tokens = TINY_NEW;
  o.iterations = 2;
  o.step = number;
  tiny_step(t, number, &o, &m);
}

TEST(classes_step_side_by_side_as_each_does_alone) {
  static const Form form[] = {{STORE_F32, COMPUTE_F32},  {STORE_F32, COMPUTE_BF16},
                              {STORE_NF4, COMPUTE_F32},  {STORE_NF4, COMPUTE_BF16},
                              {STORE_INT8, COMPUTE_F32}, {STORE_AUTO, COMPUTE_F32}};
  for (size_t f = 0; f < sizeof form / sizeof form[0]; f++) {
    Tiny alone[CLASSES], together[CLASSES];
    int n = 0;
    for (; n < CLASSES && kern_path(n); n++) {
      open_with(&alone[n], kern_path(n), false, &form[f]);
      for (uint32_t s = 1; s <= STEPS; s++) step(&alone[n], s);
    }
    for (int k = 0; k < n; k++) open_with(&together[k], kern_path(k), true, &form[f]);
    for (uint32_t s = 1; s <= STEPS; s++)
      for (int k = 0; k < n; k++) step(&together[k], s);
    bool differ = false, portable = true;
    for (int k = 1; k < n; k++) {
      const bool same = same_weights(alone[0].model, alone[k].model);
      differ |= !same;
      if (strncmp(kern_path(k), "portable", 8) == 0) portable &= same;
    }
    CHECK(differ || n == 1); /* classes can differ */
    CHECK(portable);         /* and these do not, with generic, which is the first */
    for (int k = 0; k < n; k++)
      if (!same_weights(alone[k].model, together[k].model))
        test_fail(__FILE__, __LINE__, "form %zu, class %s: other weights than alone", f,
                  kern_path(k));
    for (int k = 0; k < n; k++) tiny_close(&alone[k]), tiny_close(&together[k]);
  }
  OK(kern_select(NULL));
}

static int forwards[OP_COUNT], backwards[OP_COUNT]; /* in the second backend */

static Status forward(const Ctx *cx, Node *nd) {
  forwards[nd->op->id]++;
  return nd->op->cpu.forward(cx, nd);
}

static Status backward(const Ctx *cx, Node *nd) {
  backwards[nd->op->id]++;
  return nd->op->cpu.backward(cx, nd);
}

/* It lacks one operation. */
static const Backend *second_backend(void) {
  static OpKernel kernel[OP_COUNT];
  static const Backend backend = {"second", kernel};
  for (int i = 0; i < OP_COUNT; i++)
    kernel[i] = (OpKernel){forward, op_table[i]->cpu.backward ? backward : NULL};
  kernel[OP_swiglu] = (OpKernel){0};
  return &backend;
}

TEST(a_second_backend_computes_what_it_has) {
  Tiny t[2];
  for (int k = 0; k < 2; k++) {
    t[k] = (Tiny){0};
    tiny_options(&t[k].o);
    tiny_models(&t[k], 2, NULL, true);
    if (k) model_set_backend(t[k].model, second_backend());
    tiny_engine(&t[k]);
    for (uint32_t s = 1; s <= STEPS; s++) step(&t[k], s);
    CHECK((forwards[OP_linear] > 0) == k && (backwards[OP_linear] > 0) == k);
  }
  CHECK(same_weights(t[0].model, t[1].model));
  CHECK(forwards[OP_attention] && backwards[OP_loghead] && !forwards[OP_swiglu]);
  for (int k = 0; k < 2; k++) tiny_close(&t[k]);
}

TEST(a_second_backend_computes_values) {
  Arena arena = {0};
  const Ctx cx = {.arena = &arena, .backend = second_backend()};
  Value *x, *y;
  OK(value_new(&x, 0, NULL));
  value_tensor(x)->needs_grad = true;
  OK(value_apply(&cx, OP_exp, &x, NULL, 0, true, &y));
  OK(value_backward(&cx, y));
  CHECK(value_tensor(x)->grad[0] == 1 && forwards[OP_exp] == 1 && backwards[OP_exp] == 1);
  value_release(x), value_release(y);
  arena_free(&arena);
}

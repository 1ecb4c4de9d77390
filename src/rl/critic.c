#include "rl/critic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/safetensors.h"
#include "kern/elementwise.h"
#include "model/lora.h"
#include "model/model_copy.h"

enum { HEAD_ARRAYS = 4 }; /* weight, gradient, two moments */

struct Critic {
  Model *trunk;         /* NULL: shared */
  Optimizer *optimizer; /* of the trunk; NULL: shared */
  OptimizerOptions o;
  Tensor head;  /* [1, hidden_size] */
  real *memory; /* HEAD_ARRAYS times head.n */
  uint64_t steps;
};

static real *moment(const Critic *c, int k) { return c->memory + (size_t)(2 + k) * c->head.n; }

/* ---- making -------------------------------------------------------------------------- */

static Status make_trunk(Critic *c, const Model *policy) {
  try(model_copy(&c->trunk, policy));
  try(model_set_trainable(c->trunk, true));
  return optimizer_new(&c->optimizer, c->trunk, &c->o);
}

Status critic_new(Critic **out, Model *policy, CriticKind kind, const OptimizerOptions *o) {
  const int dim[2] = {1, model_config(policy)->hidden_size};
  const size_t n = (size_t)dim[1];
  Critic *c = mem_zalloc(sizeof *c);
  if (!c) return fail(GRPO_ENOMEM, "critic");
  c->o = *o;
  c->memory = mem_alloc_aligned(HEAD_ARRAYS * n * sizeof(real));
  Status s = c->memory ? GRPO_OK : fail(GRPO_ENOMEM, "critic: a head of %zu inputs", n);
  if (s == GRPO_OK) {
    memset(c->memory, 0, HEAD_ARRAYS * n * sizeof(real));
    c->head = tensor_view(c->memory, 2, dim);
    c->head.needs_grad = true;
    c->head.grad = c->memory + n;
    if (kind == CRITIC_SEPARATE) s = make_trunk(c, policy);
  }
  if (s == GRPO_OK)
    *out = c;
  else
    critic_free(c);
  return s;
}

void critic_free(Critic *c) {
  if (!c) return;
  optimizer_free(c->optimizer);
  model_release(c->trunk);
  mem_free_aligned(c->memory);
  mem_free(c);
}

Model *critic_trunk(Critic *c) { return c->trunk; }
Tensor *critic_head(Critic *c) { return &c->head; }

/* ---- values -------------------------------------------------------------------------- */

Status critic_values(Critic *c, Tape *t, const Pack *p, Tensor *hidden, Tensor **value) {
  ValueHeadAttr *a = arena_alloc(&t->arena, sizeof *a);
  if (!a) return fail(GRPO_ENOMEM, "critic: no memory for %d values", p->nvalues);
  *a = (ValueHeadAttr){p->nvalues, p->value_rows};
  return tape_apply(t, OP_value_head, (Tensor *[]){hidden, &c->head}, &(Attr){.p = a}, value);
}

/* ---- training ------------------------------------------------------------------------ */

Status critic_grad_norm(Critic *c, const Ctx *cx, double *norm) {
  double trunk = 0;
  if (c->trunk) try(optimizer_grad_norm(c->optimizer, cx, &trunk));
  *norm = sqrt(trunk * trunk + vec_sumsq(cx, c->head.n, c->head.grad));
  return GRPO_OK;
}

Status critic_step(Critic *c, const Ctx *cx, double lr, double max_norm, double norm) {
  if (c->trunk) try(optimizer_step(c->optimizer, cx, lr, max_norm, norm));
  const AdamW a = adamw_at(&c->o.adamw, ++c->steps, lr, max_norm, norm);
  if (c->o.kind == OPTIMIZER_LION)
    lion_step(cx, c->head.n, c->head.data, c->head.grad, moment(c, 0), &a);
  else
    adamw_step(cx, c->head.n, c->head.data, c->head.grad, moment(c, 0), moment(c, 1), &a);
  return GRPO_OK;
}

/* ---- files --------------------------------------------------------------------------- */

enum { PATH_MAX_BYTES = 4096, HEAD_TENSORS = 3 };
static const char *const head_name[HEAD_TENSORS] = {"score.weight", "score.weight.exp_avg",
                                                    "score.weight.exp_avg_sq"};

static real *head_tensor(const Critic *c, int k) { return k ? moment(c, k - 1) : c->head.data; }

static Status path_in(char *path, const char *dir, const char *name) {
  if ((size_t)snprintf(path, PATH_MAX_BYTES, "%s/%s", dir, name) < PATH_MAX_BYTES) return GRPO_OK;
  return fail(GRPO_EARG, "%s: the path is too long", dir);
}

static size_t num_tensors(const Critic *c) {
  size_t n = HEAD_TENSORS;
  for (int i = 0; model_next_trainable(c->trunk, &i);) n++;
  return n;
}

static StEntry entry_of(const char *name, const Tensor *t) {
  StEntry e = {.name = name, .type = ST_F32, .ndim = t->ndim};
  for (int d = 0; d < t->ndim; d++) e.dim[d] = (uint64_t)t->dim[d];
  return e;
}

static Status put_tensors(const Critic *c, StWriter *w) {
  const Param *p;
  for (int k = 0; k < HEAD_TENSORS; k++) try(st_writer_put(w, head_tensor(c, k), c->head.n));
  for (int i = 0; (p = model_next_trainable(c->trunk, &i));)
    try(st_writer_put(w, p->t.data, p->t.n));
  return GRPO_OK;
}

static Status write_tensors(const Critic *c, const char *path) {
  const size_t n = num_tensors(c);
  char step[32];
  StEntry *e = mem_zalloc(n * sizeof *e), *at = e;
  StWriter *w = NULL;
  const Param *p;
  if (!e) return fail(GRPO_ENOMEM, "%s", path);
  snprintf(step, sizeof step, "%llu", (unsigned long long)c->steps);
  for (int k = 0; k < HEAD_TENSORS; k++) *at++ = entry_of(head_name[k], &c->head);
  for (int i = 0; (p = model_next_trainable(c->trunk, &i));) *at++ = entry_of(p->name, &p->t);
  Status s = st_writer_open(&w, path, n, e, (const char *const[]){"step", step, NULL});
  mem_free(e);
  try(s);
  s = put_tensors(c, w);
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

Status critic_save(const Critic *c, const char *dir) {
  char path[PATH_MAX_BYTES];
  Status s = GRPO_OK;
  if (dir) s = path_in(path, dir, "critic.safetensors");
  if (dir && s == GRPO_OK) s = write_tensors(c, path);
  if (dir && s == GRPO_OK) s = path_in(path, dir, "critic_optimizer.safetensors");
  if (!c->trunk) return s;
  const Status of_trunk = optimizer_save(c->optimizer, dir && s == GRPO_OK ? path : NULL);
  return s == GRPO_OK ? of_trunk : s;
}

/* Everything is checked before anything is changed. */
static Status read_tensors(Critic *c, const Safetensors *f, bool write) {
  const StTensor *t;
  const Param *p;
  for (int k = 0; k < HEAD_TENSORS; k++) {
    try(safetensors_shaped(f, head_name[k], ST_F32, c->head.ndim, c->head.dim, &t));
    if (write) try(st_read(t, 0, t->n, head_tensor(c, k)));
  }
  for (int i = 0; (p = model_next_trainable(c->trunk, &i));) {
    try(safetensors_shaped(f, p->name, ST_F32, p->t.ndim, p->t.dim, &t));
    if (write) try(st_read(t, 0, t->n, p->t.data));
  }
  if (f->count == num_tensors(c)) return GRPO_OK;
  return fail(
      GRPO_EFORMAT,
      "%s: it holds %zu tensors, but this critic has %zu; was train.ppo.critic another one?",
      f->path, f->count, num_tensors(c));
}

Status critic_load(Critic *c, const char *dir) {
  char path[PATH_MAX_BYTES];
  Safetensors f;
  uint64_t steps = 0;
  try(path_in(path, dir, "critic.safetensors"));
  try(safetensors_open(&f, path));
  Status s = safetensors_steps(&f, &steps);
  if (s == GRPO_OK) s = read_tensors(c, &f, false);
  if (s == GRPO_OK) s = read_tensors(c, &f, true);
  if (s == GRPO_OK) c->steps = steps;
  safetensors_close(&f);
  try(s);
  if (!c->trunk) return GRPO_OK;
  model_updated(c->trunk);
  try(path_in(path, dir, "critic_optimizer.safetensors"));
  return optimizer_load(c->optimizer, path);
}

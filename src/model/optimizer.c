#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/safetensors.h"
#include "kern/elementwise.h"
#include "model/model_struct.h"

struct Optimizer {
  Model *m;
  OptimizerOptions o;
  uint64_t steps;
  uint64_t count; /* trainable numbers that it was made for */
  char *memory;   /* moments_bytes() of every trainable parameter, one after the other */
  MomentMaps *maps;
};

/* ---- options ------------------------------------------------------------------------ */

static const Option option_rows[] = {
#define OPTIONS_OF OptimizerOptions
#include "base/option_rows.h"
#include "model/optimizer.def"
};

const OptionSet optimizer_option_set = OPTION_SET("train.optimizer.", option_rows);

static const OptimizerDefault kind_defaults[] = {
#define OPTIMIZER_NUMBER(kind, path, value) {kind, path, value},
#include "model/optimizer.def"
};

int optimizer_default_count(void) { return (int)(sizeof kind_defaults / sizeof *kind_defaults); }
const OptimizerDefault *optimizer_default_at(int i) { return &kind_defaults[i]; }

void optimizer_options_init(OptimizerOptions *o) {
  *o = (OptimizerOptions){0};
  options_init_rows(&optimizer_option_set, o);
  adamw_options_init(&o->adamw);
}

static OptionWord kind_word(OptimizerKind kind) { return option_word(&option_rows[0], (int)kind); }

/* ---- making and stepping ------------------------------------------------------------ */

static size_t state_bytes(const Optimizer *o) {
  size_t bytes = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) bytes += moments_bytes(o->o.kind, p->t.n);
  return bytes;
}

/* Moments belong to the parameters that the optimizer was made for: an adapter must not come or
 * go. */
static Status check_model(const Optimizer *o) {
  if (!o->m->trainable) return fail(GRPO_EARG, "optimizer: the model is frozen");
  if (model_count_trainable(o->m) == o->count) return GRPO_OK;
  return fail(GRPO_EARG, "optimizer: the model's trainable parameters are not those it was made "
                         "for; make a new engine after adding or merging an adapter");
}

static Status allocate(Optimizer *o) {
  const size_t bytes = state_bytes(o);
  o->memory = mem_alloc_aligned(bytes);
  if (!o->memory)
    return fail(GRPO_ENOMEM, "optimizer: no memory for %zu MiB of moments", bytes >> 20);
  memset(o->memory, 0, bytes);
  if (o->o.kind != OPTIMIZER_ADAMW_8BIT) return GRPO_OK;
  o->maps = mem_alloc(sizeof *o->maps);
  if (!o->maps) return fail(GRPO_ENOMEM, "optimizer: no memory for its maps of 8 bits");
  moment8_map_init(&o->maps->with_sign, true);
  moment8_map_init(&o->maps->without_sign, false);
  return GRPO_OK;
}

Status optimizer_new(Optimizer **out, Model *m, const OptimizerOptions *o) {
  Optimizer *p = mem_zalloc(sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "optimizer: no memory for it");
  *p = (Optimizer){.m = m, .o = *o, .count = model_count_trainable(m)};
  const Status s = allocate(p);
  if (s == GRPO_OK)
    *out = p;
  else
    optimizer_free(p);
  return s;
}

void optimizer_free(Optimizer *o) {
  if (!o) return;
  mem_free_aligned(o->memory);
  mem_free(o->maps);
  mem_free(o);
}

double optimizer_grad_norm(Optimizer *o, const Ctx *cx) {
  double sum = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) sum += vec_sumsq(cx, p->t.n, p->t.grad);
  return sqrt(sum);
}

static bool decays(const Optimizer *o, const Param *p) {
  return !(p->is_bias && !o->o.decay_bias) && !(p->is_norm && !o->o.decay_norm);
}

Status optimizer_step(Optimizer *o, const Ctx *cx, double lr, double max_norm, double norm) {
  try(check_model(o));
  AdamW a = adamw_at(&o->o.adamw, ++o->steps, lr, max_norm, norm);
  char *memory = o->memory;
  Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) {
    a.weight_decay = decays(o, p) ? o->o.adamw.weight_decay : 0;
    moments_step(cx, o->o.kind, o->maps, p->t.n, p->t.data, p->t.grad, memory, &a);
    memory += moments_bytes(o->o.kind, p->t.n);
  }
  model_updated(o->m);
  return GRPO_OK;
}

uint64_t optimizer_steps(const Optimizer *o) { return o->steps; }

/* ---- files ------------------------------------------------------------------------- */

enum { NAME_BYTES = 160 };
static const char kind_key[] = "optimizer";

/* Every array of every parameter, in the order of the file. */
typedef struct Walk {
  const Optimizer *o;
  char *memory; /* of the next parameter */
  int next, at, count;
  const Param *p; /* whose arrays these are */
  MomentArray array[MOMENT_ARRAYS];
  char name[NAME_BYTES]; /* of the array */
} Walk;

static const MomentArray *walk_next(Walk *w) {
  if (w->at == w->count) {
    const OptimizerKind kind = w->o->o.kind;
    w->p = model_next_trainable(w->o->m, &w->next);
    if (!w->p) return NULL;
    w->count = moments_arrays(kind, w->p->t.n, w->memory, w->array);
    w->memory += moments_bytes(kind, w->p->t.n);
    w->at = 0;
  }
  const MomentArray *a = &w->array[w->at++];
  snprintf(w->name, NAME_BYTES, "%s.%s", w->p->name, a->name);
  return a;
}

static Walk walk(const Optimizer *o) { return (Walk){.o = o, .memory = o->memory}; }

static size_t count_arrays(const Optimizer *o) {
  size_t n = 0;
  for (Walk w = walk(o); walk_next(&w);) n++;
  return n;
}

static Status put_arrays(const Optimizer *o, StWriter *out) {
  const MomentArray *a;
  for (Walk w = walk(o); (a = walk_next(&w));)
    try(a->type == MOMENT_CODE ? st_writer_put_bytes(out, a->data, a->n)
                               : st_writer_put(out, a->data, a->n));
  return GRPO_OK;
}

static int shape_of(const Param *p, const MomentArray *a, int *dim) {
  if (a->type == MOMENT_SCALE) return dim[0] = (int)a->n, 1;
  for (int d = 0; d < p->t.ndim; d++) dim[d] = p->t.dim[d];
  return p->t.ndim;
}

static StType type_of(const MomentArray *a) { return a->type == MOMENT_CODE ? ST_U8 : ST_F32; }

static void describe(const Optimizer *o, StEntry *e, char *names) {
  const MomentArray *a;
  int dim[ST_DIMS];
  for (Walk w = walk(o); (a = walk_next(&w)); e++, names += NAME_BYTES) {
    memcpy(names, w.name, NAME_BYTES);
    *e = (StEntry){.name = names, .type = type_of(a), .ndim = shape_of(w.p, a, dim)};
    for (int d = 0; d < e->ndim; d++) e->dim[d] = (uint64_t)dim[d];
  }
}

Status optimizer_save(const Optimizer *o, const char *path) {
  try(check_model(o));
  const size_t n = count_arrays(o);
  const OptionWord word = kind_word(o->o.kind);
  char step[32];
  snprintf(step, sizeof step, "%llu", (unsigned long long)o->steps);
  StEntry *e = mem_zalloc(n * sizeof *e);
  char *names = mem_alloc(n * NAME_BYTES);
  StWriter *w = NULL;
  Status s = fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  if (e && names) {
    const char *key = o->o.kind == OPTIMIZER_ADAMW ? NULL : kind_key;
    describe(o, e, names);
    s = st_writer_open(&w, path, n, e, (const char *const[]){"step", step, key, word.s, NULL});
  }
  mem_free(e);
  mem_free(names);
  try(s);
  s = put_arrays(o, w);
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

/* A file without training state is refused by its missing step count. */
static Status check_kind(const Optimizer *o, const Safetensors *f) {
  const char *word = safetensors_metadata(f, kind_key);
  const OptionWord mine = kind_word(o->o.kind), adamw = kind_word(OPTIMIZER_ADAMW);
  if (!word) word = adamw.s;
  if (!strcmp(word, mine.s)) return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: it holds the state of the optimizer %.40s, but train.optimizer.name is %s; "
              "name the former, or start a new run from the checkpoint's weights",
              f->path, word, mine.s);
}

/* It is called without `write` first, so that everything is checked before anything changes. */
static Status read_arrays(Optimizer *o, const Safetensors *f, bool write) {
  const MomentArray *a;
  int dim[ST_DIMS];
  for (Walk w = walk(o); (a = walk_next(&w));) {
    const StTensor *t = NULL;
    const int ndim = shape_of(w.p, a, dim);
    try(safetensors_shaped(f, w.name, type_of(a), ndim, dim, &t));
    if (!write) continue;
    try(a->type == MOMENT_CODE ? st_read_bytes(t, 0, t->n, a->data) : st_read(t, 0, t->n, a->data));
  }
  if (f->count != count_arrays(o))
    return fail(GRPO_EFORMAT, "%s: it has %zu tensors, but this model's optimizer has %zu", f->path,
                f->count, count_arrays(o));
  return GRPO_OK;
}

Status optimizer_load(Optimizer *o, const char *path) {
  Safetensors f;
  uint64_t steps = 0;
  try(check_model(o));
  try(safetensors_open(&f, path));
  Status s = safetensors_steps(&f, &steps);
  if (s == GRPO_OK) s = check_kind(o, &f);
  if (s == GRPO_OK) s = read_arrays(o, &f, false);
  if (s == GRPO_OK) s = read_arrays(o, &f, true);
  if (s == GRPO_OK) o->steps = steps;
  safetensors_close(&f);
  return s;
}

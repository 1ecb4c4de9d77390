#include "grad/moments.h"

enum { ALIGNMENT = 64 };

typedef struct Row {
  const char *name;
  MomentType type;
} Row;

static const Row adamw_rows[] = {{"exp_avg", MOMENT_REAL}, {"exp_avg_sq", MOMENT_REAL}, {0}};
static const Row lion_rows[] = {{"exp_avg", MOMENT_REAL}, {0}};
static const Row adamw8_rows[] = {{"exp_avg", MOMENT_CODE},
                                  {"exp_avg.absmax", MOMENT_SCALE},
                                  {"exp_avg_sq", MOMENT_CODE},
                                  {"exp_avg_sq.absmax", MOMENT_SCALE},
                                  {0}};

OptimizerKind moments_kind(OptimizerKind kind, size_t n) {
  return kind == OPTIMIZER_ADAMW_8BIT && n < MOMENTS8_MIN ? OPTIMIZER_ADAMW : kind;
}

static const Row *rows_of(OptimizerKind kind) {
  if (kind == OPTIMIZER_LION) return lion_rows;
  return kind == OPTIMIZER_ADAMW_8BIT ? adamw8_rows : adamw_rows;
}

static size_t array_bytes(const MomentArray *a) {
  const size_t each = a->type == MOMENT_REAL   ? sizeof(real)
                      : a->type == MOMENT_CODE ? sizeof(uint8_t)
                                               : sizeof(float);
  return (a->n * each + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int moments_arrays(OptimizerKind kind, size_t n, void *memory, MomentArray *out) {
  int count = 0;
  char *at = memory;
  for (const Row *r = rows_of(kind); r->name; r++, count++) {
    MomentArray *a = &out[count];
    *a = (MomentArray){r->name, r->type, r->type == MOMENT_SCALE ? moment8_blocks(n) : n, at};
    if (at) at += array_bytes(a);
  }
  return count;
}

size_t moments_bytes(OptimizerKind kind, size_t n) {
  MomentArray a[MOMENT_ARRAYS];
  size_t bytes = 0;
  for (int i = moments_arrays(kind, n, NULL, a); i-- > 0;) bytes += array_bytes(&a[i]);
  return bytes;
}

void moments_step(const Ctx *cx, OptimizerKind kind, const MomentMaps *maps, size_t n, real *p,
                  const real *g, void *memory, const AdamW *o) {
  MomentArray a[MOMENT_ARRAYS];
  const int count = moments_arrays(kind, n, memory, a);
  if (kind == OPTIMIZER_LION) {
    lion_step(cx, n, p, g, a[0].data, o);
  } else if (count == MOMENT_ARRAYS) {
    const Moment8 m = {&maps->with_sign, a[0].data, a[1].data};
    const Moment8 v = {&maps->without_sign, a[2].data, a[3].data};
    adamw8_step(cx, n, p, g, &m, &v, o);
  } else {
    adamw_step(cx, n, p, g, a[0].data, a[1].data, o);
  }
}

#include "model/config_fields.h"

#include <stddef.h>

#include "grad/attrs.h"
#include "kern/conv.h"

typedef enum FieldId {
#define FIELD_ID(field)                                      FIELD_##field,
#define INT(field, key, families, otherwise, lo, hi)         FIELD_ID(field)
#define NUM(field, key, families, otherwise, lo, hi)         FIELD_ID(field)
#define INT_OR_NULL(field, key, families, otherwise, lo, hi) FIELD_ID(field)
#define NUM_OR_NULL(field, key, families, otherwise, lo, hi) FIELD_ID(field)
#define BOOL(field, key, families, otherwise)                FIELD_ID(field)
#include "model/config.def"
  FIELD_COUNT
} FieldId;

typedef struct FieldRow {
  Field field;
  Families families;
} FieldRow;

static const FieldRow field_rows[FIELD_COUNT] = {
#define ROW(field, key, families, type, nullable, otherwise, lo, hi)                               \
  {{key, key, type, nullable, offsetof(Config, field), otherwise, lo, hi}, families},
#define INT(field, key, families, otherwise, lo, hi)                                               \
  ROW(field, key, families, FIELD_INT, false, otherwise, lo, hi)
#define NUM(field, key, families, otherwise, lo, hi)                                               \
  ROW(field, key, families, FIELD_NUM, false, otherwise, lo, hi)
#define INT_OR_NULL(field, key, families, otherwise, lo, hi)                                       \
  ROW(field, key, families, FIELD_INT, true, otherwise, lo, hi)
#define NUM_OR_NULL(field, key, families, otherwise, lo, hi)                                       \
  ROW(field, key, families, FIELD_NUM, true, otherwise, lo, hi)
#define BOOL(field, key, families, otherwise)                                                      \
  ROW(field, key, families, FIELD_BOOL, false, otherwise, 0, 1)
#include "model/config.def"
};

/* A family's difference from the common row. */
typedef struct Difference {
  Family family;
  FieldId field;
  const char *key; /* NULL: the common key */
  double otherwise;
} Difference;

static const Difference differences[] = {
#define KEY(name, field, key, otherwise) {FAMILY_##name, FIELD_##field, key, otherwise},
#define DEFAULT(name, field, otherwise)  {FAMILY_##name, FIELD_##field, NULL, otherwise},
#include "model/config.def"
};

int config_num_fields(void) { return FIELD_COUNT; }

Field config_field(Family f, int i) {
  Field field = field_rows[i].field;
  if (!(field_rows[i].families >> f & 1)) field.key = "";
  for (size_t k = 0; k < sizeof differences / sizeof *differences; k++) {
    const Difference *d = &differences[k];
    if (d->family != f || (int)d->field != i) continue;
    if (d->key) field.key = d->key;
    field.otherwise = d->otherwise;
  }
  return field;
}

double config_get(const Config *c, const Field *f) {
  const char *at = (const char *)c + f->at;
  return f->type == FIELD_INT    ? *(const int *)(const void *)at
         : f->type == FIELD_BOOL ? *(const bool *)(const void *)at
                                 : *(const double *)(const void *)at;
}

void config_set(Config *c, const Field *f, double v) {
  char *at = (char *)c + f->at;
  if (f->type == FIELD_INT)
    *(int *)(void *)at = (int)v;
  else if (f->type == FIELD_BOOL)
    *(bool *)(void *)at = v != 0;
  else
    *(double *)(void *)at = v;
}

bool config_has_layer_types(const Config *c) { return LAYER_TYPED >> c->family & 1; }

/* ---- single values ----------------------------------------------------------------------- */

bool config_absent(const Json *v) { return !v || json_type(v) == JSON_NULL; }

Status config_read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out) {
  int64_t n;
  if (!json_integer(v, &n)) return fail(GRPO_EFORMAT, "%s: %s must be a whole number", what, key);
  if (n < lo || n > hi)
    return fail(GRPO_EFORMAT, "%s: %s = %lld is outside %lld .. %lld", what, key, (long long)n,
                (long long)lo, (long long)hi);
  *out = (int)n;
  return GRPO_OK;
}

Status config_read_num(const Json *v, const char *key, double lo, double hi, const char *what,
                       double *out) {
  double x = json_number(v);
  if (!(x >= lo && x <= hi))
    return fail(GRPO_EFORMAT, "%s: %s must be a number from %g to %g", what, key, lo, hi);
  *out = x;
  return GRPO_OK;
}

Status config_read_bool(const Json *v, const char *key, const char *what, bool *out) {
  if (json_type(v) != JSON_BOOL)
    return fail(GRPO_EFORMAT, "%s: %s must be true or false", what, key);
  *out = json_bool(v);
  return GRPO_OK;
}

void config_put_key(Buf *b, const char *key) { buf_printf(b, ",\n  \"%s\": ", key); }

#include "model/config_fields.h"

#include <stddef.h>

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
  unsigned families;
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

bool config_has_layer_types(const Config *c) { return (QWENS | GEMMAS) >> c->family & 1; }

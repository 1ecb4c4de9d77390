/* config_impl.h - what the files that read and write config.json share. */
#ifndef GRPO_MODEL_CONFIG_IMPL_H
#define GRPO_MODEL_CONFIG_IMPL_H

#include "model/config.h"

typedef enum FieldType { FIELD_INT, FIELD_NUM, FIELD_BOOL } FieldType;

/* One field as one family has it. */
typedef struct Field {
  const char *key, *common_key; /* "": not in this family's files */
  FieldType type;
  bool nullable;
  size_t at; /* in Config */
  double otherwise, lo, hi;
} Field;

int config_num_fields(void);
Field config_field(Family f, int i);
double config_get(const Config *c, const Field *f);

typedef struct FamilyRow {
  const char *type, *architecture, *activation_key, *activation;
  unsigned traits;
} FamilyRow;
extern const FamilyRow family_rows[FAMILY_COUNT];

/* Families whose config.json may list its layers' types. */
bool config_has_layer_types(const Config *c);

bool config_absent(const Json *v); /* missing or null */
Status config_read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out);
Status config_read_num(const Json *v, const char *key, double lo, double hi, const char *what,
                       double *out);

Status config_read_rope(Config *c, const Json *j, const char *what);
void config_put_rope(Buf *b, const Config *c);
void config_put_key(Buf *b, const char *key); /* ",\n  \"key\": " */

#endif

#include "model/config_value.h"

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

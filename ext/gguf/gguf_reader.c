#include "gguf/gguf_reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "formats/json.h"

void reader_put_name(Reader *r, const char *hf) {
  buf_printf(&r->b, "%s\"%s\": ", r->b.len > 1 ? ", " : "", hf);
}

void reader_put_int(Reader *r, const char *hf, int64_t v) {
  reader_put_name(r, hf);
  buf_printf(&r->b, "%lld", (long long)v);
}

double reader_meant(double v) {
  char text[40];
  if ((double)(float)v != v) return v;
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtof(text, NULL) == (float)v) break;
  }
  return strtod(text, NULL);
}

void reader_put_number(Reader *r, const char *hf, double v) {
  reader_put_name(r, hf);
  json_put_number(&r->b, reader_meant(v));
}

void reader_put_bool(Reader *r, const char *hf, bool v) {
  reader_put_name(r, hf);
  buf_puts(&r->b, v ? "true" : "false");
}

Status reader_copy_int(Reader *r, const KeyPair *p, bool wanted) {
  int64_t v;
  bool found;
  gguf_key(r->key, r->a, p->key);
  try(gguf_get_int(r->g, r->key, 0, INT32_MAX, &v, &found));
  if (found && gguf_has_field(r->a, p->hf)) reader_put_int(r, p->hf, v);
  if (found || !wanted) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
}

Status reader_copy_number(Reader *r, const KeyPair *p) {
  double v;
  bool found;
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, p->key), &v, &found));
  if (found && gguf_has_field(r->a, p->hf)) reader_put_number(r, p->hf, v);
  return GRPO_OK;
}

#include "formats/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "formats/json_scan.h"
#include "os/file.h"
#include "os/locale.h"

/* ---- parsing ----------------------------------------------------------------------- */

/* cJSON takes its memory from malloc, because its hooks belong to the whole process; the limit is
 * asked beforehand. */
static Status build(const char *text, size_t len, size_t nodes, const char *what, Json **out) {
  enum { OVERHEAD = 16 }; /* of a block */
  if (!mem_refuses(len + nodes * (sizeof(cJSON) + 2 * OVERHEAD)))
    *out = cJSON_ParseWithLengthOpts(text, len, NULL, false);
  if (!*out) return fail(GRPO_ENOMEM, "%s: no memory for the parsed JSON", what);
  return GRPO_OK;
}

static Status parse(const char *text, size_t len, const char *what, JsonAllowed allowed,
                    Json **out) {
  Buf source = {0}, prepared = {0};
  size_t nodes;
  *out = NULL;
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, len -= 3;
  buf_put(&source, text, len);
  buf_putc(&source, 0);
  Status st = buf_status(&source);
  if (st == GRPO_OK) {
    const LocaleMark host = locale_enter(); /* for strtod() */
    st = json_scan(source.data, len, what, allowed, &prepared, &nodes);
    if (st == GRPO_OK && prepared.len)
      st = build(prepared.data, prepared.len, nodes, what, out);
    else if (st == GRPO_OK)
      st = build(source.data, len, nodes, what, out);
    locale_switch(host);
  }
  buf_free(&prepared);
  buf_free(&source);
  return st;
}

Status json_parse(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, JSON_STRICT, out);
}

Status json_parse_zeros(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, JSON_ZEROS, out);
}

Status json_parse_rows(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, JSON_ROWS, out);
}

Status json_read_file(const char *path, size_t max_bytes, Json **out) {
  Buf text = {0};
  *out = NULL;
  Status st = file_read(path, max_bytes, &text);
  if (st == GRPO_OK) st = json_parse(text.len ? text.data : "", text.len, path, out);
  buf_free(&text);
  return st;
}

void json_free(Json *root) { cJSON_Delete(root); }

/* ---- reading the tree ------------------------------------------------------------- */

/* The text of a number that is kept as it was written, or NULL. */
static const char *kept_number(const Json *j) {
  return cJSON_IsString(j) && *j->valuestring == JSON_KEPT_NUMBER ? j->valuestring + 1 : NULL;
}

JsonType json_type(const Json *j) {
  if (cJSON_IsString(j)) return kept_number(j) ? JSON_NUMBER : JSON_STRING;
  if (cJSON_IsNumber(j)) return JSON_NUMBER;
  if (cJSON_IsObject(j)) return JSON_OBJECT;
  if (cJSON_IsArray(j)) return JSON_ARRAY;
  return cJSON_IsBool(j) ? JSON_BOOL : JSON_NULL;
}

const Json *json_child(const Json *j) { return j ? j->child : NULL; }
const Json *json_next(const Json *j) { return j->next; }
const char *json_key(const Json *j) { return j->string; }

const Json *json_get(const Json *j, const char *key) {
  const Json *found = NULL;
  if (!cJSON_IsObject(j)) return NULL;
  for (const Json *member = j->child; member; member = member->next)
    if (strcmp(member->string, key) == 0) found = member;
  return found;
}

size_t json_count(const Json *j) {
  size_t n = 0;
  for (const Json *c = json_child(j); c; c = c->next) n++;
  return n;
}

const char *json_string(const Json *j) {
  return json_type(j) == JSON_STRING ? j->valuestring : NULL;
}

double json_number(const Json *j) {
  const char *kept = kept_number(j);
  if (!kept) return cJSON_IsNumber(j) ? j->valuedouble : (double)NAN;
  const LocaleMark host = locale_enter();
  const double v = strtod(kept, NULL);
  locale_switch(host);
  return v;
}

bool json_bool(const Json *j) { return cJSON_IsTrue(j); }

bool json_integer(const Json *j, int64_t *out) {
  const double v = json_number(j);
  if (!(fabs(v) <= 0x1p53) || v != floor(v)) return false;
  *out = (int64_t)v;
  return true;
}

bool json_int64(const Json *j, int64_t *out) {
  const char *kept = kept_number(j);
  char *end;
  if (!kept) return cJSON_IsNumber(j) && json_integer(j, out);
  errno = 0;
  *out = strtoll(kept, &end, 10);
  return !errno && !*end;
}

/* ---- writing ---------------------------------------------------------------------- */

static void put_escaped(Buf *b, unsigned char c) {
  static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (const char *l = letters; *l; l += 2)
    if ((unsigned char)*l == c) {
      buf_putc(b, '\\');
      buf_putc(b, l[1]);
      return;
    }
  buf_printf(b, "\\u%04x", c);
}

void json_put_string(Buf *b, const char *s, size_t n) {
  buf_putc(b, '"');
  while (n) {
    size_t k = 0; /* a run without anything to escape */
    while (k < n && (unsigned char)s[k] >= 0x20 && s[k] != '"' && s[k] != '\\' && s[k] != 0x7f) k++;
    utf8_put_lossy(b, s, k);
    s += k, n -= k;
    if (!n) break;
    put_escaped(b, (unsigned char)*s);
    s++, n--;
  }
  buf_putc(b, '"');
}

/* "1e+22" and "1e-05" to "1e22" and "1e-5". */
static void trim_exponent(char *text) {
  char *e = strchr(text, 'e');
  if (!e) return;
  char *from = e + 1, *to = e + 1;
  if (*from == '-') to++;
  from++;
  while (*from == '0') from++;
  memmove(to, from, strlen(from) + 1);
}

void json_put_number(Buf *b, double v) {
  char text[40];
  if (!isfinite(v)) {
    buf_puts(b, "null");
    return;
  }
  if (v == floor(v) && fabs(v) <= 0x1p53 && !(v == 0 && signbit(v))) {
    buf_printf(b, "%lld", (long long)v);
    return;
  }
  const LocaleMark host = locale_enter();
  /* 15 digits always survive, except below the normal range */
  for (int precision = fabs(v) < 0x1p-1022 ? 1 : 15; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*g", precision, v);
    if (strtod(text, NULL) == v) break;
  }
  locale_switch(host);
  trim_exponent(text);
  buf_puts(b, text);
}

#include "text/component.h"

#include <string.h>

#include "base/mem.h"
#include "text/onig.h"

const char *component_type(const Json *j) {
  const char *type = json_string(json_get(j, "type"));
  return type ? type : "(no type)";
}

bool component_is(const Json *j, const char *type) { return strcmp(component_type(j), type) == 0; }

bool component_is_null(const Json *j) { return !j || json_type(j) == JSON_NULL; }

Status component_flag(const Json *j, const char *key, bool dflt, bool *out) {
  const Json *v = json_get(j, key);
  *out = component_is_null(v) ? dflt : json_bool(v);
  if (component_is_null(v) || json_type(v) == JSON_BOOL) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: want true or false", key);
}

Status component_text(const Json *j, const char *key, const char **out) {
  *out = json_string(json_get(j, key));
  return *out ? GRPO_OK : fail(GRPO_EFORMAT, "%s: %s: want a string", component_type(j), key);
}

Status component_count(const Json *j, const char *key, int32_t *out) {
  int64_t v;
  if (!json_integer(json_get(j, key), &v) || v < 0 || v > INT32_MAX)
    return fail(GRPO_EFORMAT, "%s: %s: want a count", component_type(j), key);
  *out = (int32_t)v;
  return GRPO_OK;
}

Status component_each(const Json *j, const char *list, ComponentReader each, void *user) {
  if (component_is_null(j)) return GRPO_OK;
  if (json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object or null");
  if (!component_is(j, "Sequence")) return each(user, j);
  const Json *members = json_get(j, list);
  if (!members || json_type(members) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "Sequence: the list '%s' is missing", list);
  for (const Json *m = json_child(members); m; m = json_next(m)) {
    if (json_type(m) != JSON_OBJECT) return fail(GRPO_EFORMAT, "Sequence: want objects in it");
    try(component_each(m, list, each, user)); /* depth: at most JSON_MAX_DEPTH */
  }
  return GRPO_OK;
}

static Status read_regex(const char *regex, Regex **out) {
  Buf b = {0};
  Status s = onig_translate(regex, &b);
  if (s == GRPO_OK)
    s = regex_compile(out, b.len ? b.data : "", b.len, REGEX_VALID_UTF | REGEX_MULTI);
  buf_free(&b);
  return s;
}

Status pattern_read(const Json *component, Pattern *out) {
  const Json *p = json_get(component, "pattern");
  const char *text = json_string(json_get(p, "String"));
  const char *regex = json_string(json_get(p, "Regex"));
  *out = (Pattern){0};
  if (regex) return read_regex(regex, &out->re);
  if (!text || !*text)
    return fail(GRPO_EFORMAT, "%s: pattern: want a String (not empty) or a Regex",
                component_type(component));
  out->len = strlen(text);
  out->text = mem_strndup(text, out->len);
  return out->text ? GRPO_OK : fail(GRPO_ENOMEM, "pattern");
}

static Status find_regex(const Pattern *p, const char *s, size_t n, size_t at, size_t last,
                         bool *found, size_t *start, size_t *end) {
  for (*found = false; at <= n;) {
    bool any;
    const size_t *m;
    try(regex_exec(p->re, s, n, at, &any, &m));
    if (!any) return GRPO_OK;
    if (m[0] >= at && (m[1] > m[0] || (m[1] == m[0] && m[0] != last))) {
      *start = m[0];
      *end = m[1];
      *found = true;
      return GRPO_OK;
    }
    at = (m[1] > at ? m[1] : at) + 1; /* searches from the next character */
    while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80) at++;
  }
  return GRPO_OK;
}

Status pattern_find(const Pattern *p, const char *s, size_t n, size_t from, size_t last,
                    bool *found, size_t *start, size_t *end) {
  if (!p->text) return find_regex(p, s, n, from, last, found, start, end);
  const char *at = from < n ? memmem(s + from, n - from, p->text, p->len) : NULL;
  *found = at != NULL;
  *start = at ? (size_t)(at - s) : n;
  *end = *start + p->len;
  return GRPO_OK;
}

void pattern_free(Pattern *p) {
  mem_free(p->text);
  regex_free(p->re);
  *p = (Pattern){0};
}

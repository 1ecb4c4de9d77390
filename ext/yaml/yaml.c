#include "yaml/yaml.h"

#ifdef GRPO_HAVE_YAML

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "formats/json.h"
#include "os/library.h"

/* ---- the library -------------------------------------------------------------------- */

static struct {
  int (*initialize)(yaml_parser_t *);
  void (*delete)(yaml_parser_t *);
  void (*set_encoding)(yaml_parser_t *, yaml_encoding_t);
  void (*set_input)(yaml_parser_t *, const unsigned char *, size_t);
  int (*parse)(yaml_parser_t *, yaml_event_t *);
  void (*event_delete)(yaml_event_t *);
} lib;

static const LibrarySymbol symbols[] = {{"yaml_parser_initialize", &lib.initialize},
                                        {"yaml_parser_delete", &lib.delete},
                                        {"yaml_parser_set_encoding", &lib.set_encoding},
                                        {"yaml_parser_set_input_string", &lib.set_input},
                                        {"yaml_parser_parse", &lib.parse},
                                        {"yaml_event_delete", &lib.event_delete}};
static Library libyaml = {.package = "libyaml",
                          .sonames = {"libyaml-0.so.2"},
                          .symbols = symbols,
                          .count = sizeof symbols / sizeof symbols[0]};

bool yaml_available(void) { return library_available(&libyaml); }

/* ---- plain scalars: the core schema of YAML 1.2 --------------------------------------- */

static bool among(const char *s, size_t n, const char *const *words) {
  for (; *words; words++)
    if (strlen(*words) == n && memcmp(*words, s, n) == 0) return true;
  return false;
}

static size_t digits(const char *s, size_t i, size_t n) {
  while (i < n && s[i] >= '0' && s[i] <= '9') i++;
  return i;
}

/* Appends a decimal number as JSON writes it; false if the text is not one. */
static bool put_decimal(Buf *out, const char *s, size_t n) {
  const bool minus = n && s[0] == '-';
  const size_t first = n && (s[0] == '-' || s[0] == '+');
  const size_t point = digits(s, first, n);
  size_t end = point;
  if (point < n && s[point] == '.') end = digits(s, point + 1, n);
  const size_t fraction = end > point ? end - point - 1 : 0;
  if (point == first && !fraction) return false;
  size_t i = end;
  if (i < n && (s[i] == 'e' || s[i] == 'E')) {
    i += 1 + (i + 1 < n && (s[i + 1] == '-' || s[i + 1] == '+'));
    if (digits(s, i, n) == i) return false;
    i = digits(s, i, n);
  }
  if (i != n) return false;
  size_t begin = first;
  while (begin + 1 < point && s[begin] == '0') begin++; /* JSON has no leading zeros */
  if (minus) buf_putc(out, '-');
  if (begin == point)
    buf_putc(out, '0');
  else
    buf_put(out, s + begin, point - begin);
  if (fraction) buf_put(out, s + point, end - point);
  buf_put(out, s + end, n - end);
  return true;
}

/* Appends a number written as 0x1f or 0o17; false if the text is not one that 64 bits hold. */
static bool put_other_base(Buf *out, const char *s, size_t n) {
  if (n < 3 || n > 18 || s[0] != '0' || (s[1] != 'x' && s[1] != 'o')) return false;
  const int bits = s[1] == 'x' ? 4 : 3;
  uint64_t value = 0;
  for (size_t i = 2; i < n; i++) {
    const char c = s[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    if (digit >> bits || value >> (63 - bits)) return false;
    value = value << bits | (uint64_t)digit;
  }
  buf_printf(out, "%llu", (unsigned long long)value);
  return true;
}

static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const trues[] = {"true", "True", "TRUE", NULL};
static const char *const falses[] = {"false", "False", "FALSE", NULL};
static const char *const not_finite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                         "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                         ".NaN",  ".NAN",  NULL};

static void put_plain(Buf *out, const char *s, size_t n) {
  if (among(s, n, nulls))
    buf_puts(out, "null");
  else if (among(s, n, trues))
    buf_puts(out, "true");
  else if (among(s, n, falses))
    buf_puts(out, "false");
  else if (!put_decimal(out, s, n) && !put_other_base(out, s, n))
    json_put_string(out, s, n);
}

/* ---- events ------------------------------------------------------------------------- */

typedef struct Level {
  bool map, wants_key;
  uint32_t id;    /* of the mapping, to tell its keys from those of others */
  size_t members; /* items or keys so far */
} Level;

typedef struct Reader {
  const char *what;
  Buf *out;
  Level level[YAML_MAX_DEPTH];
  int depth, documents;
  uint32_t mappings;
  Buf keys; /* each key of the document: the mapping's id, the length, the bytes */
  Map seen; /* from the hash of a key to its place in `keys` */
  yaml_mark_t at;
} Reader;

static Status refuse(const Reader *r, const char *reason) {
  return fail(GRPO_EFORMAT, "%s:%zu:%zu: %s", r->what, r->at.line + 1, r->at.column + 1, reason);
}

static Status note_key(Reader *r, uint32_t id, const char *s, size_t n) {
  const uint64_t hash = (map_hash(s, n) ^ id * UINT64_C(0x9e3779b97f4a7c15)) & ~(UINT64_C(1) << 63);
  for (const MapEntry *e = map_find(&r->seen, hash); e; e = map_next(&r->seen, e)) {
    const char *before = r->keys.data + e->value;
    uint32_t head[2];
    memcpy(head, before, sizeof head);
    if (head[0] != id || head[1] != n || memcmp(before + sizeof head, s, n) != 0) continue;
    return fail(GRPO_EFORMAT, "%s:%zu:%zu: the key '%.*s' stands twice in one mapping", r->what,
                r->at.line + 1, r->at.column + 1, n > 40 ? 40 : (int)n, s);
  }
  const size_t place = r->keys.len;
  buf_put(&r->keys, (uint32_t[]){id, (uint32_t)n}, 2 * sizeof(uint32_t));
  buf_put(&r->keys, s, n);
  try(buf_status(&r->keys));
  return map_add(&r->seen, hash, place);
}

/* Before a value: the comma of a list; a mapping's value follows its key. */
static Status begin_value(Reader *r) {
  Level *l = r->depth ? &r->level[r->depth - 1] : NULL;
  if (!l) return GRPO_OK;
  if (l->map && l->wants_key) return refuse(r, "a key must be a text");
  if (!l->map && l->members++) buf_putc(r->out, ',');
  l->wants_key = l->map;
  return GRPO_OK;
}

static Status put_key(Reader *r, const char *s, size_t n, bool plain) {
  Level *l = &r->level[r->depth - 1];
  if (plain && n == 2 && memcmp(s, "<<", 2) == 0)
    return refuse(r, "merge keys (<<) are not read; write the fields out");
  try(note_key(r, l->id, s, n));
  if (l->members++) buf_putc(r->out, ',');
  json_put_string(r->out, s, n);
  buf_putc(r->out, ':');
  l->wants_key = false;
  return GRPO_OK;
}

/* A number may have been appended from there on; JSON's reader refuses one that no double holds. */
static Status check_number(const Reader *r, size_t from) {
  Json *j;
  const char *s = r->out->data + from;
  if (*s != '-' && (*s < '0' || *s > '9')) return GRPO_OK;
  const Status status = json_parse(s, r->out->len - from, "number", &j);
  json_free(j);
  return status == GRPO_EFORMAT ? refuse(r, "a number is too large") : status;
}

static Status scalar(Reader *r, const yaml_event_t *e) {
  const char *s = (const char *)e->data.scalar.value;
  const size_t n = e->data.scalar.length;
  const bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  const Level *l = r->depth ? &r->level[r->depth - 1] : NULL;
  if (l && l->map && l->wants_key) return put_key(r, s, n, plain);
  if (plain && among(s, n, not_finite)) return refuse(r, "a number must be finite");
  try(begin_value(r));
  const size_t from = r->out->len;
  if (plain)
    put_plain(r->out, s, n);
  else
    json_put_string(r->out, s, n);
  try(buf_status(r->out));
  return check_number(r, from);
}

static Status open_level(Reader *r, bool map) {
  if (r->depth == YAML_MAX_DEPTH) return refuse(r, "nested too deep");
  try(begin_value(r));
  buf_putc(r->out, map ? '{' : '[');
  r->level[r->depth++] = (Level){.map = map, .wants_key = map, .id = r->mappings++};
  return GRPO_OK;
}

static Status close_level(Reader *r) {
  buf_putc(r->out, r->level[--r->depth].map ? '}' : ']');
  return GRPO_OK;
}

/* The anchor and the tag of an event that may have them. */
static Status check_plain_event(const Reader *r, const void *anchor, const void *tag) {
  if (anchor) return refuse(r, "anchors (&) are not read; write the value out where it is used");
  if (tag) return refuse(r, "tags (!) are not read");
  return GRPO_OK;
}

static Status take(Reader *r, const yaml_event_t *e) {
  r->at = e->start_mark;
  switch (e->type) {
  case YAML_DOCUMENT_START_EVENT:
    return r->documents++ ? refuse(r, "a second document begins; a file has one") : GRPO_OK;
  case YAML_ALIAS_EVENT:
    return refuse(r, "aliases (*) are not read; write the value out");
  case YAML_SCALAR_EVENT:
    try(check_plain_event(r, e->data.scalar.anchor, e->data.scalar.tag));
    return scalar(r, e);
  case YAML_SEQUENCE_START_EVENT:
    try(check_plain_event(r, e->data.sequence_start.anchor, e->data.sequence_start.tag));
    return open_level(r, false);
  case YAML_MAPPING_START_EVENT:
    try(check_plain_event(r, e->data.mapping_start.anchor, e->data.mapping_start.tag));
    return open_level(r, true);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    return close_level(r);
  default:
    return GRPO_OK;
  }
}

static Status syntax_error(Reader *r, const yaml_parser_t *p) {
  if (p->error == YAML_MEMORY_ERROR) return fail(GRPO_ENOMEM, "%s: reading it", r->what);
  r->at = p->problem_mark;
  const char *problem = p->problem ? p->problem : "not YAML";
  if (!p->context || p->context_mark.line == r->at.line) return refuse(r, problem);
  return fail(GRPO_EFORMAT, "%s:%zu:%zu: %s, %s that begins at line %zu", r->what, r->at.line + 1,
              r->at.column + 1, problem, p->context, p->context_mark.line + 1);
}

static Status read_events(Reader *r, yaml_parser_t *p) {
  for (bool done = false; !done;) {
    yaml_event_t e;
    if (!lib.parse(p, &e)) return syntax_error(r, p);
    done = e.type == YAML_STREAM_END_EVENT;
    const Status s = take(r, &e);
    lib.event_delete(&e);
    try(s);
  }
  if (!r->documents) buf_puts(r->out, "null");
  return buf_status(r->out);
}

Status yaml_to_json(const char *text, size_t len, const char *what, Buf *json) {
  yaml_parser_t p;
  Reader r = {.what = what, .out = json};
  if (library_need(&libyaml, "YAML is not read"))
    return fail(GRPO_EARG, "%s: %s, or write the file as JSON", what, err_message());
  if (len > YAML_MAX_BYTES)
    return fail(GRPO_EFORMAT, "%s:1:1: it has %zu bytes; a YAML file has at most %d", what, len,
                YAML_MAX_BYTES);
  if (!lib.initialize(&p)) return fail(GRPO_ENOMEM, "%s: reading it", what);
  lib.set_encoding(&p, YAML_UTF8_ENCODING);
  lib.set_input(&p, (const unsigned char *)text, len);
  const Status s = read_events(&r, &p);
  lib.delete(&p);
  buf_free(&r.keys);
  map_free(&r.seen);
  return s;
}

#else

bool yaml_available(void) { return false; }

Status yaml_to_json(const char *text, size_t len, const char *what, Buf *json) {
  (void)text, (void)len, (void)json;
  return fail(
      GRPO_EARG,
      "%s: this program was built without libyaml, so it reads no YAML; install libyaml-dev "
      "and build it again, or write the file as JSON",
      what);
}

#endif

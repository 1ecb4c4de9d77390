/* postprocessor.c - follows a text through the post-processors, which change a list of parts.
 *
 * At first the text is the only part.  BertProcessing and RobertaProcessing put ids around each
 * part; TemplateProcessing makes a new list of its tokens and the old parts.
 */
#include "text/postprocessor.h"

#include <stdbool.h>
#include <string.h>

#include "text/component.h"

/* MAX_IDS bounds what Templates that double each other's parts can make. */
enum { MAX_PARTS = 64, MAX_IDS = 4096, TEXT = -1 };

/* The ids of all parts, with TEXT where the text is, and where each part ends. */
typedef struct Parts {
  IntBuf ids;
  size_t end[MAX_PARTS];
  int n;
} Parts;

typedef struct Reader {
  const Vocab *vocab;
  Parts parts;
} Reader;

static Status end_part(Parts *p) {
  if (p->n == MAX_PARTS || p->ids.len > MAX_IDS)
    return fail(GRPO_ELIMIT, "more than %d parts or %d ids", MAX_PARTS, MAX_IDS);
  p->end[p->n++] = p->ids.len;
  return intbuf_status(&p->ids);
}

static void put_part(Parts *to, const Parts *from, int i) {
  const size_t start = i ? from->end[i - 1] : 0;
  intbuf_append(&to->ids, from->ids.data + start, from->end[i] - start);
}

static Status read_id(const Vocab *v, const Json *j, int32_t *out) {
  int64_t id;
  if (!json_integer(j, &id) || id < 0 || id > VOCAB_MAX_ID || !vocab_entry(v, (int32_t)id))
    return fail(GRPO_EFORMAT, "not a token's id");
  *out = (int32_t)id;
  return GRPO_OK;
}

/* ---- TemplateProcessing --------------------------------------------------------------------- */

static Status put_special(const Reader *r, const Json *specials, const char *name, IntBuf *out) {
  const Json *ids = json_get(json_get(specials, name), "ids");
  if (!ids || json_type(ids) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "TemplateProcessing: special token \"%.60s\" has no ids", name);
  for (const Json *j = json_child(ids); j; j = json_next(j)) {
    int32_t id;
    if (read_id(r->vocab, j, &id) != GRPO_OK)
      return fail(GRPO_EFORMAT, "TemplateProcessing: an id of \"%.60s\" is not in the vocabulary",
                  name);
    intbuf_put(out, id);
  }
  return GRPO_OK;
}

/* Appends one piece of a template: a token, or one of the parts before. */
static Status put_piece(const Reader *r, const Json *j, const Json *piece, const char *key,
                        Parts *to) {
  const char *special = json_string(json_get(json_get(piece, "SpecialToken"), "id"));
  const char *sequence = json_string(json_get(json_get(piece, "Sequence"), "id"));
  if (special) return put_special(r, json_get(j, "special_tokens"), special, &to->ids);
  const bool second = sequence && strcmp(sequence, "B") == 0;
  if (!sequence || (!second && strcmp(sequence, "A") != 0))
    return fail(GRPO_EFORMAT, "TemplateProcessing: %s: want SpecialToken or Sequence", key);
  if (second && r->parts.n < 2)
    return fail(GRPO_EFORMAT, "TemplateProcessing: %s: there is no sequence B", key);
  put_part(to, &r->parts, second);
  return GRPO_OK;
}

static Status read_template(const Reader *r, const Json *j, Parts *to) {
  const char *key = r->parts.n == 2 ? "pair" : "single";
  const Json *list = json_get(j, key);
  if (r->parts.n > 2)
    return fail(GRPO_EFORMAT,
                "TemplateProcessing cannot stand after a post-processor that makes %d parts",
                r->parts.n);
  if (!list || json_type(list) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "TemplateProcessing: %s: want a list", key);
  for (const Json *piece = json_child(list); piece; piece = json_next(piece)) {
    try(put_piece(r, j, piece, key, to));
    try(end_part(to));
  }
  return GRPO_OK;
}

/* ---- BertProcessing and RobertaProcessing --------------------------------------------------- */

/* Reads cls or sep: a token and its id. */
static Status read_pair(const Reader *r, const Json *j, const char *key, int32_t *out) {
  const Json *pair = json_get(j, key);
  if (json_count(pair) == 2 && read_id(r->vocab, json_next(json_child(pair)), out) == GRPO_OK)
    return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s: want a token of the vocabulary and its id", component_type(j),
              key);
}

/* The first part gets cls before and sep after it; later ones get sep after them, and Roberta's
 * also before. */
static Status read_bert(const Reader *r, const Json *j, bool roberta, Parts *to) {
  int32_t cls, sep;
  try(read_pair(r, j, "cls", &cls));
  try(read_pair(r, j, "sep", &sep));
  for (int i = 0; i < r->parts.n; i++) {
    if (!i || roberta) intbuf_put(&to->ids, i ? sep : cls);
    put_part(to, &r->parts, i);
    intbuf_put(&to->ids, sep);
    try(end_part(to));
  }
  return GRPO_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static Status read_one(void *user, const Json *j) {
  Reader *r = user;
  const char *type = component_type(j);
  Parts to = {0};
  Status s = GRPO_OK;
  if (strcmp(type, "ByteLevel") == 0) return GRPO_OK; /* it changes offsets only */
  if (strcmp(type, "TemplateProcessing") == 0)
    s = read_template(r, j, &to);
  else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
    s = read_bert(r, j, *type == 'R', &to);
  else
    s = fail(GRPO_EFORMAT, "'%s' is not supported", type);
  intbuf_free(&r->parts.ids);
  r->parts = to;
  return s;
}

Status postprocessor_read(const Json *j, const Vocab *v, IntBuf *prefix, IntBuf *suffix) {
  Reader r = {.vocab = v};
  int texts = 0;
  intbuf_put(&r.parts.ids, TEXT);
  Status s = end_part(&r.parts);
  if (s == GRPO_OK) s = component_each(j, "processors", read_one, &r);
  for (size_t i = 0; i < r.parts.ids.len && s == GRPO_OK; i++)
    if (r.parts.ids.data[i] == TEXT)
      texts++;
    else
      intbuf_put(texts ? suffix : prefix, r.parts.ids.data[i]);
  intbuf_free(&r.parts.ids);
  if (s == GRPO_OK && texts != 1)
    s = fail(GRPO_EFORMAT, "a template holds %d sequences, want 1", texts);
  if (s == GRPO_OK) s = intbuf_status(prefix);
  return s == GRPO_OK ? intbuf_status(suffix) : s;
}

#include "text/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/component.h"
#include "text/subword.h"

static const double UNK_PENALTY = 10;

/* ---- the tree ---------------------------------------------------------------------------- */

struct UniNode {
  uint32_t child; /* the first child; the others follow, sorted by byte */
  uint16_t nchild;
  uint8_t byte; /* leads from the parent to this node */
  int32_t id;   /* the token that ends here, or -1 */
};

/* Tokens lo .. hi - 1, sorted by bytes, share the path of a node, which is `depth` bytes long. */
typedef struct Range {
  int32_t lo, hi, depth;
} Range;

typedef struct Text {
  const char *s;
  size_t n;
  int32_t id;
} Text;

static int by_bytes(const void *x, const void *y) {
  const Text *a = x, *b = y;
  const int order = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
  if (order) return order;
  if (a->n != b->n) return a->n < b->n ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Counts the nodes: one for every prefix of a token. */
static size_t count_nodes(const Text *text, int32_t n) {
  size_t count = 1;
  for (int32_t i = 0; i < n; i++) {
    size_t same = 0;
    while (i && same < text[i].n && same < text[i - 1].n && text[i].s[same] == text[i - 1].s[same])
      same++;
    count += text[i].n - same;
  }
  return count;
}

/* Builds level by level, so that the children of a node are neighbours. */
static void fill_nodes(UniNode *node, Range *range, const Text *text, int32_t n) {
  size_t end = 1;
  node[0] = (UniNode){.id = -1};
  range[0] = (Range){0, n, 0};
  for (size_t k = 0; k < end; k++) {
    Range r = range[k];
    if (r.lo < r.hi && text[r.lo].n == (size_t)r.depth) node[k].id = text[r.lo++].id;
    node[k].child = (uint32_t)end;
    for (int32_t i = r.lo, next; i < r.hi; i = next) {
      const uint8_t byte = (uint8_t)text[i].s[r.depth];
      for (next = i + 1; next < r.hi && (uint8_t)text[next].s[r.depth] == byte;) next++;
      range[end] = (Range){i, next, r.depth + 1};
      node[end++] = (UniNode){.byte = byte, .id = -1};
      node[k].nchild++;
    }
  }
}

static Status build_tree(Unigram *u, const Vocab *v) {
  Text *text = mem_alloc(((size_t)u->nscore + 1) * sizeof *text);
  int32_t n = 0;
  if (!text) return fail(GRPO_ENOMEM, "model");
  for (int32_t id = 0; id < u->nscore; id++) {
    const VocabEntry *e = vocab_entry(v, id);
    if (e && e->len) text[n++] = (Text){v->text.data + e->text, e->len, id};
  }
  qsort(text, (size_t)n, sizeof *text, by_bytes);
  const size_t count = count_nodes(text, n);
  Range *range = count <= UINT32_MAX ? mem_alloc(count * sizeof *range) : NULL;
  u->node = range ? mem_alloc(count * sizeof *u->node) : NULL;
  if (u->node) fill_nodes(u->node, range, text, n);
  mem_free(range);
  mem_free(text);
  return u->node ? GRPO_OK : fail(GRPO_ENOMEM, "model");
}

static const UniNode *step(const Unigram *u, const UniNode *at, uint8_t byte) {
  const UniNode *lo = u->node + at->child, *hi = lo + at->nchild;
  while (lo < hi) {
    const UniNode *mid = lo + (hi - lo) / 2;
    if (mid->byte == byte) return mid;
    if (mid->byte < byte)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

/* ---- reading ----------------------------------------------------------------------------- */

static Status read_entry(Unigram *u, Vocab *v, const Json *e) {
  const Json *token = json_type(e) == JSON_ARRAY ? json_child(e) : NULL;
  const Json *score = token ? json_next(token) : NULL;
  if (json_count(e) != 2 || !json_string(token) || json_type(score) != JSON_NUMBER ||
      !isfinite(json_number(score)))
    return fail(GRPO_EFORMAT, "want [token, score]");
  try(vocab_add(v, json_string(token), strlen(json_string(token)), u->nscore, TOKEN_MODEL));
  u->score[u->nscore++] = json_number(score);
  return GRPO_OK;
}

static Status read_entries(Unigram *u, Vocab *v, const Json *list) {
  if (!list || json_type(list) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "vocab: want a list of [token, score]");
  u->score = mem_alloc((json_count(list) + 1) * sizeof *u->score);
  if (!u->score) return fail(GRPO_ENOMEM, "vocab");
  Status s = GRPO_OK;
  for (const Json *e = json_child(list); e && s == GRPO_OK; e = json_next(e))
    if ((s = read_entry(u, v, e)) != GRPO_OK) err_context(s, "vocab: [%d]", (int)u->nscore);
  return s;
}

static Status read_options(Unigram *u, const Json *j) {
  const Json *unk = json_get(j, "unk_id");
  int64_t id = -1;
  if (!component_is_null(unk) && (!json_integer(unk, &id) || id < 0 || id >= u->nscore))
    return fail(GRPO_EFORMAT, "unk_id is not a position in the vocabulary");
  u->unk = (int32_t)id;
  return component_flag(j, "byte_fallback", false, &u->byte_fallback);
}

Status unigram_read(Unigram *u, Vocab *v, const Json *model) {
  try(read_entries(u, v, json_get(model, "vocab")));
  try(read_options(u, model));
  double least = INFINITY;
  for (int32_t i = 0; i < u->nscore; i++) least = fmin(least, u->score[i]);
  u->unk_score = least - UNK_PENALTY;
  for (int b = 0; b < 256; b++) {
    char code[8];
    snprintf(code, sizeof code, "<0x%02X>", (unsigned)b);
    u->byte[b] = subword_find(v, code, strlen(code));
  }
  return build_tree(u, v);
}

/* ---- the best path ----------------------------------------------------------------------- */

/* The best path to a position: its last token and where that begins; id UNREACHED: none yet. */
struct UniCell {
  double score;
  size_t start;
  int32_t id;
};
enum { UNREACHED = -2 };

static void offer(UniCell *to, double score, size_t start, int32_t id) {
  if (to->id == UNREACHED || score > to->score) *to = (UniCell){score, start, id};
}

/* Extends the best path to `at` by every token that begins there. */
static void extend(const Unigram *u, UniCell *cell, const char *s, size_t n, size_t at,
                   size_t width) {
  const UniNode *node = u->node;
  bool whole = false; /* the character is a token */
  for (size_t end = at; end < n && (node = step(u, node, (uint8_t)s[end]));) {
    end++;
    if (node->id < 0) continue;
    offer(&cell[end], cell[at].score + u->score[node->id], at, node->id);
    whole |= end - at == width;
  }
  if (!whole && u->unk >= 0) offer(&cell[at + width], cell[at].score + u->unk_score, at, u->unk);
}

static Status find_path(const Unigram *u, UniScratch *w, const char *s, size_t n) {
  if (n + 1 > w->cap) {
    UniCell *cell = mem_realloc(w->cell, (n + 1) * sizeof *cell);
    if (!cell) return fail(GRPO_ENOMEM, "tokenizer: a text of %zu bytes without a cut", n);
    w->cell = cell;
    w->cap = n + 1;
  }
  for (size_t i = 0; i <= n; i++) w->cell[i].id = UNREACHED;
  w->cell[0] = (UniCell){.id = -1};
  for (size_t at = 0, width; at < n; at += width) {
    uint32_t cp;
    bool valid;
    width = utf8_decode(s + at, n - at, &cp, &valid);
    if (w->cell[at].id != UNREACHED) extend(u, w->cell, s, n, at, width);
  }
  return GRPO_OK;
}

/* Appends a run of unknown characters, the last byte first. */
static void put_unknown(const Unigram *u, const Vocab *v, const char *s, size_t n, IntBuf *out) {
  const int32_t id = subword_find(v, s, n);
  bool bytes = u->byte_fallback && id < 0;
  for (size_t i = 0; i < n && bytes; i++) bytes = u->byte[(unsigned char)s[i]] >= 0;
  if (!bytes) intbuf_put(out, id >= 0 ? id : u->unk);
  for (size_t i = n; bytes && i-- > 0;) intbuf_put(out, u->byte[(unsigned char)s[i]]);
}

/* The path is followed from its end: ids are appended last first and then reversed. */
static void put_path(const Unigram *u, const Vocab *v, const UniCell *cell, const char *s, size_t n,
                     IntBuf *out) {
  const size_t before = out->len;
  for (size_t end = n, at; end > 0; end = at) {
    at = cell[end].start;
    if (cell[end].id != u->unk) {
      intbuf_put(out, cell[end].id);
      continue;
    }
    while (at > 0 && cell[at].id == u->unk) at = cell[at].start;
    put_unknown(u, v, s + at, end - at, out);
  }
  for (size_t i = before, k = out->len; i + 1 < k; i++) {
    const int32_t id = out->data[i];
    out->data[i] = out->data[--k];
    out->data[k] = id;
  }
}

Status unigram_encode(const Unigram *u, const Vocab *v, UniScratch *w, const char *s, size_t n,
                      IntBuf *out, size_t *unknown) {
  try(find_path(u, w, s, n));
  *unknown = n;
  while (w->cell[*unknown].id == UNREACHED) --*unknown;
  if (*unknown == n) put_path(u, v, w->cell, s, n, out);
  return GRPO_OK;
}

void unigram_free(Unigram *u) {
  mem_free(u->node);
  mem_free(u->score);
  u->node = NULL;
  u->score = NULL;
}

void uni_scratch_free(UniScratch *w) {
  mem_free(w->cell);
  *w = (UniScratch){0};
}

#include "parquet/parquet_schema.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "parquet/parquet_footer.h"
#include "parquet/row_sink.h"

enum { DEEPEST = ROW_DEEPEST / 2 - 2 }; /* a list has two levels of the schema, and one of a row */
#define MOST_ENTRIES ((int64_t)1 << 27) /* of a column in one row group */

typedef struct Builder {
  ParquetSchema *s;
  const char *what;
  ParquetElement *element;
  int count, at;
  Buf path;
} Builder;

static Status damaged(const char *what) {
  return fail(GRPO_EFORMAT,
              "%s: the footer of the Parquet file is damaged; fetch or write it again", what);
}

/* ---- the tree ------------------------------------------------------------ */

/* Names live in a buffer that may move while it grows: until the end they are offsets. */
static const char *name_at(size_t offset) { return (const char *)(uintptr_t)offset; }

static const char *keep_name(Builder *b, const char *s, size_t n) {
  const size_t at = b->s->names.len;
  buf_put(&b->s->names, s, n);
  buf_putc(&b->s->names, 0);
  return name_at(at);
}

static void name_pointers(ParquetSchema *s) {
  for (int i = 0; i < s->nodes; i++) s->node[i].name = s->names.data + (uintptr_t)s->node[i].name;
  for (int i = 0; i < s->leaves; i++) s->leaf[i].path = s->names.data + (uintptr_t)s->leaf[i].path;
}

static int new_node(Builder *b, const ParquetElement *e, int kind, bool optional, int def,
                    int rep) {
  ParquetNode *n = &b->s->node[b->s->nodes];
  *n = (ParquetNode){.kind = kind,
                     .optional = optional,
                     .def = def,
                     .rep = rep,
                     .child = -1,
                     .next = -1,
                     .leaf = b->s->leaves};
  n->name = keep_name(b, e->name, e->name_bytes);
  return b->s->nodes++;
}

static ParquetMeaning meaning_of(const ParquetElement *e) {
  const bool fixed = e->type == PARQUET_FIXED, bytes = e->type == PARQUET_BYTE_ARRAY;
  const bool whole = e->type == PARQUET_INT32 || e->type == PARQUET_INT64;
  switch (e->logical) {
  case LOGICAL_STRING:
  case LOGICAL_ENUM:
  case LOGICAL_JSON:
    return bytes ? MEANS_TEXT : MEANS_ITSELF;
  case LOGICAL_INTEGER:
    return whole && !e->is_signed ? MEANS_UNSIGNED : MEANS_ITSELF;
  case LOGICAL_DECIMAL:
    return whole || bytes || fixed ? MEANS_DECIMAL : MEANS_ITSELF;
  case LOGICAL_DATE:
    return e->type == PARQUET_INT32 ? MEANS_DATE : MEANS_ITSELF;
  case LOGICAL_TIME:
    return whole && e->per_second ? MEANS_TIME : MEANS_ITSELF;
  case LOGICAL_TIMESTAMP:
    return e->type == PARQUET_INT64 && e->per_second ? MEANS_TIMESTAMP : MEANS_ITSELF;
  case LOGICAL_UUID:
    return fixed && e->length == 16 ? MEANS_UUID : MEANS_ITSELF;
  case LOGICAL_HALF:
    return fixed && e->length == 2 ? MEANS_HALF : MEANS_ITSELF;
  case LOGICAL_INTERVAL:
    return MEANS_INTERVAL;
  default:
    return MEANS_ITSELF;
  }
}

static Status add_leaf(Builder *b, const ParquetElement *e, int def, int rep) {
  const bool fixed = e->type == PARQUET_FIXED;
  ParquetLeaf *l = &b->s->leaf[b->s->leaves];
  if (fixed && (e->length < 1 || e->length > 1 << 20)) return damaged(b->what);
  *l = (ParquetLeaf){.type = (ParquetType)e->type,
                     .meaning = meaning_of(e),
                     .length = fixed ? e->length : 0,
                     .scale = e->scale,
                     .per_second = e->per_second,
                     .utc = e->utc,
                     .max_def = def,
                     .max_rep = rep,
                     .top = b->s->columns};
  if (l->meaning == MEANS_DECIMAL && (e->scale < -255 || e->scale > 255)) return damaged(b->what);
  l->path = keep_name(b, b->path.data, b->path.len);
  b->s->leaves++;
  return GRPO_OK;
}

static Status build(Builder *b, int def, int rep, int depth, int *out);

static Status build_children(Builder *b, int parent, int count, int def, int rep, int depth) {
  int last = -1;
  for (int i = 0; i < count; i++) {
    int child;
    try(build(b, def, rep, depth + 1, &child));
    if (last < 0)
      b->s->node[parent].child = child;
    else
      b->s->node[last].next = child;
    last = child;
  }
  return GRPO_OK;
}

static Status build_present(Builder *b, const ParquetElement *e, bool optional, int def, int rep,
                            int depth, int *out);

/* Is the repeated group the element itself, and not a level around it?  Older writers do so. */
static bool is_element(const ParquetElement *list, const ParquetElement *r) {
  if (r->type >= 0 || r->children != 1) return true;
  if (r->name_bytes == 5 && memcmp(r->name, "array", 5) == 0) return true;
  return r->name_bytes == list->name_bytes + 6 &&
         memcmp(r->name, list->name, list->name_bytes) == 0 &&
         memcmp(r->name + list->name_bytes, "_tuple", 6) == 0;
}

/* A group annotated as a list or a map, whose repeated child is the next element. */
static Status build_repeated(Builder *b, const ParquetElement *e, bool optional, int def, int rep,
                             int depth, int *out) {
  const ParquetElement *r = &b->element[b->at++];
  const size_t path = b->path.len;
  int child;
  buf_putc(&b->path, '.');
  buf_put(&b->path, r->name, r->name_bytes);
  *out = new_node(b, e, PARQUET_LIST, optional, def, rep + 1);
  if (e->logical == LOGICAL_MAP && r->type < 0 && r->children == 2) {
    child = new_node(b, r, PARQUET_PAIR, false, def + 1, rep + 1);
    try(build_children(b, child, 2, def + 1, rep + 1, depth + 1));
    b->s->node[child].leaves = b->s->leaves - b->s->node[child].leaf;
  } else if (e->logical == LOGICAL_MAP || is_element(e, r)) {
    try(build_present(b, r, false, def + 1, rep + 1, depth + 1, &child));
  } else {
    try(build(b, def + 1, rep + 1, depth + 1, &child));
  }
  b->s->node[*out].child = child;
  b->path.len = path;
  return GRPO_OK;
}

/* The node of an element for which `optional` and `def` have been worked out. */
static Status build_present(Builder *b, const ParquetElement *e, bool optional, int def, int rep,
                            int depth, int *out) {
  const bool annotated = e->logical == LOGICAL_LIST || e->logical == LOGICAL_MAP;
  if (depth > DEEPEST)
    return fail(GRPO_EFORMAT, "%s: columns are nested deeper than %d levels", b->what, DEEPEST);
  if (e->type >= 0) {
    *out = new_node(b, e, PARQUET_LEAF, optional, def, rep);
    try(add_leaf(b, e, def, rep));
  } else if (e->children <= 0) {
    return fail(GRPO_EFORMAT, "%s: column '%.*s' is a group without fields, which is not read",
                b->what, (int)(b->path.len > 200 ? 200 : b->path.len), b->path.data);
  } else if (annotated && e->children == 1 && b->at < b->count &&
             b->element[b->at].repetition == PARQUET_REPEATED) {
    try(build_repeated(b, e, optional, def, rep, depth, out));
  } else {
    *out = new_node(b, e, PARQUET_STRUCT, optional, def, rep);
    try(build_children(b, *out, e->children, def, rep, depth));
  }
  b->s->node[*out].leaves = b->s->leaves - b->s->node[*out].leaf;
  return GRPO_OK;
}

/* The next element, with those below it. */
static Status build(Builder *b, int def, int rep, int depth, int *out) {
  if (b->at >= b->count) return damaged(b->what);
  const ParquetElement *e = &b->element[b->at++];
  const size_t path = b->path.len;
  if (path) buf_putc(&b->path, '.');
  buf_put(&b->path, e->name, e->name_bytes);
  if (!utf8_is_valid(e->name, e->name_bytes) || memchr(e->name, 0, e->name_bytes))
    return damaged(b->what);
  if (e->repetition == PARQUET_REPEATED) { /* a list without an annotation */
    int child;
    *out = new_node(b, e, PARQUET_LIST, false, def, rep + 1);
    try(build_present(b, e, false, def + 1, rep + 1, depth + 1, &child));
    b->s->node[*out].child = child;
    b->s->node[*out].leaves = b->s->leaves - b->s->node[*out].leaf;
  } else {
    const bool optional = e->repetition == PARQUET_OPTIONAL;
    try(build_present(b, e, optional, def + optional, rep, depth, out));
  }
  b->path.len = path;
  return GRPO_OK;
}

static Status build_tree(Builder *b) {
  ParquetSchema *s = b->s;
  const size_t n = (size_t)b->count;
  s->node = mem_zalloc((2 * n + 1) * sizeof *s->node); /* a repeated element has two */
  s->leaf = mem_zalloc((n + 1) * sizeof *s->leaf);
  s->top = mem_zalloc((n + 1) * sizeof *s->top);
  if (!s->node || !s->leaf || !s->top) return fail(GRPO_ENOMEM, "%s: its columns", b->what);
  if (b->element[0].type >= 0 || b->element[0].children < 0) return damaged(b->what);
  b->at = 1;
  for (int i = 0; i < b->element[0].children; i++) {
    b->path.len = 0;
    try(build(b, 0, 0, 0, &s->top[i]));
    s->columns++;
  }
  if (b->at != b->count) return damaged(b->what);
  try(buf_status(&s->names));
  try(buf_status(&b->path));
  if (s->nodes) name_pointers(s);
  return GRPO_OK;
}

static Status read_tree(Thrift *t, int type, ParquetSchema *s, const char *what) {
  int of;
  const size_t n = thrift_list(t, type, &of);
  if (t->bad || of != THRIFT_STRUCT || n < 1 || n > 100000 || s->node) return damaged(what);
  Builder b = {.s = s, .what = what, .count = (int)n};
  b.element = mem_alloc(n * sizeof *b.element);
  if (!b.element) return fail(GRPO_ENOMEM, "%s: its columns", what);
  for (size_t i = 0; i < n; i++) parquet_element(t, &b.element[i]);
  const Status status = t->bad ? damaged(what) : build_tree(&b);
  mem_free(b.element);
  buf_free(&b.path);
  return status;
}

/* ---- row groups ------------------------------------------------------------ */

static Status take_chunk(const ParquetSchema *s, int i, const ParquetChunkInfo *c, uint64_t data,
                         const char *what, ParquetChunk *out) {
  const ParquetLeaf *l = &s->leaf[i];
  int64_t at = c->data_at;
  if (c->elsewhere || c->encrypted)
    return fail(GRPO_EFORMAT, "%s: column '%s' is %s, which is not read; write the file again",
                what, l->path, c->encrypted ? "encrypted" : "in another file");
  if (c->dictionary_at > 0 && c->dictionary_at < at) at = c->dictionary_at;
  if (!c->values && c->type == (int)l->type) at = 4; /* some writers leave it out then */
  if (c->type != (int)l->type || at < 4 || c->bytes < 0 || c->values < 0 || (uint64_t)at > data ||
      (uint64_t)c->bytes > data - (uint64_t)at)
    return damaged(what);
  if (c->values > MOST_ENTRIES)
    return fail(GRPO_EFORMAT,
                "%s: column '%s' has %lld entries in one row group, and at most %lld are read; "
                "write the file with smaller row groups",
                what, l->path, (long long)c->values, (long long)MOST_ENTRIES);
  *out = (ParquetChunk){.at = (uint64_t)at,
                        .bytes = (uint64_t)c->bytes,
                        .values = c->values,
                        .codec = c->codec,
                        .type = c->type};
  return GRPO_OK;
}

static Status read_chunks(Thrift *t, int type, const ParquetSchema *s, ParquetGroup *g,
                          uint64_t data, const char *what) {
  int of;
  const size_t n = thrift_list(t, type, &of);
  if (t->bad || (n && of != THRIFT_STRUCT) || n != (size_t)s->leaves || g->chunk)
    return damaged(what);
  g->chunk = mem_zalloc((n + 1) * sizeof *g->chunk);
  if (!g->chunk) return fail(GRPO_ENOMEM, "%s: its columns", what);
  for (size_t i = 0; i < n; i++) {
    ParquetChunkInfo c;
    parquet_chunk_info(t, &c);
    if (t->bad) return damaged(what);
    try(take_chunk(s, (int)i, &c, data, what, &g->chunk[i]));
  }
  return GRPO_OK;
}

static Status read_group(Thrift *t, ParquetSchema *s, ParquetGroup *g, uint64_t data,
                         const char *what) {
  ThriftField f = {0, 0};
  int64_t rows = -1;
  while (thrift_field(t, &f)) {
    if (f.id == 1)
      try(read_chunks(t, f.type, s, g, data, what));
    else if (f.id == 3)
      rows = thrift_integer(t, f.type);
    else
      thrift_skip(t, f.type);
  }
  if (t->bad || !g->chunk || rows < 0 || rows > MOST_ENTRIES) return damaged(what);
  for (int i = 0; i < s->leaves; i++) {
    const int64_t values = g->chunk[i].values;
    if (s->leaf[i].max_rep ? values < rows : values != rows) return damaged(what);
  }
  g->first = s->rows;
  g->rows = (uint64_t)rows;
  s->rows += g->rows;
  return GRPO_OK;
}

static Status read_groups(Thrift *t, int type, ParquetSchema *s, uint64_t data, const char *what) {
  int of;
  const size_t n = thrift_list(t, type, &of);
  if (t->bad || (n && of != THRIFT_STRUCT) || !s->node || s->group) return damaged(what);
  s->group = mem_zalloc((n + 1) * sizeof *s->group);
  if (!s->group) return fail(GRPO_ENOMEM, "%s: its row groups", what);
  s->groups = n;
  for (size_t i = 0; i < n; i++) try(read_group(t, s, &s->group[i], data, what));
  return GRPO_OK;
}

Status parquet_schema_read(ParquetSchema *s, const uint8_t *footer, size_t n, uint64_t data,
                           const char *what) {
  Thrift t = {footer, footer + n, false};
  ThriftField f = {0, 0};
  *s = (ParquetSchema){0};
  while (thrift_field(&t, &f)) {
    if (f.id == 2)
      try(read_tree(&t, f.type, s, what));
    else if (f.id == 4)
      try(read_groups(&t, f.type, s, data, what));
    else
      thrift_skip(&t, f.type);
  }
  return t.bad || !s->node ? damaged(what) : GRPO_OK;
}

void parquet_schema_free(ParquetSchema *s) {
  for (size_t i = 0; i < s->groups; i++) mem_free(s->group[i].chunk);
  mem_free(s->group);
  mem_free(s->node);
  mem_free(s->leaf);
  mem_free(s->top);
  buf_free(&s->names);
  *s = (ParquetSchema){0};
}

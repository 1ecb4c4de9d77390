#include "parquet/parquet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "os/file.h"
#include "parquet/parquet_column.h"
#include "parquet/parquet_schema.h"
#include "parquet/scalar_text.h"

#define MOST_FOOTER ((uint32_t)256 << 20)

typedef struct Decoded {
  ParquetColumn *column; /* [leaves]; NULL: it is not in memory */
  uint64_t bytes, used;  /* used: the counter when it was read last */
} Decoded;

typedef struct Cursor {
  size_t entry, end, value;
} Cursor;

struct Parquet {
  char *path;
  FileInput *file;
  ParquetSchema schema;
  bool *left_out; /* [columns] */
  Decoded *group; /* [groups] */
  uint64_t cache, bytes, clock;
  Cursor *cursor; /* [leaves], in the row that is sent */
  uint64_t row;
  size_t current; /* the group of that row */
};

/* ---- opening ------------------------------------------------------------ */

static Status read_footer(Parquet *p) {
  const uint64_t size = file_input_size(p->file);
  uint8_t tail[8];
  uint32_t n;
  if (size < PARQUET_MIN_BYTES)
    return fail(GRPO_EFORMAT, "%s: it has %llu bytes, which are no Parquet file", p->path,
                (unsigned long long)size);
  try(file_input_read(p->file, size - 8, 8, tail));
  memcpy(&n, tail, sizeof n);
  if (memcmp(tail + 4, "PARE", 4) == 0)
    return fail(GRPO_EFORMAT, "%s: the Parquet file is encrypted; write it again without", p->path);
  if (memcmp(tail + 4, "PAR1", 4) != 0)
    return fail(GRPO_EFORMAT,
                "%s: it does not end as a Parquet file does; it is another file or cut short",
                p->path);
  if (n > size - PARQUET_MIN_BYTES || n > MOST_FOOTER)
    return fail(GRPO_EFORMAT,
                "%s: the footer of the Parquet file is damaged; fetch or write it again", p->path);
  uint8_t *footer = mem_alloc((size_t)n + 1);
  if (!footer) return fail(GRPO_ENOMEM, "%s: its footer of %u bytes", p->path, n);
  Status s = file_input_read(p->file, size - 8 - n, n, footer);
  if (!s) s = parquet_schema_read(&p->schema, footer, n, size - 8 - n, p->path);
  mem_free(footer);
  return s;
}

static Status open_file(Parquet *p, const char *path) {
  p->path = mem_strdup(path);
  if (!p->path) return fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  try(file_input_open(&p->file, path));
  try(read_footer(p));
  const ParquetSchema *s = &p->schema;
  p->left_out = mem_zalloc((size_t)s->columns + 1);
  p->group = mem_zalloc((s->groups + 1) * sizeof *p->group);
  p->cursor = mem_zalloc(((size_t)s->leaves + 1) * sizeof *p->cursor);
  if (!p->left_out || !p->group || !p->cursor)
    return fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  return GRPO_OK;
}

Status parquet_open(Parquet **out, const char *path) {
  Parquet *p = mem_zalloc(sizeof *p);
  *out = NULL;
  if (!p) return fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  const Status s = open_file(p, path);
  if (s != GRPO_OK)
    parquet_close(p);
  else
    *out = p;
  return s;
}

static void forget_group(Parquet *p, Decoded *d) {
  for (int i = 0; d->column && i < p->schema.leaves; i++) parquet_column_free(&d->column[i]);
  mem_free(d->column);
  p->bytes -= d->bytes;
  *d = (Decoded){0};
}

void parquet_forget(Parquet *p) {
  for (size_t g = 0; p->group && g < p->schema.groups; g++) forget_group(p, &p->group[g]);
}

void parquet_close(Parquet *p) {
  if (!p) return;
  parquet_forget(p);
  mem_free(p->group);
  mem_free(p->cursor);
  mem_free(p->left_out);
  parquet_schema_free(&p->schema);
  file_input_close(p->file);
  mem_free(p->path);
  mem_free(p);
}

uint64_t parquet_rows(const Parquet *p) { return p->schema.rows; }
int parquet_columns(const Parquet *p) { return p->schema.columns; }
const char *parquet_column_name(const Parquet *p, int i) {
  return p->schema.node[p->schema.top[i]].name;
}
void parquet_leave_out(Parquet *p, int i) { p->left_out[i] = true; }
void parquet_set_cache(Parquet *p, uint64_t bytes) { p->cache = bytes; }
uint64_t parquet_cached(const Parquet *p) { return p->bytes; }

/* ---- row groups ------------------------------------------------------------ */

static Status read_leaf(Parquet *p, size_t g, int i, ParquetColumn *column) {
  const ParquetLeaf *leaf = &p->schema.leaf[i];
  const ParquetChunk *chunk = &p->schema.group[g].chunk[i];
  char what[512];
  snprintf(what, sizeof what, "%.300s: column '%.100s', row group %zu", p->path, leaf->path, g + 1);
  if (leaf->meaning == MEANS_INTERVAL)
    return fail(GRPO_EFORMAT,
                "%s: intervals are not read; leave the column out by naming the others", what);
  uint8_t *data = mem_alloc((size_t)chunk->bytes + 1);
  if (!data) return fail(GRPO_ENOMEM, "%s: its %llu bytes", what, (unsigned long long)chunk->bytes);
  Status s = file_input_read(p->file, chunk->at, (size_t)chunk->bytes, data);
  if (!s) s = parquet_column_read(column, leaf, chunk, p->schema.group[g].rows, data, what);
  mem_free(data);
  return s;
}

static Status read_group(Parquet *p, size_t g, Decoded *d) {
  const ParquetSchema *s = &p->schema;
  d->column = mem_zalloc(((size_t)s->leaves + 1) * sizeof *d->column);
  if (!d->column) return fail(GRPO_ENOMEM, "%s: no memory for a row group", p->path);
  for (int i = 0; i < s->leaves; i++) {
    if (p->left_out[s->leaf[i].top]) continue;
    try(read_leaf(p, g, i, &d->column[i]));
    d->bytes += parquet_column_memory(&d->column[i], s->group[g].rows);
  }
  return GRPO_OK;
}

/* Frees the groups that were read longest ago until the cache holds the others beside group g. */
static void make_room(Parquet *p, size_t g) {
  while (p->bytes - p->group[g].bytes > p->cache) {
    Decoded *oldest = NULL;
    for (size_t i = 0; i < p->schema.groups; i++) {
      Decoded *d = &p->group[i];
      if (d->column && i != g && (!oldest || d->used < oldest->used)) oldest = d;
    }
    if (!oldest) return;
    forget_group(p, oldest);
  }
}

static Status need_group(Parquet *p, size_t g) {
  Decoded *d = &p->group[g];
  if (!d->column) {
    const Status s = read_group(p, g, d);
    p->bytes += d->bytes;
    if (s) {
      forget_group(p, d);
      return s;
    }
    make_room(p, g);
  }
  d->used = ++p->clock;
  return GRPO_OK;
}

static size_t group_of(const ParquetSchema *s, uint64_t row) {
  size_t low = 0, high = s->groups - 1;
  while (low < high) {
    const size_t mid = (low + high + 1) / 2;
    if (s->group[mid].first <= row)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* ---- values ------------------------------------------------------------ */

static Status bad_row(const Parquet *p, int leaf, const char *why) {
  return fail(GRPO_EFORMAT, "%s: column '%s', row %llu: %s", p->path, p->schema.leaf[leaf].path,
              (unsigned long long)p->row + 1, why);
}

static int64_t whole(const ParquetLeaf *l, const uint8_t *at) {
  int64_t wide;
  int32_t narrow;
  if (l->type == PARQUET_INT64) {
    memcpy(&wide, at, sizeof wide);
    return wide;
  }
  memcpy(&narrow, at, sizeof narrow);
  return l->meaning == MEANS_UNSIGNED ? (int64_t)(uint32_t)narrow : narrow;
}

static void put_whole(const ParquetLeaf *l, int64_t v, const RowSink *to) {
  if (l->meaning == MEANS_UNSIGNED && v < 0) /* more than a signed integer holds */
    row_put(to, (RowEvent){.kind = ROW_NUMBER, .number = (double)(uint64_t)v});
  else
    row_put(to, (RowEvent){.kind = ROW_INTEGER, .integer = v});
}

static void put_real(const ParquetLeaf *l, const uint8_t *at, const RowSink *to) {
  float f;
  double d;
  memcpy(&f, at, sizeof f);
  if (l->type == PARQUET_DOUBLE) memcpy(&d, at, sizeof d);
  row_put(to, (RowEvent){.kind = ROW_NUMBER, .number = l->type == PARQUET_DOUBLE ? d : (double)f});
}

/* The old timestamps: nanoseconds of a day, and its Julian number. */
static bool int96_text(const uint8_t *at, char *text) {
  int64_t ns;
  uint32_t julian;
  memcpy(&ns, at, sizeof ns);
  memcpy(&julian, at + 8, sizeof julian);
  return day_and_ns_text((int64_t)julian - 2440588, ns, text);
}

static bool decimal(const ParquetLeaf *l, const uint8_t *at, size_t n, char *text) {
  uint8_t highest_first[8];
  if (l->type == PARQUET_FIXED || l->type == PARQUET_BYTE_ARRAY) {
    if (n > DECIMAL_BYTES) return false;
    decimal_text(at, n, l->scale, text);
    return true;
  }
  for (size_t i = 0; i < n; i++) highest_first[i] = at[n - 1 - i];
  decimal_text(highest_first, n, l->scale, text);
  return true;
}

/* The value as text, when its meaning asks for that. */
static bool meaning_text(const ParquetLeaf *l, const uint8_t *at, size_t n, char *text) {
  switch (l->meaning) {
  case MEANS_DECIMAL:
    return decimal(l, at, n, text);
  case MEANS_DATE:
    return date_text(whole(l, at), text);
  case MEANS_TIME:
    return time_text(whole(l, at), l->per_second, text);
  case MEANS_TIMESTAMP:
    return timestamp_text(whole(l, at), l->per_second, l->utc, text);
  case MEANS_UUID:
    uuid_text(at, text);
    return true;
  default:
    return int96_text(at, text);
  }
}

static Status put_bytes(const Parquet *p, int leaf, const uint8_t *at, size_t n,
                        const RowSink *to) {
  if (p->schema.leaf[leaf].meaning == MEANS_TEXT && !utf8_is_valid((const char *)at, n))
    return bad_row(p, leaf, "its text is not UTF-8");
  row_text(to, (const char *)at, n);
  return GRPO_OK;
}

/* Sends the i-th value of a leaf. */
static Status put_value(const Parquet *p, int leaf, size_t i, const RowSink *to) {
  const ParquetLeaf *l = &p->schema.leaf[leaf];
  const ParquetValues *v = &p->group[p->current].column[leaf].values;
  char text[SCALAR_TEXT_BYTES];
  if (i >= v->count) return bad_row(p, leaf, "its value is missing");
  const uint8_t *at = v->width ? v->fixed + i * v->width : v->bytes + v->span[i].at;
  const size_t n = v->width ? v->width : (size_t)v->span[i].n;
  if (l->type == PARQUET_INT96 || (l->meaning >= MEANS_DECIMAL && l->meaning <= MEANS_UUID)) {
    if (!meaning_text(l, at, n, text)) return bad_row(p, leaf, "its value is out of range");
    row_text(to, text, strlen(text));
    return GRPO_OK;
  }
  if (l->meaning == MEANS_HALF) {
    const double half = half_number((uint16_t)(at[0] | at[1] << 8));
    row_put(to, (RowEvent){.kind = ROW_NUMBER, .number = half});
    return GRPO_OK;
  }
  if (l->type == PARQUET_BOOLEAN)
    row_put(to, (RowEvent){.kind = ROW_BOOL, .boolean = *at != 0});
  else if (l->type == PARQUET_INT32 || l->type == PARQUET_INT64)
    put_whole(l, whole(l, at), to);
  else if (l->type == PARQUET_FLOAT || l->type == PARQUET_DOUBLE)
    put_real(l, at, to);
  else
    return put_bytes(p, leaf, at, n, to);
  return GRPO_OK;
}

/* ---- rows ------------------------------------------------------------ */

static const ParquetColumn *column_of(const Parquet *p, int leaf) {
  return &p->group[p->current].column[leaf];
}

static const char disagree[] = "its levels do not agree with those of the columns beside it";

/* The definition level of the next entry, which must be there. */
static Status level(const Parquet *p, int leaf, int *def) {
  const ParquetColumn *c = column_of(p, leaf);
  const Cursor *at = &p->cursor[leaf];
  if (at->entry >= at->end) return bad_row(p, leaf, disagree);
  *def = c->def ? c->def[at->entry] : 0;
  return GRPO_OK;
}

/* Passes over one entry of each leaf, none of which has a value. */
static Status skip(Parquet *p, const ParquetNode *n) {
  for (int i = n->leaf; i < n->leaf + n->leaves; i++) {
    int def = 0;
    try(level(p, i, &def));
    if (def >= p->schema.leaf[i].max_def) return bad_row(p, i, disagree);
    p->cursor[i].entry++;
  }
  return GRPO_OK;
}

/* Does the list go on?  All leaves must agree. */
static Status goes_on(const Parquet *p, const ParquetNode *n, bool *more) {
  for (int i = n->leaf; i < n->leaf + n->leaves; i++) {
    const ParquetColumn *c = column_of(p, i);
    const Cursor *at = &p->cursor[i];
    const bool here = at->entry < at->end && c->rep[at->entry] == n->rep;
    if (i > n->leaf && here != *more) return bad_row(p, i, disagree);
    *more = here;
  }
  return GRPO_OK;
}

static Status put_node(Parquet *p, const ParquetNode *n, const RowSink *to);

static Status put_list(Parquet *p, const ParquetNode *n, int def, const RowSink *to) {
  bool more = def > n->def;
  row_put(to, (RowEvent){.kind = ROW_LIST});
  if (!more) try(skip(p, n));
  while (more) {
    try(put_node(p, &p->schema.node[n->child], to));
    try(goes_on(p, n, &more));
  }
  row_put(to, (RowEvent){.kind = ROW_END});
  return GRPO_OK;
}

static Status put_members(Parquet *p, const ParquetNode *n, const RowSink *to) {
  const bool pair = n->kind == PARQUET_PAIR;
  row_put(to, (RowEvent){.kind = pair ? ROW_LIST : ROW_OBJECT});
  for (int i = n->child; i >= 0; i = p->schema.node[i].next) {
    const ParquetNode *member = &p->schema.node[i];
    if (!pair)
      row_put(to, (RowEvent){.kind = ROW_KEY, .s = member->name, .n = strlen(member->name)});
    try(put_node(p, member, to));
  }
  row_put(to, (RowEvent){.kind = ROW_END});
  return GRPO_OK;
}

static Status put_leaf(Parquet *p, const ParquetNode *n, const RowSink *to) {
  Cursor *at = &p->cursor[n->leaf];
  at->entry++;
  return put_value(p, n->leaf, at->value++, to);
}

static Status put_node(Parquet *p, const ParquetNode *n, const RowSink *to) {
  int def = 0;
  try(level(p, n->leaf, &def));
  if (def < n->def) {
    /* a node that must be there is missing with the optional one around it, which was sent */
    if (!n->optional) return bad_row(p, n->leaf, disagree);
    row_put(to, (RowEvent){.kind = ROW_NULL});
    return skip(p, n);
  }
  if (n->kind == PARQUET_LEAF) return put_leaf(p, n, to);
  return n->kind == PARQUET_LIST ? put_list(p, n, def, to) : put_members(p, n, to);
}

/* Puts the cursors of a column's leaves at the row, and sends what is there. */
static Status put_column(Parquet *p, const ParquetNode *n, uint64_t in_group, const RowSink *to) {
  for (int i = n->leaf; i < n->leaf + n->leaves; i++) {
    const ParquetColumn *c = column_of(p, i);
    p->cursor[i] =
        (Cursor){.entry = c->first_entry ? c->first_entry[in_group] : (size_t)in_group,
                 .end = c->first_entry ? c->first_entry[in_group + 1] : (size_t)in_group + 1,
                 .value = c->first_value ? c->first_value[in_group] : (size_t)in_group};
  }
  row_put(to, (RowEvent){.kind = ROW_KEY, .s = n->name, .n = strlen(n->name)});
  try(put_node(p, n, to));
  for (int i = n->leaf; i < n->leaf + n->leaves; i++)
    if (p->cursor[i].entry != p->cursor[i].end) return bad_row(p, i, disagree);
  return GRPO_OK;
}

Status parquet_row(Parquet *p, uint64_t i, const RowSink *to) {
  const ParquetSchema *s = &p->schema;
  if (i >= s->rows)
    return fail(GRPO_EARG, "%s: it has no row %llu", p->path, (unsigned long long)i + 1);
  p->row = i;
  p->current = group_of(s, i);
  try(need_group(p, p->current));
  row_put(to, (RowEvent){.kind = ROW_OBJECT});
  for (int k = 0; k < s->columns; k++)
    if (!p->left_out[k])
      try(put_column(p, &s->node[s->top[k]], i - s->group[p->current].first, to));
  row_put(to, (RowEvent){.kind = ROW_END});
  return GRPO_OK;
}

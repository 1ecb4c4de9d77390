#include "parquet/parquet_column.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parquet/decompress.h"
#include "parquet/parquet_footer.h"
#include "parquet/parquet_levels.h"

#define MOST_PAGE ((int64_t)1 << 30) /* bytes */

enum {
  ENCODING_PLAIN = 0,
  ENCODING_PLAIN_DICTIONARY = 2,
  ENCODING_RLE = 3,
  ENCODING_DELTA = 5,
  ENCODING_DELTA_LENGTH = 6,
  ENCODING_DELTA_BYTES = 7,
  ENCODING_DICTIONARY = 8,
  ENCODING_SPLIT = 9
};

typedef struct Reader {
  ParquetColumn *c;
  const ParquetLeaf *leaf;
  const ParquetChunk *chunk;
  const char *what;
  Thrift t; /* at the next page */
  int page;
  ParquetPage head;
  uint8_t *body; /* of the page, when it had to be decompressed */
  size_t body_room;
  ParquetValues dictionary;
  bool has_dictionary;
  uint64_t base; /* of the dictionary's bytes in the column's */
} Reader;

static Status refuse(const Reader *r, const char *why) {
  if (why == parquet_no_memory)
    return fail(GRPO_ENOMEM, "%s, page %d: %s; name the columns that you need", r->what, r->page,
                why);
  return fail(GRPO_EFORMAT, "%s, page %d: %s", r->what, r->page, why);
}

/* ---- bodies of pages ------------------------------------------------------------ */

static Status codec_of(const Reader *r, Codec *codec) {
  static const char *const names[] = {"", "", "", "LZO", "Brotli", "LZ4", "", "LZ4_RAW"};
  const int c = r->chunk->codec;
  *codec = c == 1 ? CODEC_SNAPPY : c == 2 ? CODEC_GZIP : c == 6 ? CODEC_ZSTD : CODEC_NONE;
  if (c == 0 || *codec != CODEC_NONE) return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: compressed by %s, which is not read; write the file with snappy, zstd or gzip "
              "(pyarrow: compression=\"zstd\")",
              r->what, c > 0 && c < 8 ? names[c] : "an unknown codec");
}

/* Decompresses n bytes into `want`, behind those that are there already. */
static Status decompress(Reader *r, const uint8_t *in, size_t n, size_t at, size_t want) {
  Codec codec;
  char what[512];
  try(codec_of(r, &codec));
  snprintf(what, sizeof what, "%s, page %d", r->what, r->page);
  if (want > DECOMPRESS_FREE && want / DECOMPRESS_RATIO > n)
    return refuse(r, "its header asks for a thousand times its bytes");
  if (!want) return GRPO_OK;
  return decompress_block(codec, in, n, r->body + at, want, what);
}

static Status body_room(Reader *r, size_t n) {
  if (n <= r->body_room) return GRPO_OK;
  mem_free(r->body);
  r->body_room = 0;
  r->body = mem_alloc(n);
  if (!r->body) return refuse(r, parquet_no_memory);
  r->body_room = n;
  return GRPO_OK;
}

/* Makes *p .. *end the body of the page.  The levels of V2 are never compressed. */
static Status body_of(Reader *r, const uint8_t *in, const uint8_t **p, const uint8_t **end) {
  const ParquetPage *h = &r->head;
  const bool v2 = h->type == PAGE_DATA_V2;
  const size_t n = (size_t)h->compressed, want = (size_t)h->bytes;
  const size_t levels = v2 ? (size_t)(h->def_bytes + h->rep_bytes) : 0;
  const bool stored = r->chunk->codec == 0 || (v2 && !h->is_compressed);
  *p = in;
  *end = in + n;
  if (stored) return n == want ? GRPO_OK : refuse(r, "its header is damaged");
  try(body_room(r, want + 1));
  if (levels) memcpy(r->body, in, levels);
  try(decompress(r, in + levels, n - levels, levels, want - levels));
  *p = r->body;
  *end = r->body + want;
  return GRPO_OK;
}

/* ---- levels ------------------------------------------------------------ */

/* Reads the levels of a page's entries; false if they are damaged. */
static bool read_levels(const uint8_t *p, const uint8_t *end, int max, uint8_t *out, size_t n) {
  uint32_t level[1024];
  Hybrid h = hybrid(p, end, level_width(max));
  while (n) {
    const size_t step = n < 1024 ? n : 1024;
    if (!hybrid_read(&h, level, step)) return false;
    for (size_t i = 0; i < step; i++) {
      if (level[i] > (uint32_t)max) return false;
      out[i] = (uint8_t)level[i];
    }
    out += step;
    n -= step;
  }
  return true;
}

/* Levels of V1 begin with their length; *p moves behind them. */
static Status levels_v1(Reader *r, const uint8_t **p, const uint8_t *end, int encoding, int max,
                        uint8_t *out) {
  uint32_t n;
  if (encoding != ENCODING_RLE)
    return refuse(r, "its levels are in the old encoding BIT_PACKED, which is not read; write the "
                     "file again");
  if (end - *p < 4) return refuse(r, "its levels are damaged");
  memcpy(&n, *p, sizeof n);
  *p += 4;
  if (n > (size_t)(end - *p) || !read_levels(*p, *p + n, max, out, (size_t)r->head.values))
    return refuse(r, "its levels are damaged");
  *p += n;
  return GRPO_OK;
}

static Status levels_v2(Reader *r, const uint8_t **p, uint8_t *rep, uint8_t *def) {
  const size_t n = (size_t)r->head.values;
  const uint8_t *middle = *p + r->head.rep_bytes, *end = middle + r->head.def_bytes;
  if (rep && !read_levels(*p, middle, r->leaf->max_rep, rep, n))
    return refuse(r, "its levels are damaged");
  if (def && !read_levels(middle, end, r->leaf->max_def, def, n))
    return refuse(r, "its levels are damaged");
  *p = end;
  return GRPO_OK;
}

/* Reads the levels of a data page; *present: how many of its entries have a value. */
static Status page_levels(Reader *r, const uint8_t **p, const uint8_t *end, size_t *present) {
  ParquetColumn *c = r->c;
  const size_t n = (size_t)r->head.values;
  uint8_t *rep = c->rep ? c->rep + c->entries : NULL, *def = c->def ? c->def + c->entries : NULL;
  if (r->head.type == PAGE_DATA_V2) {
    try(levels_v2(r, p, rep, def));
  } else {
    if (rep) try(levels_v1(r, p, end, r->head.rep_encoding, r->leaf->max_rep, rep));
    if (def) try(levels_v1(r, p, end, r->head.def_encoding, r->leaf->max_def, def));
  }
  *present = n;
  if (!def) return GRPO_OK;
  *present = 0;
  for (size_t i = 0; i < n; i++) *present += def[i] == r->leaf->max_def;
  return GRPO_OK;
}

/* ---- pages ------------------------------------------------------------ */

static Refusal page_values(Reader *r, const uint8_t *p, const uint8_t *end, size_t n) {
  ParquetValues *v = &r->c->values;
  if (!n) return NULL;
  switch (r->head.encoding) {
  case ENCODING_PLAIN:
    return values_plain(v, p, end, n);
  case ENCODING_PLAIN_DICTIONARY:
  case ENCODING_DICTIONARY:
    if (!r->has_dictionary) return "its dictionary is missing";
    return values_indexed(v, &r->dictionary, r->base, p, end, n);
  case ENCODING_RLE:
    return values_runs(v, p, end, n);
  case ENCODING_DELTA:
    return values_delta(v, p, end, n);
  case ENCODING_DELTA_LENGTH:
    return values_delta_length(v, p, end, n);
  case ENCODING_DELTA_BYTES:
    return values_delta_bytes(v, p, end, n);
  case ENCODING_SPLIT:
    return values_split(v, p, end, n);
  default:
    return "its encoding is not known; write the file again with use_dictionary or PLAIN";
  }
}

static Status data_page(Reader *r, const uint8_t *p, const uint8_t *end) {
  size_t present;
  if ((uint64_t)r->head.values > (uint64_t)r->chunk->values - r->c->entries)
    return refuse(r, "it has more entries than its row group");
  try(page_levels(r, &p, end, &present));
  const Refusal why = page_values(r, p, end, present);
  if (why) return refuse(r, why);
  r->c->entries += (size_t)r->head.values;
  return GRPO_OK;
}

static Status dictionary_page(Reader *r, const uint8_t *p, const uint8_t *end) {
  if (r->has_dictionary) return refuse(r, "it is a second dictionary");
  if (r->head.encoding != ENCODING_PLAIN && r->head.encoding != ENCODING_PLAIN_DICTIONARY)
    return refuse(r, "its dictionary has an unknown encoding");
  r->dictionary = parquet_values(r->leaf->type, r->leaf->length);
  Refusal why = values_plain(&r->dictionary, p, end, (size_t)r->head.values);
  if (!why) why = values_adopt(&r->c->values, &r->dictionary, &r->base);
  r->has_dictionary = true;
  return why ? refuse(r, why) : GRPO_OK;
}

static Status check_head(Reader *r, const uint8_t *end) {
  const ParquetPage *h = &r->head;
  if (r->t.bad || h->bytes < 0 || h->compressed < 0 || h->compressed > end - r->t.p)
    return refuse(r, "its header is damaged");
  if (h->bytes > MOST_PAGE) return refuse(r, "it has more than 1 GB; write smaller pages");
  if (h->type == PAGE_INDEX) return GRPO_OK;
  if (h->values < 0 || h->values > INT32_MAX) return refuse(r, "its header is damaged");
  if (h->type != PAGE_DATA_V2) return GRPO_OK;
  if (h->def_bytes < 0 || h->rep_bytes < 0 || h->def_bytes > h->compressed ||
      h->rep_bytes > h->compressed - h->def_bytes || h->def_bytes + h->rep_bytes > h->bytes)
    return refuse(r, "its header is damaged");
  return GRPO_OK;
}

static Status next_page(Reader *r) {
  const uint8_t *p, *end;
  r->page++;
  if (r->t.p == r->t.end) return refuse(r, "the column ends before its last row");
  parquet_page_header(&r->t, &r->head);
  try(check_head(r, r->t.end));
  const uint8_t *in = r->t.p;
  r->t.p += r->head.compressed;
  if (r->head.type == PAGE_INDEX) return GRPO_OK;
  try(body_of(r, in, &p, &end));
  return (r->head.type == PAGE_DICTIONARY ? dictionary_page : data_page)(r, p, end);
}

/* ---- the column ------------------------------------------------------------ */

static Status find_rows(const Reader *r, uint64_t rows) {
  ParquetColumn *c = r->c;
  uint64_t row = 0;
  uint32_t value = 0;
  if (!c->def && !c->rep) return GRPO_OK;
  c->first_value = mem_alloc((rows + 1) * sizeof *c->first_value);
  if (c->rep) c->first_entry = mem_alloc((rows + 1) * sizeof *c->first_entry);
  if (!c->first_value || (c->rep && !c->first_entry)) return refuse(r, parquet_no_memory);
  for (size_t i = 0; i < c->entries; i++) {
    if (!c->rep || c->rep[i] == 0) {
      if (row == rows) return refuse(r, "it has more rows than its row group");
      if (c->rep) c->first_entry[row] = (uint32_t)i;
      c->first_value[row++] = value;
    } else if (row == 0) {
      return refuse(r, "its first entry continues a row");
    }
    value += !c->def || c->def[i] == r->leaf->max_def;
  }
  if (row != rows) return refuse(r, "it has fewer rows than its row group");
  if (c->rep) c->first_entry[rows] = (uint32_t)c->entries;
  c->first_value[rows] = value;
  return GRPO_OK;
}

static Status read_pages(Reader *r, uint64_t rows) {
  ParquetColumn *c = r->c;
  const size_t n = (size_t)r->chunk->values + 1;
  if (r->leaf->max_def) c->def = mem_alloc(n);
  if (r->leaf->max_rep) c->rep = mem_alloc(n);
  if ((r->leaf->max_def && !c->def) || (r->leaf->max_rep && !c->rep))
    return refuse(r, parquet_no_memory);
  while (c->entries < (size_t)r->chunk->values) try(next_page(r));
  return find_rows(r, rows);
}

Status parquet_column_read(ParquetColumn *c, const ParquetLeaf *leaf, const ParquetChunk *chunk,
                           uint64_t rows, const uint8_t *data, const char *what) {
  Reader r = {
      .c = c, .leaf = leaf, .chunk = chunk, .what = what, .t = {data, data + chunk->bytes, false}};
  *c = (ParquetColumn){.values = parquet_values(leaf->type, leaf->length)};
  const Status s = read_pages(&r, rows);
  mem_free(r.body);
  parquet_values_free(&r.dictionary);
  return s;
}

void parquet_column_free(ParquetColumn *c) {
  mem_free(c->def);
  mem_free(c->rep);
  mem_free(c->first_entry);
  mem_free(c->first_value);
  parquet_values_free(&c->values);
  *c = (ParquetColumn){0};
}

uint64_t parquet_column_memory(const ParquetColumn *c, uint64_t rows) {
  const uint64_t levels = (uint64_t)(c->def != NULL) + (c->rep != NULL);
  const uint64_t starts = (uint64_t)(c->first_entry != NULL) + (c->first_value != NULL);
  return levels * c->entries + 4 * starts * rows + parquet_values_memory(&c->values);
}

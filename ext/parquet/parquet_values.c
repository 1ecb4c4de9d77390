#include "parquet/parquet_values.h"

#include <string.h>

#include "base/mem.h"
#include "parquet/parquet_delta.h"
#include "parquet/parquet_levels.h"

const char parquet_no_memory[] = "there is no memory for its values";
static const char cut_short[] = "its values end early";
static const char wrong_type[] = "its encoding does not suit its type";
static const char too_large[] = "its values take more than 4 GB; write smaller row groups";

/* ---- memory ------------------------------------------------------------ */

static size_t width_of(ParquetType type, int length) {
  switch (type) {
  case PARQUET_BOOLEAN:
    return 1;
  case PARQUET_INT32:
  case PARQUET_FLOAT:
    return 4;
  case PARQUET_INT64:
  case PARQUET_DOUBLE:
    return 8;
  case PARQUET_INT96:
    return 12;
  case PARQUET_FIXED:
    return (size_t)length;
  case PARQUET_BYTE_ARRAY:
    break;
  }
  return 0;
}

ParquetValues parquet_values(ParquetType type, int length) {
  return (ParquetValues){.type = type, .width = width_of(type, length)};
}

void parquet_values_free(ParquetValues *v) {
  mem_free(v->fixed);
  mem_free(v->span);
  mem_free(v->bytes);
  v->fixed = v->bytes = NULL;
  v->span = NULL;
}

uint64_t parquet_values_memory(const ParquetValues *v) {
  return v->bytes_room + v->room * (v->width ? v->width : sizeof *v->span);
}

/* Makes room for n values more. */
static bool reserve(ParquetValues *v, size_t n) {
  const size_t want = v->count + n;
  if (want <= v->room) return true;
  const size_t half = v->room + v->room / 2, room = half > want ? half : want;
  const size_t size = v->width ? v->width : sizeof *v->span;
  if (room > SIZE_MAX / 2 / size) return false;
  void *p = mem_realloc(v->width ? (void *)v->fixed : (void *)v->span, room * size);
  if (!p) return false;
  if (v->width)
    v->fixed = p;
  else
    v->span = p;
  v->room = room;
  return true;
}

/* Makes room for n bytes more of byte arrays. */
static Refusal reserve_bytes(ParquetValues *v, uint64_t n) {
  if (n > PARQUET_MOST_BYTES || v->used + n > PARQUET_MOST_BYTES) return too_large;
  if (v->used + n <= v->bytes_room) return NULL;
  const uint64_t half = v->bytes_room + v->bytes_room / 2, want = v->used + n;
  const uint64_t room = half > want ? half : want;
  uint8_t *p = mem_realloc(v->bytes, (size_t)room);
  if (!p) return parquet_no_memory;
  v->bytes = p;
  v->bytes_room = room;
  return NULL;
}

static uint8_t *next_fixed(ParquetValues *v) { return v->fixed + v->count * v->width; }

static void put_span(ParquetValues *v, const uint8_t *s, uint64_t n) {
  if (n) memcpy(v->bytes + v->used, s, (size_t)n);
  v->span[v->count++] = (ParquetSpan){v->used, n};
  v->used += n;
}

/* ---- plain ------------------------------------------------------------ */

static uint32_t u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static Refusal plain_bytes(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  const Refusal no = reserve_bytes(v, (uint64_t)(end - p));
  if (no) return no;
  for (size_t i = 0; i < n; i++) {
    if (end - p < 4 || (uint64_t)(end - p) - 4 < u32(p)) return cut_short;
    const uint32_t length = u32(p);
    put_span(v, p + 4, length);
    p += 4 + (size_t)length;
  }
  return NULL;
}

static Refusal plain_booleans(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  if ((size_t)(end - p) < (n + 7) / 8) return cut_short;
  uint8_t *out = next_fixed(v);
  for (size_t i = 0; i < n; i++) out[i] = p[i / 8] >> i % 8 & 1;
  v->count += n;
  return NULL;
}

Refusal values_plain(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  /* a byte array has 4 bytes at least */
  if (!v->width && n > (size_t)(end - p) / 4) return cut_short;
  if (v->width && v->type != PARQUET_BOOLEAN && n > (size_t)(end - p) / v->width) return cut_short;
  if (!reserve(v, n)) return parquet_no_memory;
  if (!v->width) return plain_bytes(v, p, end, n);
  if (v->type == PARQUET_BOOLEAN) return plain_booleans(v, p, end, n);
  if (n) memcpy(next_fixed(v), p, n * v->width);
  v->count += n;
  return NULL;
}

/* ---- dictionaries and runs ------------------------------------------------------------ */

enum { STEP = 1024 };

Refusal values_adopt(ParquetValues *v, const ParquetValues *dictionary, uint64_t *base) {
  *base = v->used;
  if (v->width || !dictionary->used) return NULL;
  const Refusal no = reserve_bytes(v, dictionary->used);
  if (no) return no;
  memcpy(v->bytes + v->used, dictionary->bytes, (size_t)dictionary->used);
  v->used += dictionary->used;
  return NULL;
}

static Refusal take_indices(ParquetValues *v, const ParquetValues *d, uint64_t base,
                            const uint32_t *index, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (index[i] >= d->count) return "it has an index beyond its dictionary";
    if (v->width) {
      memcpy(next_fixed(v), d->fixed + index[i] * v->width, v->width);
      v->count++;
    } else {
      const ParquetSpan s = d->span[index[i]];
      v->span[v->count++] = (ParquetSpan){base + s.at, s.n};
    }
  }
  return NULL;
}

Refusal values_indexed(ParquetValues *v, const ParquetValues *dictionary, uint64_t base,
                       const uint8_t *p, const uint8_t *end, size_t n) {
  uint32_t index[STEP];
  if (!n) return NULL;
  if (p == end || *p > 32) return cut_short;
  Hybrid h = hybrid(p + 1, end, *p);
  if (!reserve(v, n)) return parquet_no_memory;
  while (n) {
    const size_t step = n < STEP ? n : STEP;
    if (!hybrid_read(&h, index, step)) return cut_short;
    const Refusal no = take_indices(v, dictionary, base, index, step);
    if (no) return no;
    n -= step;
  }
  return NULL;
}

Refusal values_runs(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  uint32_t bit[STEP];
  if (v->type != PARQUET_BOOLEAN) return wrong_type;
  if (end - p < 4 || u32(p) > (uint64_t)(end - p) - 4) return cut_short;
  Hybrid h = hybrid(p + 4, p + 4 + u32(p), 1);
  if (!reserve(v, n)) return parquet_no_memory;
  while (n) {
    const size_t step = n < STEP ? n : STEP;
    if (!hybrid_read(&h, bit, step)) return cut_short;
    for (size_t i = 0; i < step; i++) v->fixed[v->count++] = (uint8_t)bit[i];
    n -= step;
  }
  return NULL;
}

/* ---- differences ------------------------------------------------------------ */

static const char bad_delta[] = "its differences are damaged";

/* A list of n integers that the caller frees; NULL without memory. */
static int64_t *integers(size_t n) { return mem_alloc((n + 1) * sizeof(int64_t)); }

Refusal values_delta(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  if (v->type != PARQUET_INT32 && v->type != PARQUET_INT64) return wrong_type;
  int64_t *number = integers(n);
  if (!number || !reserve(v, n)) {
    mem_free(number);
    return parquet_no_memory;
  }
  const bool ok = delta_read(&p, end, number, n);
  for (size_t i = 0; ok && i < n; i++, v->count++) memcpy(next_fixed(v), &number[i], v->width);
  mem_free(number);
  return ok ? NULL : bad_delta;
}

/* The lengths of byte arrays, in `length`, and behind them their bytes. */
static Refusal lengths_then_bytes(ParquetValues *v, const uint8_t *p, const uint8_t *end,
                                  int64_t *length, size_t n) {
  if (!delta_read(&p, end, length, n)) return bad_delta;
  const Refusal no = reserve_bytes(v, (uint64_t)(end - p));
  if (no) return no;
  for (size_t i = 0; i < n; i++) {
    if (length[i] < 0 || length[i] > end - p) return cut_short;
    put_span(v, p, (uint64_t)length[i]);
    p += length[i];
  }
  return NULL;
}

Refusal values_delta_length(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  if (v->width) return wrong_type;
  int64_t *length = integers(n);
  Refusal no = length && reserve(v, n) ? NULL : parquet_no_memory;
  if (!no) no = lengths_then_bytes(v, p, end, length, n);
  mem_free(length);
  return no;
}

/* Appends a byte array or a value of fixed length: `prefix` bytes of the one before it, then n. */
static Refusal put_joined(ParquetValues *v, const ParquetSpan *before, uint64_t prefix,
                          const uint8_t *s, uint64_t n, uint8_t *scratch) {
  if (prefix > before->n) return bad_delta;
  if (v->width) {
    if (prefix + n != v->width) return bad_delta;
    memcpy(scratch + prefix, s, (size_t)n);
    memcpy(next_fixed(v), scratch, v->width);
    v->count++;
    return NULL;
  }
  const Refusal no = reserve_bytes(v, prefix + n);
  if (no) return no;
  if (prefix) memcpy(v->bytes + v->used, v->bytes + before->at, (size_t)prefix);
  if (n) memcpy(v->bytes + v->used + prefix, s, (size_t)n);
  v->span[v->count++] = (ParquetSpan){v->used, prefix + n};
  v->used += prefix + n;
  return NULL;
}

static Refusal joined(ParquetValues *v, const uint8_t *p, const uint8_t *end, int64_t *prefix,
                      int64_t *suffix, size_t n, uint8_t *scratch) {
  ParquetSpan before = {0, 0};
  if (!delta_read(&p, end, prefix, n) || !delta_read(&p, end, suffix, n)) return bad_delta;
  for (size_t i = 0; i < n; i++) {
    if (prefix[i] < 0 || suffix[i] < 0 || suffix[i] > end - p) return cut_short;
    const Refusal no = put_joined(v, &before, (uint64_t)prefix[i], p, (uint64_t)suffix[i], scratch);
    if (no) return no;
    before = v->width ? (ParquetSpan){0, v->width} : v->span[v->count - 1];
    p += suffix[i];
  }
  return NULL;
}

Refusal values_delta_bytes(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  if (v->width && v->type != PARQUET_FIXED) return wrong_type;
  int64_t *prefix = integers(n), *suffix = integers(n);
  uint8_t *scratch = mem_alloc(v->width + 1);
  Refusal no = prefix && suffix && scratch && reserve(v, n) ? NULL : parquet_no_memory;
  if (!no) no = joined(v, p, end, prefix, suffix, n, scratch);
  mem_free(prefix);
  mem_free(suffix);
  mem_free(scratch);
  return no;
}

/* ---- bytes split into streams ------------------------------------------------------------ */

Refusal values_split(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n) {
  if (!v->width || v->type == PARQUET_BOOLEAN || v->type == PARQUET_INT96) return wrong_type;
  if (n > (size_t)(end - p) / v->width) return cut_short;
  if (!reserve(v, n)) return parquet_no_memory;
  uint8_t *out = next_fixed(v);
  for (size_t i = 0; i < n; i++)
    for (size_t b = 0; b < v->width; b++) out[i * v->width + b] = p[b * n + i];
  v->count += n;
  return NULL;
}

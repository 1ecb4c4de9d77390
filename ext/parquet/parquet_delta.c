#include "parquet/parquet_delta.h"

#include "parquet/parquet_levels.h"

typedef struct Delta {
  const uint8_t *p, *end;
  uint64_t block, miniblocks;
  uint64_t value;
} Delta;

static bool varint(Delta *d, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && d->p < d->end; shift += 7) {
    const uint8_t b = *d->p++;
    *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

static bool zigzag(Delta *d, uint64_t *v) {
  if (!varint(d, v)) return false;
  *v = *v >> 1 ^ (~(*v & 1) + 1);
  return true;
}

static bool begin(Delta *d, size_t n) {
  uint64_t count;
  if (!varint(d, &d->block) || !varint(d, &d->miniblocks) || !varint(d, &count)) return false;
  if (!zigzag(d, &d->value) || count != n) return false;
  if (!d->block || d->block > 1 << 20 || d->block % 128) return false;
  return d->miniblocks && d->miniblocks <= 1024 && d->block % d->miniblocks == 0 &&
         d->block / d->miniblocks % 32 == 0;
}

static bool miniblock(Delta *d, uint64_t least, int width, int64_t *out, size_t n) {
  const uint64_t bytes = d->block / d->miniblocks * (uint64_t)width / 8;
  uint64_t there = (uint64_t)(d->end - d->p);
  if (width > 64 || (bytes > there && there < (n * (uint64_t)width + 7) / 8)) return false;
  for (size_t i = 0; i < n; i++) {
    d->value += least + packed_bits(d->p, d->end, i * (uint64_t)width, width);
    out[i] = (int64_t)d->value;
  }
  d->p += bytes < there ? bytes : there;
  return true;
}

static bool block(Delta *d, int64_t *out, size_t n) {
  const size_t size = (size_t)(d->block / d->miniblocks);
  uint64_t least;
  if (!zigzag(d, &least) || (uint64_t)(d->end - d->p) < d->miniblocks) return false;
  const uint8_t *width = d->p;
  d->p += d->miniblocks;
  for (size_t done = 0, m = 0; done < n; done += size, m++)
    if (!miniblock(d, least, width[m], out + done, n - done < size ? n - done : size)) return false;
  return true;
}

bool delta_read(const uint8_t **p, const uint8_t *end, int64_t *out, size_t n) {
  Delta d = {.p = *p, .end = end};
  if (!begin(&d, n)) return false;
  if (n) out[0] = (int64_t)d.value;
  for (size_t at = 1; at < n; at += (size_t)d.block)
    if (!block(&d, out + at, n - at < d.block ? n - at : (size_t)d.block)) return false;
  *p = d.p;
  return true;
}

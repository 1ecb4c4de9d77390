#include "parquet/parquet_levels.h"

#include <string.h>

int level_width(int max) {
  int width = 0;
  while (max >> width) width++;
  return width;
}

uint64_t packed_bits(const uint8_t *p, const uint8_t *end, uint64_t bit, int width) {
  const uint8_t *at = p + bit / 8;
  const int skip = (int)(bit % 8);
  uint64_t low = 0;
  if (!width) return 0;
  if (end - at >= 8)
    memcpy(&low, at, 8);
  else
    memcpy(&low, at, (size_t)(end - at));
  low >>= skip;
  if (skip + width > 64) low |= (uint64_t)at[8] << (64 - skip);
  return width == 64 ? low : low & ((UINT64_C(1) << width) - 1);
}

static bool header(Hybrid *h, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 35 && h->p < h->end; shift += 7) {
    const uint8_t b = *h->p++;
    *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

/* A writer may leave out the end of the last run of packed bits. */
static bool begin_packed(Hybrid *h, uint64_t groups) {
  const uint64_t there = (uint64_t)(h->end - h->p), bytes = groups * (uint64_t)h->width;
  h->packed = true;
  h->run = h->p;
  h->bit = 0;
  h->left = groups * 8;
  if (bytes > there) {
    h->left = there * 8 / (uint64_t)h->width;
    h->p = h->end;
  } else {
    h->p += bytes;
  }
  return h->left > 0;
}

static bool begin_run(Hybrid *h) {
  const size_t bytes = (size_t)(h->width + 7) / 8;
  uint64_t head;
  if (!header(h, &head)) return false;
  if (head & 1) return begin_packed(h, head >> 1);
  if ((size_t)(h->end - h->p) < bytes) return false;
  h->packed = false;
  h->value = 0;
  memcpy(&h->value, h->p, bytes);
  h->p += bytes;
  h->left = head >> 1;
  return h->left > 0 && (h->width == 32 || h->value >> h->width == 0);
}

bool hybrid_read(Hybrid *h, uint32_t *out, size_t n) {
  for (size_t i = 0; i < n;) {
    if (!h->left && !begin_run(h)) return false;
    const size_t take = h->left < n - i ? (size_t)h->left : n - i;
    for (size_t k = 0; k < take; k++, h->bit += (uint64_t)h->width)
      out[i + k] = h->packed ? (uint32_t)packed_bits(h->run, h->end, h->bit, h->width) : h->value;
    h->left -= take;
    i += take;
  }
  return true;
}

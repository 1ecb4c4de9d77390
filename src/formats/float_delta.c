#include "formats/float_delta.h"

#include <stdint.h>
#include <string.h>

enum { GROUP = FLOAT_DELTA_GROUP, HEADER = 2, MOST_BYTES = HEADER + GROUP * 4, MOST = 255 + 32 };

/* Small for small differences of either sign. */
static uint32_t fold(uint32_t d) { return d << 1 ^ (d >> 31 ? UINT32_MAX : 0); }
static uint32_t unfold(uint32_t z) { return z >> 1 ^ (z & 1 ? UINT32_MAX : 0); }

static int exponent(uint32_t bits) { return (int)(bits >> 23 & 255); }

static int width(int c, uint32_t was) {
  const int bits = c - exponent(was);
  return bits < 0 ? 0 : bits > 32 ? 32 : bits;
}

/* The bytes of a group behind its header. */
static size_t group_bytes(int c, const uint32_t *was) {
  int bits = 0;
  for (int i = 0; i < GROUP; i++) bits += width(c, was[i]);
  return (size_t)(bits + 7) / 8;
}

static void put_group(Buf *to, const uint32_t *was, const uint32_t *now) {
  unsigned char bytes[MOST_BYTES], *out = bytes + HEADER;
  uint32_t z[GROUP];
  int c = 0, held = 0;
  uint64_t bits = 0;
  for (int i = 0; i < GROUP; i++) {
    z[i] = fold(now[i] - was[i]);
    const int need = z[i] ? 32 - __builtin_clz(z[i]) + exponent(was[i]) : 0;
    if (need > c) c = need;
  }
  bytes[0] = (unsigned char)c;
  bytes[1] = (unsigned char)(c >> 8);
  for (int i = 0; i < GROUP; i++) {
    bits |= (uint64_t)z[i] << held;
    for (held += width(c, was[i]); held >= 8; held -= 8, bits >>= 8) *out++ = (unsigned char)bits;
  }
  if (held) *out++ = (unsigned char)bits;
  buf_put(to, bytes, (size_t)(out - bytes));
}

/* x [GROUP] changes by the bits behind a header. */
static void take_group(int c, const unsigned char *in, uint32_t *x) {
  uint64_t bits = 0;
  int held = 0;
  for (int i = 0; i < GROUP; i++) {
    const int w = width(c, x[i]);
    for (; held < w; held += 8) bits |= (uint64_t)*in++ << held;
    x[i] += unfold((uint32_t)(bits & (((uint64_t)1 << w) - 1)));
    bits >>= w;
    held -= w;
  }
}

/* Loads the numbers of a group; those behind the last are 0. */
static size_t load(const float *x, size_t at, size_t n, uint32_t *out) {
  const size_t count = n - at < GROUP ? n - at : GROUP;
  memset(out, 0, GROUP * sizeof *out);
  memcpy(out, x + at, count * sizeof *out);
  return count;
}

void float_delta_put(Buf *to, const float *was, const float *now, size_t n) {
  uint32_t a[GROUP], b[GROUP];
  for (size_t at = 0; at < n; at += GROUP) {
    load(was, at, n, a);
    load(now, at, n, b);
    put_group(to, a, b);
  }
}

static int header(const unsigned char *bytes) { return bytes[0] | bytes[1] << 8; }

/* Are the bytes differences of x, and nothing else? */
static Status check(const unsigned char *bytes, size_t len, const float *x, size_t n) {
  uint32_t a[GROUP];
  size_t left = len;
  for (size_t at = 0; at < n; at += GROUP) {
    load(x, at, n, a);
    const size_t more = left < HEADER ? 0 : group_bytes(header(bytes), a);
    if (left < HEADER || header(bytes) > MOST || more > left - HEADER)
      return fail(GRPO_EFORMAT, "differences of weights end in the middle, or are none");
    bytes += HEADER + more;
    left -= HEADER + more;
  }
  return left ? fail(GRPO_EFORMAT, "there are more differences than weights") : GRPO_OK;
}

Status float_delta_apply(const char *data, size_t len, float *x, size_t n) {
  const unsigned char *bytes = (const unsigned char *)data;
  uint32_t a[GROUP];
  try(check(bytes, len, x, n));
  for (size_t at = 0; at < n; at += GROUP) {
    const size_t count = load(x, at, n, a);
    const size_t more = group_bytes(header(bytes), a);
    take_group(header(bytes), bytes + HEADER, a);
    memcpy(x + at, a, count * sizeof *a);
    bytes += HEADER + more;
  }
  return GRPO_OK;
}

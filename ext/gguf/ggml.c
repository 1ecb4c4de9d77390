#include "gguf/ggml.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

static const struct {
  const char *name;
  uint32_t number;
  int values;
  size_t bytes;
} types[] = {
#define TYPE(name, number, values, bytes) {#name, number, values, bytes},
#include "gguf/ggml.def"
#undef TYPE
};

const char *ggml_name(GgmlType t) { return types[t].name; }
uint32_t ggml_number(GgmlType t) { return types[t].number; }
int ggml_block_values(GgmlType t) { return types[t].values; }
size_t ggml_block_bytes(GgmlType t) { return types[t].bytes; }

bool ggml_find(uint32_t number, GgmlType *out) {
  for (int i = 0; i < GGML_COUNT; i++)
    if (types[i].number == number) {
      *out = (GgmlType)i;
      return true;
    }
  return false;
}

bool ggml_is_written(GgmlType t) {
  return t == GGML_F32 || t == GGML_F16 || t == GGML_BF16 || t == GGML_Q8_0 || t == GGML_Q4_0 ||
         t == GGML_MXFP4;
}

bool ggml_is_read(GgmlType t) {
  return ggml_is_written(t) || t == GGML_Q4_1 || t == GGML_Q5_0 || t == GGML_Q5_1 ||
         t == GGML_Q4_K || t == GGML_Q5_K || t == GGML_Q6_K;
}

/* ---- reading one block ------------------------------------------------------------- */

static float half_at(const uint8_t *p) { return f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

static void read_q8_0(const uint8_t *p, float *y) {
  const float d = half_at(p);
  for (int j = 0; j < 32; j++) y[j] = d * (float)(int8_t)p[2 + j];
}

/* Value j of 32: its lower 4 bits are in the low nibbles for j < 16, else in the high ones; its
 * fifth bit is in `high`, unless that is NULL. */
static int nibble(const uint8_t *q, const uint8_t *high, int j) {
  const int low = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
  return high ? low | (high[j / 8] >> j % 8 & 1) << 4 : low;
}

static void read_q4_0(const uint8_t *p, float *y) {
  const float d = half_at(p);
  for (int j = 0; j < 32; j++) y[j] = d * (float)(nibble(p + 2, NULL, j) - 8);
}

static void read_q4_1(const uint8_t *p, float *y) {
  const float d = half_at(p), m = half_at(p + 2);
  for (int j = 0; j < 32; j++) y[j] = d * (float)nibble(p + 4, NULL, j) + m;
}

static void read_q5_0(const uint8_t *p, float *y) {
  const float d = half_at(p);
  for (int j = 0; j < 32; j++) y[j] = d * (float)(nibble(p + 6, p + 2, j) - 16);
}

static void read_q5_1(const uint8_t *p, float *y) {
  const float d = half_at(p), m = half_at(p + 2);
  for (int j = 0; j < 32; j++) y[j] = d * (float)nibble(p + 8, p + 4, j) + m;
}

/* Unpacks the scale and the minimum of sub-block i, 6 bits each, from 12 bytes. */
static void sub_scale(const uint8_t *s, int i, int *scale, int *min) {
  if (i < 4) {
    *scale = s[i] & 63;
    *min = s[i + 4] & 63;
  } else {
    *scale = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    *min = s[i + 4] >> 4 | s[i] >> 6 << 4;
  }
}

/* A block is eight sub-blocks of 32 values; two share 32 bytes of nibbles.  In Q5_K the fifth bit
 * is bit i of high[j]. */
static void read_q45_k(const uint8_t *p, const uint8_t *high, const uint8_t *q, float *y) {
  const float d = half_at(p), dmin = half_at(p + 2);
  for (int i = 0; i < 8; i++) {
    int scale, min;
    sub_scale(p + 4, i, &scale, &min);
    const float step = d * (float)scale, base = dmin * (float)min;
    for (int j = 0; j < 32; j++) {
      int n = q[i / 2 * 32 + j] >> i % 2 * 4 & 15;
      if (high) n |= (high[j] >> i & 1) << 4;
      y[32 * i + j] = step * (float)n - base;
    }
  }
}

static void read_q4_k(const uint8_t *p, float *y) { read_q45_k(p, NULL, p + 16, y); }
static void read_q5_k(const uint8_t *p, float *y) { read_q45_k(p, p + 16, p + 48, y); }

/* A block is two halves of 128 values.  A half has 64 bytes of nibbles, 32 bytes with two more
 * bits for each value, and 8 scales; its values come from the low nibbles of all 64 bytes, then
 * from the high ones. */
static void read_q6_k(const uint8_t *p, float *y) {
  const float d = half_at(p + 208);
  for (int k = 0; k < 256; k++) {
    const int half = k / 128, j = k % 128, quarter = j / 32;
    const uint8_t *low = p + 64 * half, *high = p + 128 + 32 * half;
    const int8_t scale = (int8_t)p[192 + k / 16];
    const int n = (low[j % 64] >> j / 64 * 4 & 15) | (high[j % 32] >> 2 * quarter & 3) << 4;
    y[k] = d * (float)scale * (float)(n - 32);
  }
}

/* A power of two, and codes of 4 bits with a sign, in the order of Q4_0. */
static const float mxfp4_levels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

static void read_mxfp4(const uint8_t *p, float *y) {
  for (int j = 0; j < 32; j++) {
    const int n = nibble(p + 1, NULL, j);
    const float v = ldexpf(mxfp4_levels[n & 7], p[0] - 127);
    y[j] = n & 8 ? -v : v;
  }
}

typedef void (*BlockReader)(const uint8_t *p, float *y);
static const BlockReader readers[GGML_COUNT] = {
    [GGML_Q8_0] = read_q8_0, [GGML_Q4_0] = read_q4_0, [GGML_Q4_1] = read_q4_1,
    [GGML_Q5_0] = read_q5_0, [GGML_Q5_1] = read_q5_1, [GGML_Q4_K] = read_q4_k,
    [GGML_Q5_K] = read_q5_k, [GGML_Q6_K] = read_q6_k, [GGML_MXFP4] = read_mxfp4,
};

void ggml_decode(GgmlType t, const void *blocks, size_t n, float *out) {
  const uint8_t *p = blocks;
  if (t == GGML_F32) {
    memcpy(out, p, n * sizeof *out);
    return;
  }
  if (t == GGML_F16 || t == GGML_BF16) {
    for (size_t i = 0; i < n; i++, p += 2)
      out[i] = t == GGML_F16 ? half_at(p) : bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
    return;
  }
  const size_t values = (size_t)types[t].values;
  for (; n; n -= values, out += values, p += types[t].bytes) readers[t](p, out);
}

/* ---- writing one block --------------------------------------------------------------- */

static Status put_scale(GgmlType t, float d, uint8_t *p) {
  const uint16_t h = f32_to_f16(d);
  if ((h & 0x7c00) == 0x7c00)
    return fail(GRPO_EARG, "a value is not finite, or too large for %s", types[t].name);
  p[0] = (uint8_t)h;
  p[1] = (uint8_t)(h >> 8);
  return GRPO_OK;
}

static Status all_finite(GgmlType t, const float *x) {
  for (int j = 0; j < 32; j++)
    if (!isfinite(x[j]))
      return fail(GRPO_EARG, "a value is not finite: %s cannot hold it", types[t].name);
  return GRPO_OK;
}

static Status write_q8_0(const float *x, uint8_t *p) {
  float most = 0;
  for (int j = 0; j < 32; j++) most = fmaxf(most, fabsf(x[j]));
  const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
  try(put_scale(GGML_Q8_0, d, p));
  if (!isfinite(inverse)) { /* all values are nearly zero */
    memset(p + 2, 0, 32);
    return GRPO_OK;
  }
  for (int j = 0; j < 32; j++) p[2 + j] = (uint8_t)(int8_t)roundf(x[j] * inverse);
  return GRPO_OK;
}

static int q4_level(float x) {
  const int n = (int)(x + 8.5f);
  return n > 15 ? 15 : n < 0 ? 0 : n;
}

static Status write_q4_0(const float *x, uint8_t *p) {
  float most = 0; /* the value of largest magnitude, with its sign */
  for (int j = 0; j < 32; j++)
    if (fabsf(x[j]) > fabsf(most)) most = x[j];
  const float d = most / -8, inverse = d != 0 && isfinite(1 / d) ? 1 / d : 0;
  try(put_scale(GGML_Q4_0, d, p));
  for (int j = 0; j < 16; j++)
    p[2 + j] = (uint8_t)(q4_level(x[j] * inverse) | q4_level(x[j + 16] * inverse) << 4);
  return GRPO_OK;
}

/* The nearest level, of two equally near ones the lower. */
static uint8_t mxfp4_code(float x) {
  uint8_t n = 0;
  while (n < 7 && fabsf(x) > (mxfp4_levels[n] + mxfp4_levels[n + 1]) / 2) n++;
  return (uint8_t)(signbit(x) ? n | 8 : n);
}

/* The largest magnitude, 4 to 8 times the scale, becomes a level of 4 or 6, so values that were in
 * MXFP4 stay as they are. */
static Status write_mxfp4(const float *x, uint8_t *p) {
  float most = 0;
  int exponent = -125;
  for (int j = 0; j < 32; j++) most = fmaxf(most, fabsf(x[j]));
  if (most > 0) frexpf(most, &exponent);
  exponent = exponent < -124 ? -127 : exponent - 3;
  p[0] = (uint8_t)(exponent + 127);
  for (int j = 0; j < 16; j++)
    p[1 + j] = (uint8_t)(mxfp4_code(ldexpf(x[j], -exponent)) |
                         mxfp4_code(ldexpf(x[j + 16], -exponent)) << 4);
  return GRPO_OK;
}

static Status write_block(GgmlType t, const float *x, uint8_t *p) {
  return t == GGML_Q8_0 ? write_q8_0(x, p) : t == GGML_Q4_0 ? write_q4_0(x, p) : write_mxfp4(x, p);
}

Status ggml_encode(GgmlType t, const float *x, size_t n, void *out) {
  uint8_t *p = out;
  if (t == GGML_F32) {
    memcpy(p, x, n * sizeof *x);
    return GRPO_OK;
  }
  if (t == GGML_F16 || t == GGML_BF16) {
    for (size_t i = 0; i < n; i++, p += 2) {
      const uint16_t h = t == GGML_F16 ? f32_to_f16(x[i]) : f32_to_bf16(x[i]);
      p[0] = (uint8_t)h;
      p[1] = (uint8_t)(h >> 8);
    }
    return GRPO_OK;
  }
  if (!ggml_is_written(t) || n % 32)
    return fail(GRPO_EINTERNAL, "%zu values are not whole blocks of %s", n, types[t].name);
  for (; n; n -= 32, x += 32, p += types[t].bytes) {
    try(all_finite(t, x));
    try(write_block(t, x, p));
  }
  return GRPO_OK;
}

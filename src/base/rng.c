#include "base/rng.h"
#include "base/exponential.h"
#include "base/trigonometry.h"

#include <math.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static uint64_t mix(uint64_t x) { /* splitmix64's finaliser */
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* The lower half of the index goes into the counter, the upper half into the key. */
void rng_address(const RngKey *k, uint64_t index, uint32_t counter[4], uint32_t key[2]) {
  const uint64_t words = mix(k->seed + 0x9e3779b97f4a7c15u) ^ mix(index >> 32);
  key[0] = (uint32_t)words;
  key[1] = (uint32_t)(words >> 32);
  counter[0] = (uint32_t)index;
  counter[1] = k->sample;
  counter[2] = k->prompt;
  counter[3] = (k->step & 0xffffffu) | (uint32_t)k->stream << 24;
}

void rng_block(const RngKey *k, uint64_t index, uint32_t out[4]) {
  uint32_t counter[4], key[2];
  rng_address(k, index, counter, key);
  philox4x32(counter, key, out);
}

uint64_t rng_u64(const RngKey *k, uint64_t index) {
  uint32_t r[4];
  rng_block(k, index, r);
  return (uint64_t)r[1] << 32 | r[0];
}

double rng_uniform(const RngKey *k, uint64_t index) {
  return (double)(rng_u64(k, index) >> 11) * 0x1p-53;
}

double rng_normal(const RngKey *k, uint64_t index) { /* Box and Muller */
  uint32_t r[4];
  rng_block(k, index, r);
  double u = ((double)((uint64_t)r[1] << 20 | r[0] >> 12) + 0.5) * 0x1p-52;
  double v = (double)((uint64_t)r[3] << 20 | r[2] >> 12) * 0x1p-52;
  return sqrt(-2 * math_log(u)) * math_cos(6.283185307179586477 * v);
}

/* A Feistel network permutes the numbers of an even number of bits; it is applied until the result
 * is below n. */
uint64_t rng_permute(uint64_t seed, uint64_t n, uint64_t i) {
  if (n < 2) return 0;
  unsigned half = 1;
  while (half < 32 && (uint64_t)1 << (2 * half) < n) half++;
  const uint64_t mask = ((uint64_t)1 << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 8; round++) {
      uint64_t next = left ^ (mix(right + mix(seed + round * 0x9e3779b97f4a7c15u)) & mask);
      left = right;
      right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

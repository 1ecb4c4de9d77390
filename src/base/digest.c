#include "base/digest.h"

#include <string.h>

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

/* The i-th word of a block; words are big-endian. */
static uint32_t word(const unsigned char *block, int i) {
  const unsigned char *p = block + 4 * i;
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- SHA-1 ------------------------------------------------------------------------ */

static void sha1_block(uint32_t *h, const unsigned char *block) {
  static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
  for (int i = 0; i < 16; i++) w[i] = word(block, i);
  for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  for (int i = 0; i < 80; i++) {
    const int round = i / 20;
    const uint32_t f = round == 0   ? (b & c) | (~b & d)
                       : round == 2 ? (b & c) | (b & d) | (c & d)
                                    : b ^ c ^ d;
    const uint32_t next = rotate(a, 5) + f + e + k[round] + w[i];
    e = d, d = c, c = rotate(b, 30), b = a, a = next;
  }
  h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

/* ---- SHA-256 ---------------------------------------------------------------------- */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t cube_roots[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* One round; the caller names the eight numbers in an order that moves by one each time. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
  do {                                                                                             \
    h += (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + (g ^ (e & (f ^ g))) + cube_roots[i] +    \
         w[i];                                                                                     \
    d += h;                                                                                        \
    h += (rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + ((a & b) | (c & (a | b)));              \
  } while (0)

static void sha256_block(uint32_t *s, const unsigned char *block) {
  uint32_t w[64], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
  for (int i = 0; i < 16; i++) w[i] = word(block, i);
  for (int i = 16; i < 64; i++) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (rotate(x, 25) ^ rotate(x, 14) ^ x >> 3) + w[i - 7] +
           (rotate(y, 15) ^ rotate(y, 13) ^ y >> 10);
  }
  for (int i = 0; i < 64; i += 8) {
    ROUND(a, b, c, d, e, f, g, h, i);
    ROUND(h, a, b, c, d, e, f, g, i + 1);
    ROUND(g, h, a, b, c, d, e, f, i + 2);
    ROUND(f, g, h, a, b, c, d, e, i + 3);
    ROUND(e, f, g, h, a, b, c, d, i + 4);
    ROUND(d, e, f, g, h, a, b, c, i + 5);
    ROUND(c, d, e, f, g, h, a, b, i + 6);
    ROUND(b, c, d, e, f, g, h, a, i + 7);
  }
  s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

/* ---- both -------------------------------------------------------------------------- */

void digest_begin(Digest *d, DigestKind kind) {
  static const uint32_t sha1[8] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  static const uint32_t sha256[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  d->kind = kind;
  d->len = 0;
  memcpy(d->h, kind == DIGEST_SHA1 ? sha1 : sha256, sizeof d->h);
}

static void put_block(Digest *d, const unsigned char *block) {
  if (d->kind == DIGEST_SHA1)
    sha1_block(d->h, block);
  else
    sha256_block(d->h, block);
}

void digest_put(Digest *d, const void *data, size_t n) {
  const unsigned char *p = data;
  const size_t held = d->len % 64;
  if (!n) return; /* data may be NULL then, which memcpy does not take */
  d->len += n;
  if (held) {
    const size_t part = n < 64 - held ? n : 64 - held;
    memcpy(d->block + held, p, part);
    if (held + part < 64) return;
    put_block(d, d->block);
    p += part, n -= part;
  }
  for (; n >= 64; p += 64, n -= 64) put_block(d, p);
  if (n) memcpy(d->block, p, n);
}

void digest_end(Digest *d, char *hex) {
  static const char digits[] = "0123456789abcdef";
  static const unsigned char padding[64] = {0x80};
  const uint64_t bits = d->len * 8;
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  digest_put(d, padding, 1 + (119 - d->len % 64) % 64);
  digest_put(d, length, sizeof length);
  const int words = d->kind == DIGEST_SHA1 ? 5 : 8;
  for (int i = 0; i < 8 * words; i++) hex[i] = digits[d->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
  hex[8 * words] = 0;
}

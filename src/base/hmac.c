#include "base/hmac.h"

#include <string.h>

enum { BLOCK = 64, SUM = 32 };

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* sum = SHA-256 of the block (none if it has no bytes) and the data behind it. */
static void sum_of(const unsigned char *block, size_t block_len, const void *data, size_t n,
                   unsigned char *sum) {
  char hex[DIGEST_HEX_BYTES];
  Digest d;
  digest_begin(&d, DIGEST_SHA256);
  digest_put(&d, block, block_len);
  digest_put(&d, data, n);
  digest_end(&d, hex);
  for (int i = 0; i < SUM; i++)
    sum[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
}

/* sum = SHA-256 of the block, each byte of it changed by `with`, and the data behind it. */
static void sum_behind(const unsigned char *block, unsigned char with, const void *data, size_t n,
                       unsigned char *sum) {
  unsigned char first[BLOCK];
  for (int i = 0; i < BLOCK; i++) first[i] = block[i] ^ with;
  sum_of(first, BLOCK, data, n, sum);
}

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t n, char *hex) {
  static const char digits[] = "0123456789abcdef";
  unsigned char block[BLOCK] = {0}, sum[SUM];
  if (key_len > BLOCK)
    sum_of(NULL, 0, key, key_len, block);
  else if (key_len)
    memcpy(block, key, key_len);
  sum_behind(block, 0x36, data, n, sum);
  sum_behind(block, 0x5c, sum, SUM, sum);
  for (int i = 0; i < SUM; i++) {
    hex[2 * i] = digits[sum[i] >> 4];
    hex[2 * i + 1] = digits[sum[i] & 15];
  }
  hex[2 * SUM] = 0;
}

bool hmac_equal(const void *a, const void *b, size_t n) {
  const volatile unsigned char *p = a, *q = b;
  unsigned char differ = 0;
  for (size_t i = 0; i < n; i++) differ |= p[i] ^ q[i];
  return differ == 0;
}

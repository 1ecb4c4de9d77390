/* crc32c.c - uses the processor's instruction if it has one, else eight tables, which consume eight
 * bytes per step. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256]; /* table[k][b]: byte b followed by k zero bytes */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t c = b;
    for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
    table[0][b] = c;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t b = 0; b < 256; b++)
      table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t n) {
  const unsigned char *p = data;
  uint32_t c = ~crc;
  pthread_once(&once, fill_table);
  for (; n >= 8; p += 8, n -= 8) {
    c ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    c = table[7][c & 255] ^ table[6][c >> 8 & 255] ^ table[5][c >> 16 & 255] ^ table[4][c >> 24] ^
        table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  while (n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
  return ~c;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data,
                                                                 size_t n) {
  const unsigned char *p = data;
  uint64_t wide = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  uint32_t c = (uint32_t)wide;
  while (n--) c = _mm_crc32_u8(c, *p++);
  return ~c;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t n) {
  return (__builtin_cpu_supports("sse4.2") ? by_instruction : crc32c_by_table)(crc, data, n);
}
#else
uint32_t crc32c(uint32_t crc, const void *data, size_t n) { return crc32c_by_table(crc, data, n); }
#endif

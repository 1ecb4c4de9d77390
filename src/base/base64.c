#include "base/base64.h"

static int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *s, size_t n, Buf *out) {
  unsigned bits = 0;
  int nbits = 0;
  while (n && s[n - 1] == '=') n--;
  for (size_t i = 0; i < n; i++) {
    int v = value_of(s[i]);
    if (v < 0) return false;
    bits = (bits << 6 | (unsigned)v) & 0xFFFF;
    nbits += 6;
    if (nbits < 8) continue;
    nbits -= 8;
    buf_putc(out, (char)(bits >> nbits & 0xFF));
  }
  return n % 4 != 1;
}

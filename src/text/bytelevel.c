#include "text/bytelevel.h"

#include "base/utf8.h"

/* The bytes without a character of their own are 00-20, 7F-A0 and AD. */
enum { LOW = 0x21, DEL = 0x7F, MIDDLE = 0xA1 - DEL, SHY = 0xAD };

uint32_t bytelevel_char(unsigned char byte) {
  if (byte < LOW) return 0x100u + byte;
  if (byte >= DEL && byte < DEL + MIDDLE) return 0x100u + LOW + byte - DEL;
  return byte == SHY ? 0x100u + LOW + MIDDLE : byte;
}

int bytelevel_byte(uint32_t cp) {
  if (cp < 0x100) return bytelevel_char((unsigned char)cp) == cp ? (int)cp : -1;
  uint32_t i = cp - 0x100;
  if (i < LOW) return (int)i;
  if (i < LOW + MIDDLE) return (int)(i - LOW + DEL);
  return i == LOW + MIDDLE ? SHY : -1;
}

void bytelevel_put(Buf *out, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char c[4];
    buf_put(out, c, utf8_encode(bytelevel_char((unsigned char)bytes[i]), c));
  }
}

void bytelevel_unput(Buf *out, const char *token, size_t n) {
  size_t start = out->len;
  for (size_t i = 0; i < n;) {
    uint32_t cp;
    bool valid;
    i += utf8_decode(token + i, n - i, &cp, &valid);
    int byte = valid ? bytelevel_byte(cp) : -1;
    if (byte < 0) {
      out->len = start;
      buf_put(out, token, n);
      return;
    }
    buf_putc(out, (char)byte);
  }
}

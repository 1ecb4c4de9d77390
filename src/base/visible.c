#include "base/visible.h"

#include <stdbool.h>

#include "base/utf8.h"

static bool is_control(uint32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
}

/* U+061C, LRM and RLM, embeddings, overrides, isolates and their ends */
static bool turns_text(uint32_t c) {
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void visible_put(Buf *b, const char *s, size_t n) {
  while (n) {
    uint32_t c;
    bool valid;
    const size_t size = utf8_decode(s, n, &c, &valid);
    if (!valid) c = (unsigned char)*s;
    if (is_control(c))
      buf_printf(b, "\\x%02x", (unsigned)c);
    else if (valid && turns_text(c))
      buf_putc(b, '?');
    else
      buf_put(b, s, size);
    s += size, n -= size;
  }
}

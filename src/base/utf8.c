#include "base/utf8.h"

/* The sequence that a lead byte announces: its length and the bounds of its second byte (Unicode,
 * table 3-7).  Later bytes are always 80..BF. */
typedef struct Lead {
  size_t length; /* 0: cannot start a code point */
  unsigned char low, high;
} Lead;

static Lead lead_of(unsigned char c) {
  if (c < 0x80) return (Lead){1, 0, 0};
  if (c < 0xc2) return (Lead){0, 0, 0};
  if (c < 0xe0) return (Lead){2, 0x80, 0xbf};
  if (c < 0xf0) return (Lead){3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
  if (c < 0xf5) return (Lead){4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
  return (Lead){0, 0, 0};
}

/* The number of bytes of s that fit the lead byte's sequence: all of it, or the maximal subpart
 * before the end or the first byte that does not fit. */
static size_t agreeing(const unsigned char *s, size_t n, Lead lead) {
  size_t k = 1;
  if (k < lead.length && k < n && s[1] >= lead.low && s[1] <= lead.high) {
    k++;
    while (k < lead.length && k < n && (s[k] & 0xc0) == 0x80) k++;
  }
  return k;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *cp, bool *valid) {
  const unsigned char *u = (const unsigned char *)s;
  const Lead lead = lead_of(u[0]);
  *cp = u[0];
  *valid = true;
  if (lead.length == 1) return 1;
  const size_t k = agreeing(u, n, lead);
  if (k != lead.length) {
    *cp = 0xfffd;
    *valid = false;
    return k;
  }
  *cp = u[0] & (0x7fu >> k);
  for (size_t i = 1; i < k; i++) *cp = *cp << 6 | (u[i] & 0x3fu);
  return k;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
  if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) cp = 0xfffd;
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  const size_t k = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
  for (size_t i = k - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
  out[0] = (char)((0xf00u >> k & 0xffu) | cp);
  return k;
}

/* The length of the valid text at the start of s. */
static size_t valid_prefix(const char *s, size_t n) {
  size_t i = 0;
  while (i < n) {
    uint32_t cp;
    bool valid = true;
    const size_t k = (unsigned char)s[i] < 0x80 ? 1 : utf8_decode(s + i, n - i, &cp, &valid);
    if (!valid) break;
    i += k;
  }
  return i;
}

bool utf8_is_valid(const char *s, size_t n) { return valid_prefix(s, n) == n; }

void utf8_put_lossy(Buf *b, const char *s, size_t n) {
  while (n) {
    size_t k = valid_prefix(s, n);
    buf_put(b, s, k);
    s += k, n -= k;
    if (!n) return;
    uint32_t cp;
    bool valid;
    k = utf8_decode(s, n, &cp, &valid);
    buf_put(b, "\xef\xbf\xbd", 3);
    s += k, n -= k;
  }
}

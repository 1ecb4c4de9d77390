/* fuzz_charsmap.c - tables of the normalizer Precompiled, and grapheme clusters.
 *
 * The input is the size of a table (16 bits, little-endian), the table and a text.  Reading the
 * table may fail.  Otherwise the text becomes a text in UTF-8 within the limit, or an error.
 */
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "text/charsmap.h"
#include "text/unicode_break.h"

static void put_base64(Buf *b, const uint8_t *s, size_t n) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned bits = 0, nbits = 0;
  for (size_t i = 0; i < n || nbits; i++) {
    bits = bits << 8 | (i < n ? s[i] : 0);
    for (nbits += 8; nbits >= 6; nbits -= 6) buf_putc(b, digit[bits >> (nbits - 6) & 63]);
    if (i + 1 >= n && nbits) buf_putc(b, digit[bits << (6 - nbits) & 63]);
    if (i + 1 >= n) break;
  }
}

static void check_clusters(const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    len = unicode_grapheme(s + i, n - i);
    FUZZ_CHECK(len > 0 && len <= n - i && utf8_is_valid(s + i, len));
  }
}

static void use(const Charsmap *m, const Buf *text) {
  const size_t longest = 4 * text->len + 64;
  Buf out = {0};
  const Status s = charsmap_put(m, text->data, text->len, longest, &out);
  FUZZ_CHECK(s == GRPO_OK || s == GRPO_EFORMAT || s == GRPO_ELIMIT);
  FUZZ_CHECK(out.len <= longest + m->ntext + text->len);
  if (s == GRPO_OK)
    FUZZ_CHECK(out.len <= longest && utf8_is_valid(out.len ? out.data : "", out.len));
  buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t table = (size_t)data[0] | (size_t)data[1] << 8;
  data += 2, size -= 2;
  if (table > size) table = size;
  Buf base64 = {0}, text = {0};
  Charsmap m;
  buf_puts(&base64, "");
  buf_puts(&text, "");
  put_base64(&base64, data, table);
  utf8_put_lossy(&text, (const char *)data + table, size - table);
  const Status s = charsmap_read(&m, base64.data);
  FUZZ_CHECK(s == GRPO_OK || (s == GRPO_EFORMAT && strstr(err_message(), "Precompiled")));
  FUZZ_CHECK(m.bytes.len == table);
  check_clusters(text.data, text.len);
  if (s == GRPO_OK) use(&m, &text);
  charsmap_free(&m);
  buf_free(&base64);
  buf_free(&text);
  return 0;
}

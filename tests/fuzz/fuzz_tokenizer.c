/* fuzz_tokenizer.c - any bytes as the files of a tokenizer.
 *
 * The input is a tokenizer.json (or a tiktoken rank file), a text, a tokenizer_config.json, a
 * special_tokens_map.json and an added_tokens.json, separated by NULs.  Loading ends with a
 * tokenizer or an error, and a tokenizer encodes the text to ids that exist and that decode.
 */
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "text/rankfile.h"
#include "text/tokenizer.h"
#include "text/tokenizer_build.h"

static void use(const Tokenizer *t, const char *text, size_t n) {
  for (unsigned flags = 0; flags < 4; flags++) {
    IntBuf ids = {0};
    Buf back = {0};
    if (tokenizer_encode(t, text, n, flags, &ids) == GRPO_OK) {
      for (size_t i = 0; i < ids.len; i++) FUZZ_CHECK(tokenizer_token(t, ids.data[i]) != NULL);
      Status s = tokenizer_decode(t, ids.data, ids.len, flags & 1, &back);
      FUZZ_CHECK(s == GRPO_OK || s == GRPO_ELIMIT);
    }
    intbuf_free(&ids);
    buf_free(&back);
  }
}

/* The bytes up to the next NUL; moves behind it. */
static Buf part(const uint8_t **data, size_t *size) {
  Buf b = {0};
  const uint8_t *nul = *size ? memchr(*data, 0, *size) : NULL;
  const size_t n = nul ? (size_t)(nul - *data) : *size;
  buf_put(&b, *data, n);
  *data += nul ? n + 1 : n;
  *size -= nul ? n + 1 : n;
  return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Buf file[NFILES] = {{0}}, none = {0};
  Tokenizer *t = NULL;
  file[FILE_TOKENIZER] = part(&data, &size);
  Buf text = part(&data, &size);
  file[FILE_CONFIG] = part(&data, &size);
  file[FILE_MAP] = part(&data, &size);
  file[FILE_ADDED] = part(&data, &size);
  const Buf *main = &file[FILE_TOKENIZER];
  Status s;
  if (rankfile_is(main->data, main->len)) {
    s = rankfile_build(&t, main, file[FILE_CONFIG].len ? &file[FILE_CONFIG] : &none, "input");
    for (int i = 0; i < NFILES; i++) buf_free(&file[i]);
  } else {
    s = tokenizer_build(&t, file, "input");
  }
  FUZZ_CHECK((s == GRPO_OK) == (t != NULL));
  FUZZ_CHECK(s == GRPO_OK || !strchr(err_message(), '\n'));
  if (t) use(t, text.len ? text.data : "", text.len);
  tokenizer_free(t);
  buf_free(&text);
  return 0;
}

/* fuzz_tokenizer_train.c - any text to train a tokenizer on: it encodes that text and gives it
 * back, except for bytes that are not UTF-8. */
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "text/tokenizer.h"
#include "text/tokenizer_train.h"

static void check_text(const Tokenizer *t, const char *text, size_t n, Buf *back) {
  IntBuf ids = {0};
  Buf want = {0};
  utf8_put_lossy(&want, text, n);
  if (tokenizer_encode(t, text, n, 0, &ids) == GRPO_OK) {
    FUZZ_CHECK(tokenizer_decode(t, ids.data, ids.len, false, back) == GRPO_OK);
    FUZZ_CHECK(back->len == want.len && (!n || memcmp(back->data, want.data, want.len) == 0));
  } else {
    FUZZ_CHECK(!strchr(err_message(), '\n'));
  }
  intbuf_free(&ids);
  buf_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  Tokenizer *t = NULL;
  Buf back = {0};
  TokenizerTrainOptions o;
  tokenizer_train_options_init(&o);
  o.vocab_size = 258 + (size ? data[0] : 0);
  o.split_digits = size % 2 == 0;
  if (tokenizer_train(&t, &text, &size, 1, &o) == GRPO_OK)
    check_text(t, text, size, &back);
  else
    FUZZ_CHECK(!t && !strchr(err_message(), '\n'));
  tokenizer_free(t);
  buf_free(&back);
  return 0;
}

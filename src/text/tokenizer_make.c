/* tokenizer_make.c - writes the byte and the character tokenizer as tokenizer.json.
 *
 * The byte tokenizer is a byte-level BPE without merges and pre-tokenizer, so that other libraries
 * can read the file too; they replace invalid UTF-8, this program does not.  The character
 * tokenizer is a WordLevel model of single code points without an unknown token, so that other
 * libraries refuse unknown characters, too.
 */
#include "text/tokenizer_make.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/tokenizer_write.h"

static const char *const specials[] = {"<|endoftext|>", "<|pad|>"};

Status tokenizer_bytes(Tokenizer **out) {
  Buf vocab = {0}, merges = {0};
  for (int b = 0; b < 256; b++) {
    char c[4];
    size_t n = utf8_encode(bytelevel_char((unsigned char)b), c);
    tokenizer_put_entry(&vocab, c, n, b);
  }
  const TokenizerParts parts = {
      .pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                       "\"trim_offsets\": true, \"use_regex\": false}",
      .decoder = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                 "\"trim_offsets\": true, \"use_regex\": false}",
      .model = TOKENIZER_BPE_MEMBERS,
      .vocab = &vocab,
      .merges = &merges,
      .special = specials,
      .nspecial = 2,
      .first_special = 256,
      .eos = specials[0],
      .pad = specials[1],
  };
  *out = NULL;
  Status s = buf_status(&vocab);
  if (s == GRPO_OK) s = tokenizer_from_parts(out, &parts, "byte tokenizer");
  buf_free(&vocab);
  return s;
}

/* Sets seen[cp] for every code point of the text. */
static Status mark_chars(const char *text, size_t n, unsigned char *seen, int *count) {
  *count = 0;
  for (size_t i = 0; i < n;) {
    uint32_t cp;
    bool valid;
    size_t len = utf8_decode(text + i, n - i, &cp, &valid);
    if (!valid)
      return fail(GRPO_EARG, "character tokenizer: the text is not UTF-8 at byte %zu", i + 1);
    if (!cp)
      return fail(GRPO_EARG, "character tokenizer: U+0000 at byte %zu cannot be a token", i + 1);
    *count += !seen[cp];
    seen[cp] = 1;
    i += len;
  }
  return *count ? GRPO_OK : fail(GRPO_EARG, "character tokenizer: the text is empty");
}

static Status make_chars(Tokenizer **out, const char *text, size_t n, bool special) {
  enum { CODE_POINTS = 0x110000 };
  Buf vocab = {0};
  int count;
  *out = NULL;
  unsigned char *seen = mem_zalloc(CODE_POINTS);
  if (!seen) return fail(GRPO_ENOMEM, "character tokenizer");
  Status s = mark_chars(text, n, seen, &count);
  int32_t id = 0;
  for (uint32_t cp = 0; s == GRPO_OK && cp < CODE_POINTS; cp++) {
    char c[4];
    if (seen[cp]) tokenizer_put_entry(&vocab, c, utf8_encode(cp, c), id++);
  }
  mem_free(seen);
  const TokenizerParts parts = {
      .pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[\\\\s\\\\S]\"}, "
                       "\"behavior\": \"Isolated\", \"invert\": false}",
      .decoder = "{\"type\": \"Fuse\"}",
      .model = "\"type\": \"WordLevel\", \"unk_token\": \"\"",
      .vocab = &vocab,
      .special = specials,
      .nspecial = special ? 2 : 0,
      .first_special = id,
      .eos = special ? specials[0] : NULL,
      .pad = special ? specials[1] : NULL,
  };
  if (s == GRPO_OK) s = buf_status(&vocab);
  if (s == GRPO_OK) s = tokenizer_from_parts(out, &parts, "character tokenizer");
  buf_free(&vocab);
  return s;
}

Status tokenizer_chars(Tokenizer **out, const char *text, size_t n) {
  return make_chars(out, text, n, true);
}

Status tokenizer_chars_only(Tokenizer **out, const char *text, size_t n) {
  return make_chars(out, text, n, false);
}

/* fuzz_tokenizer.c - tokenizer files and texts that nobody meant.
 *
 * The input is a tokenizer.json, a NUL, and a text.  Whatever it is, loading
 * ends with a tokenizer or an error, and a tokenizer encodes to ids that exist
 * and that decode.  With libFuzzer (-DGRPO_LIBFUZZER -fsanitize=fuzzer) the
 * entry point is used as it is; otherwise the program runs the files it is given,
 * or, given a number and a seed, that many mutations of built-in inputs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static long loaded; /* inputs that were a tokenizer */

static void require(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz_tokenizer: %s\n", what);
  abort();
}

static void use(const Tokenizer *t, const char *text, size_t n) {
  for (unsigned flags = 0; flags < 4; flags++) {
    IntBuf ids = {0};
    Buf back = {0};
    if (tokenizer_encode(t, text, n, flags, &ids) == GRPO_OK) {
      for (size_t i = 0; i < ids.len; i++)
        require(tokenizer_token(t, ids.data[i]) != NULL, "an id without a token");
      Status s = tokenizer_decode(t, ids.data, ids.len, flags & 1, &back);
      require(s == GRPO_OK || s == GRPO_ELIMIT, "decoding");
    }
    intbuf_free(&ids);
    buf_free(&back);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  Buf file[NFILES] = {{0}};
  Tokenizer *t = NULL;
  const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
  size_t len = nul ? (size_t)(nul - data) : n;
  buf_put(&file[FILE_TOKENIZER], data, len);
  if (tokenizer_build(&t, file, "fuzz") == GRPO_OK) {
    loaded++;
    use(t, nul ? (const char *)nul + 1 : "", nul ? n - len - 1 : 0);
  }
  tokenizer_free(t);
  return 0;
}

#ifndef GRPO_LIBFUZZER
#define HEAD  "{\"added_tokens\":[{\"id\":6,\"content\":\"<e>\",\"special\":true,\"lstrip\":true}],"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}"
#define MODEL                                                                                      \
  "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"        \
  "\"abb\":3,\"\\u0120\":4,\"1\":5},\"merges\":[\"a b\",[\"ab\",\"b\"]]},"
static const char *const seeds[] = {
    HEAD MODEL "\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":" BYTES "}",
    HEAD MODEL
    "\"normalizer\":{\"type\":\"NFC\"},\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":"
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"\\\\s*b|(?=a)\"},\"behavior\":\"Isolated\"},{\"type\":\"Digits\"},{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false}]}}",
    HEAD "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"b\",\"vocab\":{\"a\":0,\"b\":1}},"
         "\"decoder\":{\"type\":\"Fuse\"},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
         "{\"Regex\":\"[\\\\s\\\\S]\"},\"behavior\":\"Isolated\"},\"post_processor\":{\"type\":"
         "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<e>\"}},{\"Sequence\":"
         "{\"id\":\"A\"}}],\"special_tokens\":{\"<e>\":{\"id\":\"<e>\",\"ids\":[6]}}}}",
    HEAD
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"},{\"type\":"
    "\"NFKD\"},{\"type\":\"Strip\"},{\"type\":\"Lowercase\"}]},\"model\":{\"type\":\"BPE\","
    "\"unk_token\":\"b\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":1,"
    "\"ab\":2,\"_\":3,\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"]},\"decoder\":{\"type\":"
    "\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":"
    "\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
    "\" \",\"start\":1,\"stop\":0}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
    "\"_\",\"prepend_scheme\":\"first\"}}",
    HEAD "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
         "\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"},"
         "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"b\",1],\"sep\":[\"a\",0]},"
         "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"b\",\"continuing_subword_prefix\":"
         "\"##\",\"vocab\":{\"a\":0,\"b\":1,\"##b\":2,\"##ab\":3}}}",
};
static const char text[] = "abbab <e> a1b 'll\xC3\xA9\xE3\x80\x80\xFF\n ab<e>";

static uint32_t next(uint64_t *state) { /* xorshift64* */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)(*state * 0x2545F4914F6CDD1Du >> 32);
}

/* One seed, some bytes changed, removed, or copied from elsewhere. */
static void mutation(uint64_t *state, Buf *b) {
  const char *seed = seeds[next(state) % (sizeof seeds / sizeof *seeds)];
  buf_clear(b);
  buf_put(b, seed, strlen(seed) + 1);
  buf_put(b, text, sizeof text - 1);
  for (uint32_t k = next(state) % 6; k > 0; k--) {
    size_t i = next(state) % b->len, from = next(state) % b->len, len = next(state) % 12;
    if (len > b->len - i) len = b->len - i;
    if (len > b->len - from) len = b->len - from;
    switch (next(state) % 3) {
    case 0:
      b->data[i] = (char)next(state);
      break;
    case 1:
      memmove(b->data + i, b->data + from, len);
      break;
    default:
      memmove(b->data + i, b->data + i + len, b->len - i - len);
      b->len -= len;
    }
    if (!b->len) return;
  }
}

static int run_file(const char *path) {
  Buf b = {0};
  FILE *f = fopen(path, "rb");
  if (!f) return fprintf(stderr, "fuzz_tokenizer: cannot open %s\n", path), 1;
  for (int c; (c = getc(f)) != EOF;) buf_putc(&b, (char)c);
  fclose(f);
  LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len);
  buf_free(&b);
  return 0;
}

int main(int argc, char **argv) {
  char *end = NULL;
  long runs = argc > 1 ? strtol(argv[1], &end, 10) : 20000;
  if (end && *end) { /* not a number: files */
    int bad = 0;
    for (int i = 1; i < argc; i++) bad |= run_file(argv[i]);
    return bad;
  }
  uint64_t state = 88172645463325252u + (argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
  Buf b = {0};
  for (long i = 0; i < runs; i++) {
    mutation(&state, &b);
    LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len);
  }
  buf_free(&b);
  printf("%ld inputs, %ld of them tokenizers\n", runs, loaded);
  return loaded == 0 && runs > 100;
}
#endif

/* The GGUF container: blocks of values, files that lie, files that are written. */
#include <unistd.h>

#include "base/half.h"
#include "base/mem.h"
#include "formats/json.h"
#include "gguf/gguf.h"
#include "gguf/gguf_write.h"
#include "status.h"

/* ---- blocks ------------------------------------------------------------------------- */

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static size_t unhex(const char *s, uint8_t *out, size_t cap) {
  size_t n = 0;
  for (; s[0] && s[1] && n < cap; s += 2)
    out[n++] = (uint8_t)(hex_digit(s[0]) << 4 | hex_digit(s[1]));
  return n;
}

TEST(blocks_hold_the_values_that_the_vectors_say) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set: no oracles");
    return;
  }
  Json *j = NULL;
  OK(json_read_file(test_path("%s/oracles/format_vectors.json", test_shared()), 1 << 24, &j));
  int seen = 0;
  for (const Json *e = json_child(json_get(j, "gguf_dequant_blocks")); e; e = json_next(e)) {
    uint8_t block[512];
    float y[GGML_MAX_BLOCK];
    GgmlType type = GGML_F32;
    while (type < GGML_COUNT && strcmp(ggml_name(type), json_key(e)) != 0) type++;
    CHECK(type < GGML_COUNT && ggml_is_read(type));
    const Json *values = json_get(e, "values");
    const size_t n = unhex(json_string(json_get(e, "hex")), block, sizeof block);
    CHECK(n == ggml_block_bytes(type));
    CHECK(json_count(values) == (size_t)ggml_block_values(type));
    ggml_decode(type, block, json_count(values), y);
    int i = 0;
    for (const Json *v = json_child(values); v; v = json_next(v), i++) {
      const float want = (float)json_number(v);
      CHECK(memcmp(&y[i], &want, sizeof want) == 0 || y[i] == want);
    }
    seen++;
  }
  CHECK(seen == 3);
  json_free(j);
}

/* Layouts without vectors: one value set by hand in each place where they differ. */
TEST(blocks_of_five_and_six_bits_put_their_bits_together) {
  uint8_t b[210] = {0};
  float y[256];
  b[0] = 0, b[1] = 0x3c; /* d = 1 */
  b[2] = 0x02, b[5] = 0x80, b[6] = 0x35, b[21] = 0x70;
  ggml_decode(GGML_Q5_0, b, 32, y); /* fifth bits of 1 and 31 */
  CHECK(y[0] == 5 - 16 && y[1] == 0 && y[16] == 3 - 16 && y[31] == 7 && y[15] == -16);
  memset(b, 0, sizeof b);
  b[1] = 0x3c, b[3] = 0xc0; /* d = 1, m = -2 */
  b[4] = 0x21, b[19] = 0xf0;
  ggml_decode(GGML_Q4_1, b, 32, y);
  CHECK(y[0] == -1 && y[16] == 0 && y[31] == 13 && y[15] == -2);
  memset(b, 0, sizeof b);
  b[1] = 0x3c, b[3] = 0xc0;
  b[4] = 0x01, b[7] = 0x80, b[8] = 0x21, b[23] = 0xf0;
  ggml_decode(GGML_Q5_1, b, 32, y);
  CHECK(y[0] == 15 && y[16] == 0 && y[31] == 29 && y[15] == -2);
  memset(b, 0, sizeof b);
  b[1] = 0x3c, b[3] = 0x3c;                          /* d = dmin = 1 */
  b[4] = 2, b[8] = 3;                                /* sub-block 0: scale 2, min 3 */
  b[4 + 9] = 0x54, b[4 + 1] = 0xc0, b[4 + 5] = 0x40; /* 5: scale 4 + 48, min 5 + 16 */
  b[16] = 0x21, b[48] = 0x0f, b[48 + 64] = 0x90;     /* value 0: 15 + 16; value 160: 9 + 16 */
  ggml_decode(GGML_Q5_K, b, 256, y);
  CHECK(y[0] == 2 * 31 - 3 && y[160] == 52 * 25 - 21 && y[1] == -3 && y[161] == -21);
  memset(b, 0, sizeof b);
  b[209] = 0x3c;
  for (int i = 0; i < 16; i++) b[192 + i] = (uint8_t)(i - 8);
  b[0] = 0x91, b[128] = 0x21, b[64 + 63] = 0x50, b[128 + 63] = 0xc0;
  ggml_decode(GGML_Q6_K, b, 256, y);
  CHECK(y[0] == -8 * (17 - 32) && y[64] == -4 * (9 + 32 - 32)); /* bits 0-1: 1, bits 4-5: 2 */
  CHECK(y[255] == 7 * (5 + 48 - 32) && y[127] == -1 * -32.0f);
}

/* A byte of exponent, then codes of a sign and three bits. */
TEST(mxfp4_has_powers_of_two_and_eight_levels) {
  uint8_t b[17] = {0}, again[17];
  float y[32];
  b[0] = 128, b[1] = 0x71, b[16] = 0xf9; /* 2 */
  ggml_decode(GGML_MXFP4, b, 32, y);
  CHECK(y[0] == 1 && y[16] == 12 && y[15] == -1 && y[31] == -12 && y[7] == 0);
  OK(ggml_encode(GGML_MXFP4, y, 32, again));
  CHECK(memcmp(b, again, sizeof b) == 0);
  memset(y, 0, sizeof y);
  y[5] = 2.6f, y[6] = 2.4f, y[7] = -1.25f, y[8] = 6.5f;
  OK(ggml_encode(GGML_MXFP4, y, 32, b));
  ggml_decode(GGML_MXFP4, b, 32, y);
  CHECK(y[5] == 3 && y[6] == 2 && y[7] == -1 && y[8] == 6);
  y[3] = 1e-44f; /* below the smallest level */
  for (int i = 0; i < 32; i++) y[i] = i == 3 ? y[i] : 0;
  OK(ggml_encode(GGML_MXFP4, y, 32, b));
  ggml_decode(GGML_MXFP4, b, 32, y);
  CHECK(y[3] == 0);
  y[3] = INFINITY;
  REFUSED(ggml_encode(GGML_MXFP4, y, 32, b), GRPO_EARG, "not finite");
}

static float noise(int i) { return sinf((float)i * 12.9898f) * expf(cosf((float)i * 0.37f)); }

TEST(what_is_quantised_comes_back_within_half_a_step) {
  enum { N = 32 * 40 };
  float x[N], y[N];
  uint8_t b[N * 4];
  for (int i = 0; i < N; i++) x[i] = noise(i);
  for (int t = 0; t < 2; t++) {
    const GgmlType type = t ? GGML_Q4_0 : GGML_Q8_0;
    OK(ggml_encode(type, x, N, b));
    ggml_decode(type, b, N, y);
    for (int k = 0; k < N; k += 32) {
      float most = 0;
      for (int i = k; i < k + 32; i++) most = fmaxf(most, fabsf(x[i]));
      const double step = t ? most / 8 : most / 127;
      /* Q4_0 has one level less on the other side; the scale is rounded to half precision */
      const double bound = t ? step * 1.01 : step * 0.5 + most * 0x1p-11;
      for (int i = k; i < k + 32; i++) CHECK_NEAR(y[i], x[i], bound);
    }
    OK(ggml_encode(type, y, N, b)); /* what was read is written as the same values */
    float z[N];
    ggml_decode(type, b, N, z);
    for (int i = 0; i < N; i++) CHECK_NEAR(z[i], y[i], fabsf(y[i]) * 0x1p-10 + 1e-7);
  }
}

TEST(halves_round_and_floats_stay) {
  const float x[] = {1, -2.5f, 1e-30f, 65504, 3.14159265f, -0.0f};
  float y[6];
  uint8_t b[64];
  OK(ggml_encode(GGML_F32, x, 6, b));
  ggml_decode(GGML_F32, b, 6, y);
  CHECK(memcmp(x, y, sizeof x) == 0);
  OK(ggml_encode(GGML_BF16, x, 6, b));
  ggml_decode(GGML_BF16, b, 6, y);
  CHECK(y[1] == -2.5f && y[4] == bf16_to_f32(f32_to_bf16(x[4])));
  OK(ggml_encode(GGML_F16, x, 6, b));
  ggml_decode(GGML_F16, b, 6, y);
  CHECK(y[3] == 65504 && y[2] == 0 && y[4] == f16_to_f32(f32_to_f16(x[4])));
}

TEST(values_that_a_block_cannot_hold_are_refused) {
  float x[32] = {0}, y[32];
  uint8_t b[64];
  for (int t = 0; t < 2; t++) {
    const GgmlType type = t ? GGML_Q4_0 : GGML_Q8_0;
    memset(x, 0, sizeof x);
    OK(ggml_encode(type, x, 32, b));
    ggml_decode(type, b, 32, y);
    for (int i = 0; i < 32; i++) CHECK(y[i] == 0);
    x[3] = 1e-44f; /* one over it is infinite */
    OK(ggml_encode(type, x, 32, b));
    x[3] = NAN;
    REFUSED(ggml_encode(type, x, 32, b), GRPO_EARG, "not finite");
    x[3] = INFINITY;
    REFUSED(ggml_encode(type, x, 32, b), GRPO_EARG, "not finite");
    x[3] = 1e30f;
    REFUSED(ggml_encode(type, x, 32, b), GRPO_EARG, "too large");
  }
}

/* ---- files made by hand ------------------------------------------------------------------ */

static void little(Buf *b, uint64_t v, int n) {
  for (int i = 0; i < n; i++) buf_putc(b, (char)(v >> 8 * i & 255));
}
static void text(Buf *b, const char *s) {
  little(b, strlen(s), 8);
  buf_puts(b, s);
}
static void begin(Buf *b, uint64_t ntensors, uint64_t nvalues) {
  buf_clear(b);
  buf_puts(b, "GGUF");
  little(b, 3, 4);
  little(b, ntensors, 8);
  little(b, nvalues, 8);
}
static void key(Buf *b, const char *name, int type) {
  text(b, name);
  little(b, (uint64_t)type, 4);
}
static void tensor(Buf *b, const char *name, int ndim, const uint64_t *dim, int type,
                   uint64_t offset) {
  text(b, name);
  little(b, (uint64_t)ndim, 4);
  for (int i = 0; i < ndim; i++) little(b, dim[i], 8);
  little(b, (uint64_t)type, 4);
  little(b, offset, 8);
}
static void data(Buf *b, size_t n) {
  while (b->len % 32) buf_putc(b, 0);
  for (size_t i = 0; i < n; i++) buf_putc(b, (char)i);
}

static Status open_bytes(const char *bytes, size_t n) {
  Gguf g;
  const char *path = test_path("%s/hostile.gguf", test_tmp());
  OK(file_replace(path, bytes, n));
  Status s = gguf_open(&g, path);
  if (s != GRPO_OK) CHECK(strncmp(err_message(), path, strlen(path)) == 0 && !g.file);
  gguf_close(&g);
  return s;
}
#define OPEN(b) open_bytes((b).data, (b).len)
static const uint64_t four[] = {4, 1, 1, 1}, wide[] = {1ull << 33, 1ull << 33, 1, 1};
static const uint64_t two_by_three[] = {3, 2}, none[] = {0};

TEST(a_file_made_by_hand_is_read) {
  Buf b = {0};
  Gguf g;
  begin(&b, 2, 5);
  key(&b, "general.alignment", GGUF_U32), little(&b, 64, 4);
  key(&b, "z", GGUF_STRING), text(&b, "w\xc3\xb6rd");
  key(&b, "a", GGUF_ARRAY), little(&b, GGUF_STRING, 4), little(&b, 3, 8);
  text(&b, "x"), text(&b, ""), text(&b, "yz");
  key(&b, "n", GGUF_I8), little(&b, 0xfe, 1);
  key(&b, "empty", GGUF_ARRAY), little(&b, GGUF_I32, 4), little(&b, 0, 8);
  tensor(&b, "t", 2, two_by_three, 0, 0);
  tensor(&b, "half", 1, four, 1, 64);
  while (b.len % 64) buf_putc(&b, 0);
  for (int i = 0; i < 16; i++) little(&b, 0x3f800000u + ((uint64_t)i << 23), 4);
  little(&b, 0x3c00, 2), little(&b, 0x4000, 2), little(&b, 0xc000, 2), little(&b, 1, 2);
  const char *path = test_path("%s/good.gguf", test_tmp());
  OK(file_replace(path, b.data, b.len)); /* without the padding after the last tensor */
  CHECK(gguf_is(path));
  OK(gguf_open(&g, path));
  const GgufTensor *t = gguf_tensor(&g, "t"), *h = gguf_tensor(&g, "half");
  CHECK(t && t->ndim == 2 && t->dim[0] == 2 && t->dim[1] == 3 && t->n == 6);
  float y[4];
  gguf_read(t, 1, 2, y);
  CHECK(y[0] == 2 && y[1] == 4);
  gguf_read(h, 0, 4, y);
  CHECK(y[0] == 1 && y[1] == 2 && y[2] == -2 && y[3] == 0x1p-24f);
  int64_t n = 7;
  bool found, flag = true;
  const char *s;
  size_t len;
  OK(gguf_get_int(&g, "n", -5, 5, &n, &found));
  CHECK(n == -2 && found);
  REFUSED(gguf_get_int(&g, "n", 0, 5, &n, NULL), GRPO_EFORMAT, "'n' = -2 is outside 0 .. 5");
  REFUSED(gguf_get_int(&g, "z", 0, 5, &n, NULL), GRPO_EFORMAT, "'z' is string, want an integer");
  REFUSED(gguf_get_bool(&g, "n", &flag, NULL), GRPO_EFORMAT, "'n' is i8, want a bool");
  REFUSED(gguf_get_string(&g, "a", &s, &len, NULL), GRPO_EFORMAT, "an array of string");
  OK(gguf_get_int(&g, "missing", 0, 5, &n, &found));
  CHECK(n == -2 && !found);
  OK(gguf_get_string(&g, "z", &s, &len, NULL));
  CHECK(len == 5 && memcmp(s, "w\xc3\xb6rd", 5) == 0);
  const GgufValue *a;
  OK(gguf_get_array(&g, "a", GGUF_STRING, &a));
  CHECK(a && a->count == 3);
  const char *at = a->data;
  gguf_next_string(&at, &s, &len);
  gguf_next_string(&at, &s, &len);
  CHECK(len == 0);
  gguf_next_string(&at, &s, &len);
  CHECK(len == 2 && memcmp(s, "yz", 2) == 0 && at == a->data + a->bytes);
  REFUSED(gguf_get_array(&g, "a", GGUF_I32, &a), GRPO_EFORMAT, "want an array of i32");
  gguf_close(&g);
  buf_free(&b);
}

/* The header is read in steps, which end in the middle of keys, strings and arrays. */
TEST(a_header_of_several_megabytes_is_read) {
  enum { KEYS = 500, LONG = 10007 };
  Buf b = {0};
  Gguf g;
  const char *path = test_path("%s/long.gguf", test_tmp());
  begin(&b, 1, KEYS + 1);
  for (int i = 0; i < KEYS; i++) {
    char name[16], value[LONG + 1];
    snprintf(name, sizeof name, "key%d", i);
    memset(value, 'a' + i % 26, LONG);
    value[LONG] = 0;
    key(&b, name, GGUF_STRING), text(&b, value);
  }
  key(&b, "numbers", GGUF_ARRAY), little(&b, GGUF_I32, 4), little(&b, 1000000, 8);
  for (uint64_t i = 0; i < 1000000; i++) little(&b, i, 4);
  tensor(&b, "t", 1, four, 0, 0);
  data(&b, 16);
  OK(file_replace(path, b.data, b.len));
  REQUIRE(gguf_open(&g, path));
  for (int i = 0; i < KEYS; i++) {
    char name[16];
    const char *s;
    size_t n = 0;
    snprintf(name, sizeof name, "key%d", i);
    OK(gguf_get_string(&g, name, &s, &n, NULL));
    CHECK(n == LONG && s[0] == 'a' + i % 26 && s[LONG - 1] == s[0]);
  }
  const GgufValue *numbers;
  OK(gguf_get_array(&g, "numbers", GGUF_I32, &numbers));
  CHECK(numbers->count == 1000000 && gguf_int_at(numbers, 999999) == 999999);
  float x[4];
  OK(gguf_read(gguf_tensor(&g, "t"), 0, 4, x));
  CHECK(truncate(path, (off_t)b.len - 2) == 0);
  REFUSED(gguf_read(gguf_tensor(&g, "t"), 0, 4, x), GRPO_EFORMAT, "the file was cut");
  OK(gguf_read(gguf_tensor(&g, "t"), 0, 3, x));
  gguf_close(&g);
  REFUSED(open_bytes(b.data, 3 << 20), GRPO_EFORMAT, "past the end of the file");
  buf_free(&b);
}

TEST(headers_that_lie_are_refused) {
  Buf b = {0};
  REFUSED(open_bytes("", 0), GRPO_EFORMAT, "does not begin with 'GGUF'");
  REFUSED(open_bytes("GGU", 3), GRPO_EFORMAT, "does not begin with 'GGUF'");
  REFUSED(open_bytes("GGUFxx", 6), GRPO_EFORMAT, "cut off in the header");
  REFUSED(open_bytes("GGUF\1\0\0\0", 8), GRPO_EFORMAT, "GGUF version 1; only version 3");
  REFUSED(open_bytes("GGUF\0\0\0\3", 8), GRPO_EFORMAT, "big-endian");
  REFUSED(open_bytes("GGUF\3\0\0\0\0\0\0\0", 12), GRPO_EFORMAT, "cut off in the header");
  begin(&b, 0, UINT64_MAX);
  REFUSED(OPEN(b), GRPO_EFORMAT, "18446744073709551615 keys are too many");
  begin(&b, UINT64_MAX, 0);
  REFUSED(OPEN(b), GRPO_EFORMAT, "18446744073709551615 tensors are too many");
  begin(&b, 1, 0);
  REFUSED(OPEN(b), GRPO_EFORMAT, "1 tensors are too many");
  REFUSED(gguf_open(&(Gguf){0}, "/nowhere/x.gguf"), GRPO_ENOENT, "/nowhere/x.gguf");
  CHECK(gguf_is("/nowhere/x.gguf") && !gguf_is("/nowhere/x") && !gguf_is(test_tmp()));
  begin(&b, 0, 0);
  OK(OPEN(b));
  buf_free(&b);
}

/* One key with its value and room behind it. */
static Status open_key(Buf *b, const char *name, int type, uint64_t value, int bytes) {
  begin(b, 0, 1);
  key(b, name, type);
  little(b, value, bytes);
  for (int i = 0; i < 8; i++) little(b, 0, 8);
  return OPEN(*b);
}

TEST(keys_that_lie_are_refused) {
  Buf b = {0};
  REFUSED(open_key(&b, "", GGUF_U32, 1, 4), GRPO_EFORMAT, "key 1 has 0 bytes");
  REFUSED(open_key(&b, "a\nb", GGUF_U32, 1, 4), GRPO_EFORMAT, "key 1 is not printable ASCII");
  REFUSED(open_key(&b, "k", 13, 1, 4), GRPO_EFORMAT, "'k' has type 13, which is unknown");
  REFUSED(open_key(&b, "k", GGUF_BOOL, 2, 1), GRPO_EFORMAT, "'k': a bool is 2");
  REFUSED(open_key(&b, "k", GGUF_STRING, 1000, 8), GRPO_EFORMAT, "past the end of the file");
  REFUSED(open_key(&b, "k", GGUF_STRING, UINT64_MAX, 8), GRPO_EFORMAT, "past the end");
  begin(&b, 0, 1), little(&b, 1ull << 40, 8), data(&b, 64);
  REFUSED(OPEN(b), GRPO_EFORMAT, "string of 1099511627776 bytes in a key goes past the end");
  static const struct {
    int element;
    uint64_t count;
    const char *words;
  } arrays[] = {
      {GGUF_ARRAY, 1, "'k': arrays of arrays are not supported"},
      {GGUF_U64, 9, "'k': 9 values of type u64 go past the end"},
      {GGUF_U8, UINT64_MAX, "go past the end"},
      {GGUF_U64, 1ull << 61, "go past the end"},
      {GGUF_STRING, 1ull << 61, "go past the end"},
      {GGUF_STRING, 8, ""},
      {13, 1, "'k' has type 13"},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    begin(&b, 0, 1);
    key(&b, "k", GGUF_ARRAY);
    little(&b, (uint64_t)arrays[i].element, 4);
    little(&b, arrays[i].count, 8);
    for (int k = 0; k < 8; k++) little(&b, 0, 8);
    if (*arrays[i].words)
      REFUSED(OPEN(b), GRPO_EFORMAT, arrays[i].words);
    else
      OK(OPEN(b));
  }
  begin(&b, 0, 2);
  for (int i = 0; i < 2; i++) key(&b, "twice", GGUF_U32), little(&b, 1, 4);
  REFUSED(OPEN(b), GRPO_EFORMAT, "key 'twice' occurs twice");
  buf_free(&b);
}

typedef struct Lie {
  const char *name;
  int ndim;
  const uint64_t *dim;
  int type;
  uint64_t offset;
  const char *words;
} Lie;

TEST(tensors_that_lie_are_refused) {
  static const char longest[] = "0123456789012345678901234567890123456789012345678901234567890123";
  static const uint64_t wraps[] = {32, 1ull << 58}, block[] = {31, 1};
  const Lie lies[] = {
      {"", 1, four, 0, 0, "the name of tensor 1 has 0 bytes"},
      {longest, 1, four, 0, 0, "the name of tensor 1 has 64 bytes"},
      {"a\nb", 1, four, 0, 0, "tensor 1 is not text"},
      {"\xff", 1, four, 0, 0, "tensor 1 is not text"},
      {"t", 0, four, 0, 0, "'t' has 0 dimensions"},
      {"t", 5, (const uint64_t[]){1, 1, 1, 1, 1}, 0, 0, "'t' has 5 dimensions"},
      {"t", 1, none, 0, 0, "'t': a dimension is 0"},
      {"t", 2, wide, 0, 0, "'t': the shape overflows"},
      {"t", 2, wraps, 28, 0, "'t': the shape overflows"},
      {"t", 1, four, 4, 0, "'t' has type 4, which is not supported"},
      {"t", 1, four, -1, 0, "'t' has type 4294967295"},
      {"t", 2, block, 8, 0, "rows of 31 values are not whole blocks of Q8_0"},
      {"t", 1, four, 0, 32, "'t' begins at byte 32, but 0 is next"},
      {"t", 1, four, 0, 4, "'t' begins at byte 4, but 0 is next"},
      {"t", 1, (const uint64_t[]){33}, 0, 0, "'t' ends past the end of the file"},
      {"t", 1, (const uint64_t[]){1ull << 60}, 0, 0, "'t' ends past the end of the file"},
      {"t", 1, (const uint64_t[]){8}, 0, 0, "96 bytes after the last tensor"},
  };
  Buf b = {0};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    const Lie *l = &lies[i];
    begin(&b, 1, 0);
    tensor(&b, l->name, l->ndim, l->dim, l->type, l->offset);
    data(&b, 128);
    REFUSED(OPEN(b), GRPO_EFORMAT, l->words);
  }
  buf_free(&b);
}

TEST(tensors_that_do_not_fit_together_are_refused) {
  static const uint64_t offsets[][2] = {{0, 0}, {0, 16}, {0, 64}, {32, 0}};
  Buf b = {0};
  for (size_t i = 0; i < 4; i++) {
    begin(&b, 2, 0);
    tensor(&b, "a", 1, four, 0, offsets[i][0]);
    tensor(&b, "b", 1, four, 0, offsets[i][1]);
    data(&b, 128);
    REFUSED(OPEN(b), GRPO_EFORMAT, "is next");
  }
  begin(&b, 2, 0);
  tensor(&b, "a", 1, four, 0, 0);
  tensor(&b, "a", 1, four, 0, 32);
  data(&b, 48);
  REFUSED(OPEN(b), GRPO_EFORMAT, "tensor 'a' occurs twice");
  static const uint64_t bad[] = {0, 3, 48, 1u << 30};
  for (size_t i = 0; i < 4; i++) {
    begin(&b, 1, 1);
    key(&b, "general.alignment", GGUF_U32), little(&b, bad[i], 4);
    tensor(&b, "a", 1, four, 0, 0);
    data(&b, 16);
    REFUSED(OPEN(b), GRPO_EFORMAT, "general.alignment");
  }
  begin(&b, 1, 1);
  key(&b, "general.alignment", GGUF_STRING), text(&b, "x");
  tensor(&b, "a", 1, four, 0, 0);
  REFUSED(OPEN(b), GRPO_EFORMAT, "general.alignment' is string");
  buf_free(&b);
}

/* ---- writing ------------------------------------------------------------------------------- */

enum { ROWS = 3, COLUMNS = 64 };

static void put_meta(GgufMeta *m) {
  gguf_put_string(m, "general.architecture", "test", 4);
  gguf_put_u32(m, "u", 7);
  gguf_put_f32(m, "f", 0.5f);
  gguf_put_f64(m, "d", 1e-6);
  gguf_put_bool(m, "b", true);
  gguf_put_array(m, "strings", GGUF_STRING, 2);
  gguf_element_string(m, "x", 1);
  gguf_element_string(m, "", 0);
  gguf_put_array(m, "ints", GGUF_I32, 2);
  gguf_element_i32(m, -1);
  gguf_element_i32(m, 2);
  gguf_put_array(m, "floats", GGUF_F32, 1);
  gguf_element_f32(m, -1.5f);
}

static Status write_all(const char *path, const float *x) {
  static const GgmlType types[] = {GGML_F32, GGML_F16, GGML_BF16, GGML_Q8_0, GGML_Q4_0};
  GgufMeta m = {0};
  GgufEntry e[6];
  GgufWriter *w = NULL;
  put_meta(&m);
  for (int i = 0; i < 6; i++) {
    e[i] = (GgufEntry){.type = i < 5 ? types[i] : GGML_F32, .ndim = i < 5 ? 2 : 1};
    snprintf(e[i].name, sizeof e[i].name, "t%d", i);
    e[i].dim[0] = i < 5 ? ROWS : 5;
    e[i].dim[1] = COLUMNS;
  }
  Status s = gguf_writer_open(&w, path, &m, 6, e);
  for (int i = 0; i < 6 && s == GRPO_OK; i++)
    for (int r = 0; r < (i < 5 ? ROWS : 1) && s == GRPO_OK; r++)
      s = gguf_writer_put(w, x + r * COLUMNS, i < 5 ? COLUMNS : 5);
  gguf_meta_free(&m);
  if (s == GRPO_OK) return gguf_writer_commit(w);
  gguf_writer_abort(w);
  return s;
}

TEST(what_is_written_is_read_back) {
  float x[ROWS * COLUMNS], y[ROWS * COLUMNS], part[9];
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = noise(i);
  const char *path = test_path("%s/written.gguf", test_tmp());
  OK(write_all(path, x));
  Gguf g;
  OK(gguf_open(&g, path));
  CHECK(g.ntensors == 6 && g.nvalues == 8 && file_input_size(g.file) % 32 == 0);
  static const double bound[] = {0, 0x1p-11, 0x1p-8, 0.02, 0.4};
  for (int i = 0; i < 5; i++) {
    const GgufTensor *t = gguf_tensor(&g, test_path("t%d", i));
    CHECK(t && t->ndim == 2 && t->dim[0] == ROWS && t->dim[1] == COLUMNS);
    gguf_read(t, 0, t->n, y);
    for (uint64_t k = 0; k < t->n; k++)
      CHECK_NEAR(y[k], x[k], i < 3 ? bound[i] * fabsf(x[k]) : bound[i]);
    gguf_read(t, 30, 9, part); /* across a block's end */
    CHECK(memcmp(part, y + 30, sizeof part) == 0);
  }
  CHECK(gguf_tensor(&g, "t5")->n == 5 && gguf_tensor(&g, "t6") == NULL);
  double d = 0;
  bool b = false;
  OK(gguf_get_number(&g, "d", &d, NULL));
  CHECK(d == 1e-6);
  OK(gguf_get_number(&g, "f", &d, NULL));
  CHECK(d == 0.5);
  OK(gguf_get_bool(&g, "b", &b, NULL));
  CHECK(b);
  CHECK(gguf_int_at(gguf_find(&g, "ints"), 0) == -1);
  CHECK(gguf_number_at(gguf_find(&g, "floats"), 0) == -1.5);
  gguf_close(&g);
}

TEST(every_prefix_of_a_file_is_refused) {
  float x[ROWS * COLUMNS] = {0};
  const char *path = test_path("%s/whole.gguf", test_tmp());
  OK(write_all(path, x));
  Buf b = {0};
  OK(file_read(path, 0, &b));
  for (size_t n = 0; n < b.len; n += n < 900 ? 1 : 31) {
    const Status s = open_bytes(b.data, n);
    if (s == GRPO_OK) CHECK(b.len - n < GGUF_ALIGNMENT); /* only padding is missing */
    if (s != GRPO_OK) CHECK(s == GRPO_EFORMAT && !strchr(err_message(), '\n'));
  }
  buf_putc(&b, 0);
  REFUSED(OPEN(b), GRPO_EFORMAT, "1 bytes after the last tensor");
  buf_free(&b);
}

TEST(a_writer_that_was_not_given_everything_leaves_nothing) {
  const char *path = test_path("%s/missing.gguf", test_tmp());
  GgufEntry e = {"t", GGML_F32, 1, {4}};
  GgufMeta m = {0};
  GgufWriter *w = NULL;
  float x[8] = {0};
  OK(gguf_writer_open(&w, path, &m, 1, &e));
  OK(gguf_writer_put(w, x, 3));
  REFUSED(gguf_writer_commit(w), GRPO_EARG, "fewer values");
  OK(gguf_writer_open(&w, path, &m, 1, &e));
  REFUSED(gguf_writer_put(w, x, 5), GRPO_EARG, "more values");
  gguf_writer_abort(w);
  CHECK(!file_exists(path));
  e.type = GGML_Q8_0;
  REFUSED(gguf_writer_open(&w, path, &m, 1, &e), GRPO_EARG, "cannot be written as Q8_0");
  e.type = GGML_Q6_K;
  REFUSED(gguf_writer_open(&w, path, &m, 1, &e), GRPO_EARG, "cannot be written as Q6_K");
}

TEST(no_memory_is_a_status_when_a_file_is_opened) {
  float x[ROWS * COLUMNS] = {0};
  const char *path = test_path("%s/oom.gguf", test_tmp());
  OK(write_all(path, x));
  for (uint64_t n = 1; n < 20; n++) {
    Gguf g;
    mem_fail_after(n);
    Status s = gguf_open(&g, path);
    mem_fail_after(0);
    if (s != GRPO_OK) CHECK(s == GRPO_ENOMEM);
    gguf_close(&g);
    if (s == GRPO_OK) return;
  }
  test_fail(__FILE__, __LINE__, "the file never opened");
}

#include <stdlib.h>

#include "base/crc32c.h"
#include "formats/json.h"
#include "testing.h"

/* The definition, a bit at a time. */
static uint32_t slow(uint32_t crc, const unsigned char *p, size_t n) {
  crc = ~crc;
  while (n--) {
    crc ^= *p++;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(known_sums) {
  unsigned char b[32];
  CHECK(crc32c(0, "123456789", 9) == 0xe3069283u && crc32c(0, "", 0) == 0);
  memset(b, 0, sizeof b);
  CHECK(crc32c(0, b, sizeof b) == 0x8a9136aau);
  memset(b, 255, sizeof b);
  CHECK(crc32c(0, b, sizeof b) == 0x62a8ab43u);
  for (int i = 0; i < 32; i++) b[i] = (unsigned char)i;
  CHECK(crc32c(0, b, sizeof b) == 0x46dd794eu);
}

TEST(any_length_and_alignment_agrees_with_the_definition) {
  unsigned char b[300];
  for (size_t i = 0; i < sizeof b; i++) b[i] = (unsigned char)(i * 151 + i / 7);
  for (size_t at = 0; at < 9; at++)
    for (size_t n = 0; at + n <= sizeof b; n++) CHECK(crc32c(0, b + at, n) == slow(0, b + at, n));
  for (size_t cut = 0; cut <= sizeof b; cut++)
    CHECK(crc32c(crc32c(0, b, cut), b + cut, sizeof b - cut) == slow(0, b, sizeof b));
}

TEST(the_table_agrees_with_the_instruction) {
  unsigned char b[300];
  for (size_t i = 0; i < sizeof b; i++) b[i] = (unsigned char)(i * 7 + i / 3);
  for (size_t n = 0; n < sizeof b; n++) CHECK(crc32c_by_table(5, b, n) == slow(5, b, n));
}

static size_t from_hex(const char *hex, unsigned char *out) {
  const size_t n = strlen(hex) / 2;
  for (size_t i = 0; i < n; i++) {
    const char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
    out[i] = (unsigned char)strtoul(pair, NULL, 16);
  }
  return n;
}

TEST(format_vectors) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set");
    return;
  }
  Json *j = NULL;
  CHECK(json_read_file(test_path("%s/oracles/format_vectors.json", test_shared()), 0, &j) ==
        GRPO_OK);
  if (!j) return;
  int cases = 0;
  for (const Json *c = json_child(json_get(j, "crc32c")); c; c = json_next(c), cases++) {
    unsigned char bytes[256];
    const size_t n = from_hex(json_string(json_get(c, "hex")), bytes);
    CHECK(crc32c(0, bytes, n) == strtoul(json_string(json_get(c, "crc32c")), NULL, 16));
  }
  CHECK(cases > 0);
  json_free(j);
}

/* Known sums: those of FIPS 180-4, and what sha1sum and sha256sum print. */
#include "base/digest.h"

#include <string.h>

#include "testing.h"

static const char *sum_of(DigestKind kind, const void *data, size_t n, size_t step) {
  static char hex[DIGEST_HEX_BYTES];
  Digest d;
  digest_begin(&d, kind);
  for (size_t i = 0; i < n; i += step)
    digest_put(&d, (const char *)data + i, n - i < step ? n - i : step);
  digest_end(&d, hex);
  return hex;
}

TEST(sha1_gives_known_sums) {
  CHECK_STR(sum_of(DIGEST_SHA1, "", 0, 1), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK_STR(sum_of(DIGEST_SHA1, "abc", 3, 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK_STR(sum_of(DIGEST_SHA1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 7),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

TEST(sha256_gives_known_sums) {
  CHECK_STR(sum_of(DIGEST_SHA256, "", 0, 1),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_STR(sum_of(DIGEST_SHA256, "abc", 3, 1),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_STR(
      sum_of(DIGEST_SHA256, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 9),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(nothing_may_be_put_from_nowhere) {
  static char hex[DIGEST_HEX_BYTES];
  Digest d;
  digest_begin(&d, DIGEST_SHA1);
  digest_put(&d, NULL, 0);
  digest_put(&d, "ab", 2);
  digest_put(&d, NULL, 0);
  digest_put(&d, "c", 1);
  digest_end(&d, hex);
  CHECK_STR(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(a_million_letters) {
  static char text[1000000];
  memset(text, 'a', sizeof text);
  CHECK_STR(sum_of(DIGEST_SHA1, text, sizeof text, 4096),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  CHECK_STR(sum_of(DIGEST_SHA256, text, sizeof text, 999),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(the_pieces_do_not_matter) {
  char text[300], whole[DIGEST_HEX_BYTES];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7 + 3);
  for (int kind = DIGEST_SHA1; kind <= DIGEST_SHA256; kind++) {
    for (size_t n = 0; n < sizeof text; n++) {
      strcpy(whole, sum_of(kind, text, n, sizeof text));
      CHECK_STR(sum_of(kind, text, n, 1 + n % 70), whole);
    }
  }
}

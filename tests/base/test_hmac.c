/* The vectors of RFC 4231. */
#include "base/hmac.h"

#include <string.h>

#include "testing.h"

static const char *mac_of(const void *key, size_t key_len, const void *data, size_t n) {
  static char hex[DIGEST_HEX_BYTES];
  hmac_sha256(key, key_len, data, n, hex);
  return hex;
}

TEST(known_sums_come_out) {
  char key[131], data[50];
  memset(key, 0x0b, 20);
  CHECK_STR(mac_of(key, 20, "Hi There", 8),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK_STR(mac_of("Jefe", 4, "what do ya want for nothing?", 28),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, 20);
  memset(data, 0xdd, 50);
  CHECK_STR(mac_of(key, 20, data, 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  memset(key, 0xaa, 131);
  CHECK_STR(mac_of(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(an_empty_key_and_empty_data_have_a_sum) {
  CHECK_STR(mac_of(NULL, 0, NULL, 0),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(bytes_are_compared_whole) {
  CHECK(hmac_equal("abc", "abc", 3) && hmac_equal("abc", "abd", 2) && hmac_equal("a", "b", 0));
  CHECK(!hmac_equal("abc", "abd", 3) && !hmac_equal("xbc", "abc", 3));
}

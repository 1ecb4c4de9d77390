#include "base/buf.h"
#include "base/mem.h"
#include "testing.h"

TEST(appending_grows_and_ends_with_nul) {
  Buf b = {0};
  for (int i = 0; i < 10000; i++) {
    buf_putc(&b, (char)('a' + i % 26));
    CHECK(b.data[b.len] == 0);
  }
  CHECK(b.len == 10000 && b.data[9999] == 'a' + 9999 % 26);
  buf_clear(&b);
  CHECK_STR(b.data, "");
  buf_puts(&b, "one ");
  buf_printf(&b, "%d %s", 2, "three");
  buf_put(&b, "\0x", 2);
  buf_put(&b, NULL, 0);
  CHECK(b.len == 13 && memcmp(b.data, "one 2 three\0x", 14) == 0);
  buf_free(&b);
  CHECK(b.data == NULL && b.len == 0);
}

TEST(a_reused_buffer_stops_allocating) {
  Buf b = {0};
  buf_printf(&b, "%500d", 1);
  const uint64_t before = mem_allocations();
  for (int i = 0; i < 50; i++) {
    buf_clear(&b);
    buf_printf(&b, "%500d", i);
  }
  CHECK(mem_allocations() == before);
  buf_free(&b);
}

TEST(a_failed_growth_is_remembered) {
  Buf b = {0};
  buf_puts(&b, "kept");
  mem_fail_after(1);
  buf_printf(&b, "%500d", 1);
  mem_fail_after(0);
  buf_puts(&b, "not appended");
  CHECK_STR(b.data, "kept");
  CHECK(buf_status(&b) == GRPO_ENOMEM);
  buf_clear(&b);
  buf_puts(&b, "again");
  CHECK(buf_status(&b) == GRPO_OK);
  buf_put(&b, "", (size_t)-1); /* would overflow: refused before anything is read */
  CHECK(buf_status(&b) == GRPO_ENOMEM);
  buf_free(&b);
}

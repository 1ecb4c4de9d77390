#include <stdint.h>

#include "base/mem.h"
#include <stdio.h>

#include "testing.h"

TEST(what_is_given_back_is_no_longer_counted) {
  const size_t live = mem_live_bytes();
  const uint64_t count = mem_allocations();
  char *a = mem_alloc(1000), *z = mem_zalloc(500), *s = mem_strdup("word"),
       *t = mem_strndup("word", 2);
  CHECK(mem_allocations() == count + 4);
  CHECK(mem_live_bytes() >= live + 1508 && mem_live_bytes() < live + 1800);
  for (int i = 0; i < 500; i++) CHECK(z[i] == 0);
  CHECK_STR(s, "word");
  CHECK_STR(t, "wo");
  a = mem_realloc(a, 100000);
  CHECK(mem_live_bytes() >= live + 100508);
  a = mem_realloc(a, 10);
  mem_free(a), mem_free(z), mem_free(s), mem_free(t), mem_free(NULL);
  CHECK(mem_live_bytes() == live);
}

TEST(aligned_memory_is_aligned) {
  static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
  const size_t live = mem_live_bytes();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *p = mem_alloc_aligned(sizes[i]);
    const size_t align = sizes[i] >= 2 << 20 ? 2 << 20 : 64;
    CHECK(p && (uintptr_t)p % align == 0);
    memset(p, 1, sizes[i]);
    mem_free_aligned(p);
  }
  CHECK(mem_live_bytes() == live);
}

TEST(impossible_sizes_are_null) {
  volatile size_t most = SIZE_MAX; /* so that the compiler does not warn */
  CHECK(mem_alloc_aligned(most) == NULL && mem_alloc_aligned(most - 100) == NULL);
}

TEST(the_nth_allocation_fails_and_only_that) {
  void *p = mem_alloc(8), *q;
  mem_fail_after(2);
  CHECK((q = mem_alloc(8)) != NULL);
  mem_free(q);
  CHECK(mem_realloc(p, 16) == NULL);
  CHECK((q = mem_alloc(8)) != NULL);
  mem_free(q);
  mem_fail_after(1);
  CHECK(mem_zalloc(8) == NULL);
  mem_fail_after(1);
  CHECK(mem_strdup("x") == NULL);
  mem_fail_after(1);
  CHECK(mem_alloc_aligned(8) == NULL);
  mem_fail_after(1);
  mem_fail_after(0);
  CHECK((q = mem_alloc(8)) != NULL);
  mem_free(q);
  mem_free(p); /* still owned after the failed realloc */
}

TEST(the_machine_has_memory) {
  CHECK(mem_peak_rss() > 1 << 20);
  CHECK(mem_available() > 1 << 20);
}

/* Sizes around whole pages: a copy of more than the owner's bytes would leave the block. */
TEST(a_measured_block_grows_with_its_contents) {
  enum { LARGE = 256 << 10, STEPS = 300 };
  const size_t live = mem_live_bytes();
  mem_measure_begin();
  for (size_t i = 0; i < 2 * STEPS; i++) {
    const size_t bytes = i < STEPS ? 1 + i : LARGE - STEPS / 2 + i - STEPS;
    char *p = mem_alloc(bytes);
    CHECK(p != NULL);
    p[0] = 1;
    p[bytes - 1] = 2;
    char *q = mem_realloc(p, bytes + LARGE);
    CHECK(q != NULL && (bytes == 1 || q[0] == 1) && q[bytes - 1] == 2);
    mem_free(q);
  }
  CHECK(mem_live_bytes() == 0);
  mem_measure_end();
  CHECK(mem_live_bytes() == live);
}

TEST(what_a_limit_refused_last_is_known) {
  size_t in_use = 1;
  mem_set_limit(mem_live_bytes() + 10000, 0);
  CHECK(mem_refused(&in_use) == 0);
  char *a = mem_alloc(3000);
  const size_t held = mem_live_bytes();
  CHECK(a && mem_alloc(20000) == NULL);
  CHECK(mem_refused(&in_use) == 20000 && in_use == held);
  char *small = mem_raw(NULL, 0, 100), *b; /* an error message, say */
  CHECK(small && mem_refused(&in_use) == 20000);
  CHECK(mem_raw(NULL, 0, 8000) == NULL);
  CHECK(mem_refused(&in_use) == 8000 && in_use == held + 100);
  mem_free(a);
  b = mem_raw(NULL, 0, 8000); /* Lua asks again when it has collected its garbage */
  CHECK(b && mem_refused(&in_use) == 0);
  mem_raw(small, 100, 0);
  mem_raw(b, 8000, 0);
  mem_set_limit(0, 0);
}

TEST(a_limit_is_obeyed_by_all_blocks_together) {
  const size_t held = mem_live_bytes();
  mem_set_limit(held + 10000, 2000);
  char *a = mem_alloc(5000), *b = mem_raw(NULL, 0, 2000);
  CHECK(a && b);
  CHECK(mem_alloc(2000) == NULL && mem_zalloc(2000) == NULL && mem_alloc_aligned(2000) == NULL);
  CHECK(mem_raw(NULL, 0, 2000) == NULL && mem_raw(b, 2000, 4000) == NULL);
  CHECK(mem_realloc(a, 9000) == NULL);
  CHECK(mem_available() < 2000 && mem_total() == held + 10000);
  mem_raw(b, 2000, 0);
  a = mem_realloc(a, 6000);
  CHECK(a != NULL);
  mem_set_limit(0, 0);
  b = mem_alloc(20000);
  CHECK(b != NULL);
  mem_free(a);
  mem_free(b);
  CHECK(mem_live_bytes() == held);
}

/* MiB of this process that are in memory */
static double resident(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return (double)pages * 4096 / (1 << 20);
}

/* The small matrices of a mixture with many experts. */
TEST(measured_blocks_take_no_memory) {
  enum { BLOCKS = 4096, BYTES = 64 << 10 };
  static void *block[BLOCKS];
  const double before = resident();
  if (before == 0) {
    test_skip("/proc is not there");
    return;
  }
  mem_measure_begin();
  for (int i = 0; i < BLOCKS; i++) CHECK((block[i] = mem_alloc_aligned(BYTES)) != NULL);
  CHECK(mem_live_bytes() >= (size_t)BLOCKS * BYTES);
  CHECK(resident() - before < 32);
  for (int i = 0; i < BLOCKS; i++) mem_free_aligned(block[i]);
  mem_measure_end();
}

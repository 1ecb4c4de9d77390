#include <stdint.h>

#include "base/arena.h"
#include "base/mem.h"
#include "testing.h"

static size_t size_of(int i) { return (size_t)(i * 7919 % 40000) + (i % 17 == 0 ? 900000 : 0); }

TEST(memory_is_aligned_apart_and_stays_in_place) {
  Arena a = {0};
  enum { N = 200 };
  unsigned char *p[N];
  for (int i = 0; i < N; i++) {
    p[i] = arena_alloc(&a, size_of(i));
    CHECK(p[i] && (uintptr_t)p[i] % 64 == 0);
    memset(p[i], i, size_of(i));
  }
  for (int i = 0; i < N; i++)
    for (size_t k = 0; k < size_of(i); k += 997) CHECK(p[i][k] == i);
  const float *z = arena_zalloc(&a, 4000);
  for (int i = 0; i < 1000; i++) CHECK(z[i] == 0);
  CHECK(arena_alloc(&a, 0) != NULL);
  arena_free(&a);
}

TEST(a_steady_state_never_allocates) {
  Arena a = {0};
  uint64_t after_first = 0;
  for (int step = 0; step < 5; step++) {
    for (int i = 0; i < 300; i++) CHECK(arena_alloc(&a, size_of(i)) != NULL);
    if (step == 0) after_first = mem_allocations();
    arena_reset(&a);
  }
  CHECK(mem_allocations() == after_first);
  CHECK(a.epoch == 5);
  arena_free(&a);
}

TEST(a_reserve_of_the_high_mark_serves_any_order) {
  Arena a = {0};
  CHECK(arena_alloc(&a, 100) != NULL); /* a small block is in the chain first */
  arena_reset(&a);
  size_t total = 0;
  for (int i = 0; i < 300; i++) total += (size_of(i) + 63) / 64 * 64;
  CHECK(arena_reserve(&a, total) == GRPO_OK && arena_reserve(&a, total) == GRPO_OK);
  const uint64_t before = mem_allocations();
  for (int step = 0; step < 7; step++) {
    for (int i = 0; i < 300; i++) CHECK(arena_alloc(&a, size_of(i * 7 + step) % 30000) != NULL);
    arena_reset(&a);
    for (int i = 300; i-- > 0;) CHECK(arena_alloc(&a, size_of(i)) != NULL);
    CHECK(a.total == total);
    arena_reset(&a);
  }
  CHECK(mem_allocations() == before && a.high == total);
  arena_free(&a);
}

TEST(a_mark_brings_back_the_same_memory) {
  Arena a = {0};
  const ArenaMark empty = arena_mark(&a);
  char *first = arena_alloc(&a, 100);
  const ArenaMark m = arena_mark(&a);
  char *x = arena_alloc(&a, 1000);
  CHECK(arena_alloc(&a, 5 << 20) != NULL); /* another block */
  arena_release(&a, m);
  CHECK(a.total == 128 && a.epoch == 0);
  CHECK(arena_alloc(&a, 1000) == x);
  arena_release(&a, empty);
  CHECK(arena_alloc(&a, 100) == first);
  arena_free(&a);
}

TEST(a_freed_arena_may_be_used_again) {
  const size_t live = mem_live_bytes();
  Arena a = {0};
  CHECK(arena_alloc(&a, 3 << 20) != NULL);
  const uint64_t epoch = a.epoch;
  arena_free(&a);
  CHECK(mem_live_bytes() == live && a.epoch > epoch);
  CHECK(arena_alloc(&a, 10) != NULL);
  arena_free(&a);
  CHECK(mem_live_bytes() == live);
}

TEST(running_out_of_memory_leaves_the_arena_usable) {
  Arena a = {0};
  for (uint64_t n = 1; n <= 2; n++) {
    mem_fail_after(n);
    CHECK(arena_alloc(&a, 100) == NULL);
    mem_fail_after(n);
    CHECK(arena_reserve(&a, 1 << 20) == GRPO_ENOMEM);
  }
  mem_fail_after(0);
  CHECK(arena_alloc(&a, SIZE_MAX) == NULL && arena_alloc(&a, SIZE_MAX / 2 + 1) == NULL);
  CHECK(arena_zalloc(&a, SIZE_MAX) == NULL);
  CHECK(arena_alloc(&a, 100) != NULL);
  arena_free(&a);
}

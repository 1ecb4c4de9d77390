#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "testing.h"

static uint64_t value_of(const Map *m, uint64_t key) {
  const MapEntry *e = map_find(m, key);
  return e ? e->value : UINT64_MAX;
}

TEST(an_empty_map_has_nothing) {
  Map m = {0};
  CHECK(!map_find(&m, 0) && !map_each(&m, NULL) && m.count == 0);
  map_clear(&m);
  map_free(&m);
}

TEST(entries_are_found_replaced_and_removed) {
  Map m = {0};
  for (uint64_t i = 0; i < 1000; i++) CHECK(map_put(&m, i << 40, i) == GRPO_OK);
  CHECK(m.count == 1000 && m.size > 1000);
  for (uint64_t i = 0; i < 1000; i++) CHECK(value_of(&m, i << 40) == i);
  CHECK(!map_find(&m, 1) && !map_find(&m, (uint64_t)1000 << 40));
  CHECK(map_put(&m, (uint64_t)7 << 40, 70) == GRPO_OK && m.count == 1000);
  CHECK(value_of(&m, (uint64_t)7 << 40) == 70);
  map_remove(&m, map_find(&m, (uint64_t)7 << 40));
  CHECK(!map_find(&m, (uint64_t)7 << 40) && m.count == 999);
  const size_t size = m.size;
  map_clear(&m);
  CHECK(m.count == 0 && m.size == size && !map_find(&m, 0));
  map_free(&m);
}

/* Against an array, with so few keys that entries come and go in crowded neighbourhoods. */
TEST(a_map_agrees_with_an_array) {
  enum { KEYS = 300, STEPS = 60000 };
  uint64_t want[KEYS];
  size_t count = 0;
  Map m = {0};
  memset(want, 0xFF, sizeof want);
  for (uint64_t step = 0; step < STEPS; step++) {
    const uint64_t r = rng_u64(&(RngKey){.seed = 3}, step);
    const uint64_t key = r % KEYS;
    MapEntry *e = map_find(&m, key);
    CHECK((e ? e->value : UINT64_MAX) == want[key]);
    if (r >> 32 & 1) {
      CHECK(map_put(&m, key, step) == GRPO_OK);
      count += want[key] == UINT64_MAX;
      want[key] = step;
    } else if (e) {
      map_remove(&m, e);
      count--;
      want[key] = UINT64_MAX;
    }
    CHECK(m.count == count);
  }
  size_t seen = 0;
  for (const MapEntry *e = NULL; (e = map_each(&m, e)); seen++) CHECK(want[e->key] == e->value);
  CHECK(seen == count);
  map_free(&m);
}

TEST(several_entries_of_one_key_are_all_walked) {
  Map m = {0};
  for (uint64_t i = 0; i < 5; i++)
    for (uint64_t key = 0; key < 40; key++) CHECK(map_add(&m, key, key * 8 + i) == GRPO_OK);
  for (uint64_t key = 0; key < 40; key++) {
    unsigned seen = 0;
    for (const MapEntry *e = map_find(&m, key); e; e = map_next(&m, e)) {
      CHECK(e->key == key && e->value / 8 == key);
      seen |= 1u << e->value % 8;
    }
    CHECK(seen == 31);
  }
  map_free(&m);
}

TEST(reserved_room_needs_no_memory_later) {
  Map m = {0};
  CHECK(map_reserve(&m, 1000) == GRPO_OK);
  const uint64_t before = mem_allocations();
  for (uint64_t i = 0; i < 1000; i++) CHECK(map_put(&m, i, i) == GRPO_OK);
  CHECK(mem_allocations() == before);
  map_free(&m);
}

TEST(without_memory_a_map_stays_as_it_was) {
  const size_t live = mem_live_bytes();
  Map m = {0};
  mem_fail_after(1);
  CHECK(map_put(&m, 1, 1) == GRPO_ENOMEM && !m.count);
  mem_fail_after(0);
  uint64_t n = 0;
  do CHECK(map_put(&m, n, n) == GRPO_OK);
  while (++n < m.size / 4 * 3);
  mem_fail_after(1);
  CHECK(map_put(&m, n, n) == GRPO_ENOMEM && m.count == n && value_of(&m, 5) == 5);
  mem_fail_after(0);
  CHECK(map_reserve(&m, SIZE_MAX) == GRPO_ENOMEM && m.count == n);
  map_free(&m);
  CHECK(mem_live_bytes() == live);
}

TEST(strings_have_different_hashes) {
  CHECK(map_hash("", 0) != map_hash("a", 1) && map_hash("ab", 2) != map_hash("ba", 2));
  CHECK(map_hash("a\0b", 3) != map_hash("a\0c", 3));
}

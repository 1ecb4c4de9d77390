#include "base/map.h"

#include <string.h>

#include "base/mem.h"

enum { FIRST_SIZE = 16 };

/* There must be room. */
static void add_entry(Map *m, uint64_t key, uint64_t value) {
  size_t i = map_home(m, key);
  while (m->slot[i].key != MAP_FREE) i = (i + 1) & (m->size - 1);
  m->slot[i] = (MapEntry){key, value};
  m->count++;
}

Status map_reserve(Map *m, size_t n) {
  size_t size = m->size ? m->size : FIRST_SIZE;
  while (size / 4 * 3 < n && size <= SIZE_MAX / 4 / sizeof *m->slot) size *= 2;
  if (size == m->size) return GRPO_OK;
  Map larger = {.size = size, .shift = 64 - __builtin_ctzll(size)};
  larger.slot = size / 4 * 3 < n ? NULL : mem_alloc(size * sizeof *larger.slot);
  if (!larger.slot) return fail(GRPO_ENOMEM, "a table of %zu entries", n);
  map_clear(&larger);
  for (const MapEntry *e = NULL; (e = map_each(m, e));) add_entry(&larger, e->key, e->value);
  mem_free(m->slot);
  *m = larger;
  return GRPO_OK;
}

Status map_add(Map *m, uint64_t key, uint64_t value) {
  try(map_reserve(m, m->count + 1));
  add_entry(m, key, value);
  return GRPO_OK;
}

Status map_put(Map *m, uint64_t key, uint64_t value) {
  MapEntry *e = map_find(m, key);
  if (!e) return map_add(m, key, value);
  e->value = value;
  return GRPO_OK;
}

/* An entry that a search reaches only across the gap moves into it, so that the search does not end
 * too early; then its own slot is the gap. */
void map_remove(Map *m, MapEntry *e) {
  const size_t mask = m->size - 1;
  size_t gap = (size_t)(e - m->slot);
  for (size_t i = (gap + 1) & mask; m->slot[i].key != MAP_FREE; i = (i + 1) & mask) {
    const size_t home = map_home(m, m->slot[i].key);
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    m->slot[gap] = m->slot[i];
    gap = i;
  }
  m->slot[gap].key = MAP_FREE;
  m->count--;
}

const MapEntry *map_each(const Map *m, const MapEntry *after) {
  for (size_t i = after ? (size_t)(after - m->slot) + 1 : 0; i < m->size; i++)
    if (m->slot[i].key != MAP_FREE) return &m->slot[i];
  return NULL;
}

void map_clear(Map *m) {
  if (m->size) memset(m->slot, 0xFF, m->size * sizeof *m->slot); /* MAP_FREE everywhere */
  m->count = 0;
}

void map_free(Map *m) {
  mem_free(m->slot);
  *m = (Map){0};
}

/* FNV-1a. */
uint64_t map_hash(const char *s, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
  return h == MAP_FREE ? 0 : h;
}

/* map.h - a hash map from 64-bit keys to 64-bit values.
 *
 * It uses open addressing with linear probing and is at most three quarters full.  An integer is
 * its own key.  A string's key is its map_hash(), which other strings may share: the caller keeps
 * the strings, adds with map_add(), and compares each of the entries that map_find() and
 * map_next() return.  UINT64_MAX marks a free slot and is not a key.  {0} is an empty map.
 *
 * The order of map_each() depends on the map's history.  A caller sorts what it gives, or asks
 * whether there is any entry of a kind, so that no result depends on that order.
 */
#ifndef GRPO_BASE_MAP_H
#define GRPO_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MAP_FREE UINT64_MAX

typedef struct MapEntry {
  uint64_t key, value;
} MapEntry;

typedef struct Map {
  MapEntry *slot;     /* [size] */
  size_t size, count; /* size: a power of two, or 0; count: the entries */
  int shift;          /* 64 - log2(size) */
} Map;

static inline size_t map_home(const Map *m, uint64_t key) {
  return (size_t)(key * 0x9e3779b97f4a7c15u >> m->shift);
}

static inline MapEntry *map_probe(const Map *m, uint64_t key, size_t i) {
  for (;; i = (i + 1) & (m->size - 1)) {
    if (m->slot[i].key == key) return &m->slot[i];
    if (m->slot[i].key == MAP_FREE) return NULL;
  }
}

/* The first entry of a key, and the one after `e` with the same key; NULL when there is none. */
static inline MapEntry *map_find(const Map *m, uint64_t key) {
  return m->size ? map_probe(m, key, map_home(m, key)) : NULL;
}
static inline MapEntry *map_next(const Map *m, const MapEntry *e) {
  return map_probe(m, e->key, ((size_t)(e - m->slot) + 1) & (m->size - 1));
}

/* Room for n entries: until there are that many, adding cannot fail. */
Status map_reserve(Map *m, size_t n);
/* map_put() replaces the key's value; map_add() adds an entry beside others of the key.  Both
 * invalidate pointers to entries; on failure the map is as it was. */
Status map_put(Map *m, uint64_t key, uint64_t value);
Status map_add(Map *m, uint64_t key, uint64_t value);
void map_remove(Map *m, MapEntry *e);
const MapEntry *map_each(const Map *m, const MapEntry *after); /* NULL: the first; NULL: the end */
void map_clear(Map *m);                                        /* keeps the memory */
void map_free(Map *m);
uint64_t map_hash(const char *s, size_t n);

#endif

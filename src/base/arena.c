#include "base/arena.h"

#include <string.h>

#include "base/mem.h"

/* Under AddressSanitizer memory that is not handed out is poisoned, so that the use of a forgotten
 * tensor or a read past its end is found at once. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define PERMIT(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define FORBID(p, n) ((void)(p), (void)(n))
#define PERMIT(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 64, SMALLEST = 1 << 20 };

struct ArenaBlock {
  ArenaBlock *next;
  size_t size;
  char *data; /* 64-byte aligned, `size` bytes */
};

static ArenaBlock *block_new(size_t bytes) {
  ArenaBlock *b = mem_alloc(sizeof *b);
  if (!b) return NULL;
  *b = (ArenaBlock){.size = bytes, .data = mem_alloc_aligned(bytes)};
  if (b->data) {
    FORBID(b->data, bytes);
    return b;
  }
  mem_free(b);
  return NULL;
}

/* The next block with room for `bytes`.  Smaller blocks are skipped and used again after a
 * reset. */
static ArenaBlock *next_block(Arena *a, size_t bytes) {
  ArenaBlock **link = a->cur ? &a->cur->next : &a->first;
  while (*link && (*link)->size < bytes) link = &(*link)->next;
  if (!*link) {
    size_t want = a->cur ? a->cur->size + a->cur->size / 2 : SMALLEST;
    *link = block_new(want > bytes ? want : bytes);
  }
  return *link;
}

void *arena_alloc(Arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  const size_t wanted = bytes;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (!a->cur || a->cur->size - a->used < bytes) {
    ArenaBlock *b = next_block(a, bytes);
    if (!b) return NULL;
    a->cur = b;
    a->used = 0;
  }
  void *p = a->cur->data + a->used;
  PERMIT(p, wanted);
  a->used += bytes;
  a->total += bytes;
  if (a->total > a->high) a->high = a->total;
  return p;
}

void *arena_zalloc(Arena *a, size_t bytes) {
  void *p = arena_alloc(a, bytes);
  return p ? memset(p, 0, bytes) : NULL;
}

Status arena_reserve(Arena *a, size_t bytes) {
  for (ArenaBlock *b = a->first; b; b = b->next)
    if (b->size >= bytes) return GRPO_OK;
  ArenaBlock *b = block_new(bytes);
  if (!b) return fail(GRPO_ENOMEM, "arena: cannot reserve %.3g MiB", (double)bytes / 1048576);
  b->next = a->first;
  a->first = b;
  if (!a->cur) a->used = 0;
  return GRPO_OK;
}

/* Poisons all memory after the first `used` bytes of `cur`. */
static void forbid_after(const Arena *a, ArenaBlock *cur, size_t used) {
#if defined(__SANITIZE_ADDRESS__)
  if (cur) FORBID(cur->data + used, cur->size - used);
  for (ArenaBlock *b = cur ? cur->next : a->first; b; b = b->next) FORBID(b->data, b->size);
#else
  (void)a, (void)cur, (void)used;
#endif
}

void arena_reset(Arena *a) {
  forbid_after(a, NULL, 0);
  a->cur = NULL;
  a->used = a->total = 0;
  a->epoch++;
}

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){a->cur, a->used, a->total}; }

void arena_release(Arena *a, ArenaMark m) {
  forbid_after(a, m.cur, m.used);
  a->cur = m.cur;
  a->used = m.used;
  a->total = m.total;
}

void arena_free(Arena *a) {
  for (ArenaBlock *b = a->first, *next; b; b = next) {
    next = b->next;
    PERMIT(b->data, b->size);
    mem_free_aligned(b->data);
    mem_free(b);
  }
  *a = (Arena){.epoch = a->epoch + 1};
}

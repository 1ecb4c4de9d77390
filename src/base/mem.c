#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static atomic_uint_fast64_t allocations;
static atomic_size_t live;
static atomic_uint_fast64_t fail_at;
static atomic_size_t limit; /* 0: none */
static atomic_llong raw;    /* bytes of mem_raw's blocks, counted while there is a limit */
/* The request that the limit refused last: its bytes, and those that were held then. */
static atomic_size_t refused_more, refused_held;

static size_t held(void) {
  const long long outside = atomic_load_explicit(&raw, memory_order_relaxed);
  return atomic_load_explicit(&live, memory_order_relaxed) + (outside > 0 ? (size_t)outside : 0);
}

/* Bytes that are left below the limit. */
static size_t left(void) {
  const size_t most = atomic_load_explicit(&limit, memory_order_relaxed), now = held();
  return !most ? SIZE_MAX : now < most ? most - now : 0;
}

bool mem_refuses(size_t more) {
  if (more <= left()) return false;
  atomic_store_explicit(&refused_more, more, memory_order_relaxed);
  atomic_store_explicit(&refused_held, held(), memory_order_relaxed);
  return true;
}

static int must_fail(size_t more) {
  uint_fast64_t n = atomic_load_explicit(&fail_at, memory_order_relaxed);
  while (n && !atomic_compare_exchange_weak(&fail_at, &n, n - 1)) continue;
  return n == 1 || more > MEM_MOST || mem_refuses(more);
}

void mem_set_limit(size_t bytes, size_t raw_bytes) {
  atomic_store(&raw, (long long)raw_bytes);
  atomic_store(&refused_more, 0);
  atomic_store(&limit, bytes);
}

size_t mem_limit(void) { return atomic_load(&limit); }

size_t mem_refused(size_t *in_use) {
  *in_use = atomic_load(&refused_held);
  return atomic_load(&refused_more);
}

enum { HUGE_PAGE = 2 << 20, HEAD = 64 };

/* ---- the source of memory --------------------------------------------------------------- */

static MemSource source; /* set before anything is held */

void mem_set_source(const MemSource *s) { source = *s; }

/* A block from a host begins with its size, HEAD bytes before the address that we hand out. */
static size_t *head_of(void *p) { return (size_t *)(void *)((char *)p - HEAD); }

static void *host_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - HEAD) return NULL;
  char *block = source.alloc(source.user, bytes + HEAD, HEAD);
  if (!block) return NULL;
  *(size_t *)(void *)block = bytes;
  return block + HEAD;
}

static void raw_free(void *p) {
  if (p && source.alloc)
    source.free(source.user, head_of(p));
  else
    free(p);
}

static void *raw_alloc(size_t bytes) { return source.alloc ? host_alloc(bytes) : malloc(bytes); }

static void *raw_zalloc(size_t bytes) {
  if (!source.alloc) return calloc(1, bytes);
  void *p = host_alloc(bytes);
  return p ? memset(p, 0, bytes) : NULL;
}

static void *raw_realloc(void *p, size_t bytes) {
  if (!source.alloc) return realloc(p, bytes);
  void *q = host_alloc(bytes);
  if (!q || !p) return q;
  const size_t had = *head_of(p);
  memcpy(q, p, had < bytes ? had : bytes);
  raw_free(p);
  return q;
}

void *mem_raw(void *p, size_t had, size_t bytes) {
  const bool limited = atomic_load_explicit(&limit, memory_order_relaxed) != 0;
  if (limited && bytes > had && mem_refuses(bytes - had)) return NULL;
  void *q = bytes ? raw_realloc(p, bytes) : NULL;
  if (!bytes) raw_free(p);
  if (limited && (q || !bytes)) atomic_fetch_add(&raw, (long long)bytes - (long long)had);
  /* Lua has collected its garbage and asked again */
  if (limited && q && bytes > had && bytes - had >= atomic_load(&refused_more))
    atomic_store(&refused_more, 0);
  return q;
}

/* ---- measuring -------------------------------------------------------------------------- */

/* A measured block has this before it. */
typedef struct Measured {
  size_t bytes;  /* that the block would take */
  size_t asked;  /* that its owner may use */
  size_t mapped; /* bytes of addresses; 0: raw memory */
  void *block;
} Measured;

enum {
  MAPPED = 128 << 10, /* the least bytes of a mapping, as in malloc */
  EMPTY = 4 << 10     /* measured blocks from here on are addresses without memory */
};

static _Thread_local int measuring; /* calls of mem_measure_begin that are open */
static _Thread_local size_t measured;

void mem_measure_begin(void) {
  if (!measuring++) measured = 0;
}

void mem_measure_end(void) { measuring--; }
bool mem_measuring(void) { return measuring > 0; }

static Measured *measured_head(void *p) { return (Measured *)(void *)((char *)p - HEAD); }

static void *map_addresses(size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* The size_of() of a block of that many bytes: the allocator rounds up, large blocks to whole
 * pages. */
static size_t expected_size(size_t bytes) {
  enum { PAGE = 4096, OVERHEAD = 80 };
  if (bytes < MAPPED) return bytes < 24 ? 24 : (bytes + 15) / 16 * 16;
  return bytes % HUGE_PAGE ? (bytes + OVERHEAD + PAGE - 1) / PAGE * PAGE : bytes;
}

/* Zero-filled, 64-byte aligned. */
static void *measured_alloc(size_t bytes) {
  if (bytes > MEM_MOST - 2 * HEAD) return NULL;
  const bool maps = bytes >= EMPTY;
  const size_t all = bytes + 2 * HEAD;
  char *block = maps ? map_addresses(all) : raw_zalloc(all);
  if (!block) return NULL;
  char *p = block + HEAD + (HEAD - (uintptr_t)block % HEAD) % HEAD;
  *measured_head(p) = (Measured){expected_size(bytes), bytes, maps ? all : 0, block};
  measured += measured_head(p)->bytes;
  return p;
}

static void measured_free(void *p) {
  if (!p) return;
  const Measured m = *measured_head(p);
  measured -= m.bytes;
  if (m.mapped)
    munmap(m.block, m.mapped);
  else
    raw_free(m.block);
}

static void *measured_realloc(void *p, size_t bytes) {
  void *q = measured_alloc(bytes);
  if (!q || !p) return q;
  const size_t had = measured_head(p)->asked;
  memcpy(q, p, had < bytes ? had : bytes);
  measured_free(p);
  return q;
}

void mem_zero(void *p, size_t bytes) {
  if (!measuring || bytes < MAPPED) memset(p, 0, bytes);
}

void mem_copy(void *to, const void *from, size_t bytes) {
  if (!measuring || bytes < MAPPED) memcpy(to, from, bytes);
}

/* ---- counting --------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EXACT = 1 }; /* the sanitizers' allocators lose nothing to alignment */
#else
enum { EXACT = 0 };
#endif

/* The bytes to count for a block.  For a block of whole huge pages that is the number asked for:
 * the allocator adds up to one huge page for alignment, which differs from run to run and is never
 * touched. */
static size_t size_of(void *p) {
  if (source.alloc) return *head_of(p);
  const size_t usable = malloc_usable_size(p);
  if (EXACT || (uintptr_t)p % HUGE_PAGE || usable <= HUGE_PAGE) return usable;
  return (usable - 1) / HUGE_PAGE * HUGE_PAGE;
}

static void *counted(void *p) {
  if (p) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live, size_of(p), memory_order_relaxed);
  }
  return p;
}

static void uncount(void *p) {
  if (p) atomic_fetch_sub_explicit(&live, size_of(p), memory_order_relaxed);
}

void *mem_alloc(size_t bytes) {
  if (measuring) return measured_alloc(bytes);
  return must_fail(bytes) ? NULL : counted(raw_alloc(bytes ? bytes : 1));
}
void *mem_zalloc(size_t bytes) {
  if (measuring) return measured_alloc(bytes);
  return must_fail(bytes) ? NULL : counted(raw_zalloc(bytes ? bytes : 1));
}

void *mem_realloc(void *p, size_t bytes) {
  if (measuring) return measured_realloc(p, bytes);
  size_t before = p ? size_of(p) : 0;
  if (bytes > MEM_MOST || must_fail(bytes > before ? bytes - before : 0)) return NULL;
  void *q = raw_realloc(p, bytes ? bytes : 1);
  if (!q) return NULL;
  atomic_fetch_sub_explicit(&live, before, memory_order_relaxed);
  return counted(q);
}

void mem_free(void *p) {
  if (measuring) {
    measured_free(p);
    return;
  }
  uncount(p);
  raw_free(p);
}

char *mem_strndup(const char *s, size_t n) {
  char *p = mem_alloc(n + 1);
  if (!p) return NULL;
  memcpy(p, s, n);
  p[n] = 0;
  return p;
}
char *mem_strdup(const char *s) { return mem_strndup(s, strlen(s)); }

static size_t alignment_of(size_t bytes) { return bytes >= HUGE_PAGE ? HUGE_PAGE : 64; }

size_t mem_aligned_size(size_t bytes) {
  const size_t align = alignment_of(bytes);
  return bytes > SIZE_MAX - align ? SIZE_MAX : (bytes + align - 1) / align * align;
}

void *mem_alloc_aligned(size_t bytes) {
  if (measuring) return measured_alloc(mem_aligned_size(bytes));
  if (must_fail(bytes)) return NULL;
  const size_t align = alignment_of(bytes);
  if (bytes > SIZE_MAX - align) return NULL;
  bytes = mem_aligned_size(bytes);
  if (source.alloc) return counted(host_alloc(bytes ? bytes : align));
  void *p = aligned_alloc(align, bytes ? bytes : align);
#ifdef MADV_HUGEPAGE
  if (p && align == HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return counted(p);
}
void mem_free_aligned(void *p) { mem_free(p); }

uint64_t mem_allocations(void) { return atomic_load(&allocations); }
size_t mem_live_bytes(void) { return measuring ? measured : atomic_load(&live); }
void mem_fail_after(uint64_t n) { atomic_store(&fail_at, n); }

size_t mem_peak_rss(void) {
  struct rusage u;
  return getrusage(RUSAGE_SELF, &u) ? 0 : (size_t)u.ru_maxrss * 1024;
}

/* One number from a file such as /sys/fs/cgroup/memory.max; 0 when there is none. */
static size_t number_in(const char *path, const char *key, size_t unit) {
  char line[256];
  size_t value = 0;
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    value = (size_t)strtoull(line + strlen(key), NULL, 10) * unit;
    break;
  }
  fclose(f);
  return value;
}

static size_t available(void) {
  size_t machine = number_in("/proc/meminfo", "MemAvailable:", 1024);
  size_t group = number_in("/sys/fs/cgroup/memory.max", "", 1);
  if (!group) return machine;
  size_t used = number_in("/sys/fs/cgroup/memory.current", "", 1);
  size_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ", 1);
  used = used > cache ? used - cache : 0; /* the kernel drops cached file pages when needed */
  size_t rest = group > used ? group - used : 1;
  return machine && machine < rest ? machine : rest;
}

size_t mem_available(void) {
  const size_t free = available(), below = left();
  return below < SIZE_MAX && (!free || below < free) ? (below ? below : 1) : free;
}

static size_t total(void) {
  const size_t machine = number_in("/proc/meminfo", "MemTotal:", 1024);
  const size_t group = number_in("/sys/fs/cgroup/memory.max", "", 1);
  return group && (!machine || group < machine) ? group : machine;
}

size_t mem_total(void) {
  const size_t all = total(), most = mem_limit();
  return most && (!all || most < all) ? most : all;
}

/* mem.h - every allocation of the engine goes through here and is counted, so that tests can check
 * for leaks and compare the memory estimate with the facts.
 *
 * Functions return NULL when memory is out and never abort.  The counters are process-wide and
 * atomic.
 */
#ifndef GRPO_BASE_MEM_H
#define GRPO_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX < UINT32_MAX
#error "grpo needs a machine of 32 or 64 bits"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "grpo needs a little-endian machine: weights are used as files hold them"
#endif

/* More bytes than a block can have.  Where addresses have 32 bits, a product of sizes that come
 * from outside could be larger than a size_t: it is computed in double and compared first. */
#define MEM_MOST ((size_t)(PTRDIFF_MAX >> (sizeof(size_t) > 4 ? 16 : 0)))
static inline bool mem_fits(double bytes) { return bytes <= (double)MEM_MOST; }

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes); /* zero-filled */
void *mem_realloc(void *p, size_t bytes);
void mem_free(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* 64-byte aligned; a large block consists of whole huge pages if the system has them. */
void *mem_alloc_aligned(size_t bytes);
void mem_free_aligned(void *p);
size_t mem_aligned_size(size_t bytes); /* bytes that mem_alloc_aligned allocates */

uint64_t mem_allocations(void); /* successful allocations ever made */
size_t mem_live_bytes(void);    /* handed out and not yet freed */
size_t mem_peak_rss(void);      /* of the process, bytes */
size_t mem_available(void);     /* of the machine, its cgroup or the limit, bytes; 0: unknown */
size_t mem_total(void);         /* of the same, used or not; 0: unknown */

/* A host's allocator that replaces malloc.  Each block is then preceded by its size and is 64-byte
 * aligned at most.  Set it only while no block is allocated. */
typedef struct MemSource {
  void *(*alloc)(void *user, size_t bytes, size_t alignment); /* NULL: malloc and free */
  void (*free)(void *user, void *p);
  void *user;
} MemSource;
void mem_set_source(const MemSource *s);
/* realloc (p NULL: malloc; bytes 0: free) from this source, of a block that had `had` bytes.  It
 * is not counted, and mem_fail_after() does not affect it.  It is for Lua's blocks, which are small
 * and many and have a budget of their own. */
void *mem_raw(void *p, size_t had, size_t bytes);

/* Sets a limit: an allocation fails if the process would then hold more than `bytes` (0: no limit)
 * in counted blocks and in blocks of mem_raw, of which it holds `raw` bytes now.  Memory that is
 * mapped from files is not counted. */
void mem_set_limit(size_t bytes, size_t raw);
size_t mem_limit(void);
enum { MEM_LEAST_MIB = 16 }; /* no run needs less: the advice after an early failure */
/* The bytes of the allocation that the limit refused last, and *in_use, the bytes that were held
 * then.  0: none was refused, or it succeeded when it was repeated. */
size_t mem_refused(size_t *in_use);
/* Would the limit refuse `more` further bytes?  If so, mem_refused() returns them. */
bool mem_refuses(size_t more);

/* Between these two, which nest, the calling thread only finds out how much memory its code takes:
 * blocks get addresses, but large ones no memory until something is written there, limits do not
 * hold, mem_live_bytes() is what this thread would hold by now, and pool_run() runs nothing.  Such
 * blocks are freed before the end, and no others are. */
void mem_measure_begin(void);
void mem_measure_end(void);
bool mem_measuring(void);
/* Like memset to 0 and memcpy, but while memory is measured they leave large blocks alone. */
void mem_zero(void *p, size_t bytes);
void mem_copy(void *to, const void *from, size_t bytes);

/* For tests: the n-th allocation from now fails (0: none). */
void mem_fail_after(uint64_t n);

#endif

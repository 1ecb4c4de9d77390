/* shim.c - LD_PRELOAD: counts the allocations of the program, and lets one of them fail; with
 * trials.c each of them.
 *
 *   MEMORY_AT=N         the allocation that fails, from 1
 *   MEMORY_HOW=once     it alone; from: all later ones, too
 *   MEMORY_COUNT=FILE   writes how many there were when the process ends
 *
 * An allocation is a call of malloc, calloc, aligned_alloc or posix_memalign, or one of realloc
 * that needs more.  Processes that this one starts are left alone.
 */
#define _GNU_SOURCE
#include "trials.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

static long at;
static bool once;
static atomic_long allocations;
static int count_to = -1;
/* In a call of ours, whose allocations are not counted. */
static _Thread_local bool within __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void begin(void) {
  const char *how = getenv("MEMORY_HOW"), *file = getenv("MEMORY_COUNT");
  if (file) count_to = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (getenv("MEMORY_AT")) at = atol(getenv("MEMORY_AT"));
  once = how && strcmp(how, "once") == 0;
  unsetenv("LD_PRELOAD");
  within = true;
  trials_begin();
  within = false;
  atomic_store(&allocations, 0);
}

static bool fails(void) {
  if (within) return false;
  const long n = atomic_fetch_add(&allocations, 1) + 1;
  within = true;
  const int letter = trials_at(n);
  within = false;
  if (letter) at = n, once = letter == 'o', count_to = -1;
  if (!at || n < at || (once && n > at)) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *aligned_alloc(size_t alignment, size_t n) {
  return fails() ? NULL : __libc_memalign(alignment, n);
}
void *memalign(size_t alignment, size_t n) { return aligned_alloc(alignment, n); }

int posix_memalign(void **p, size_t alignment, size_t n) {
  void *q = aligned_alloc(alignment, n);
  if (!q) return ENOMEM;
  *p = q;
  return 0;
}

void *realloc(void *p, size_t n) {
  if (!p) return malloc(n);
  if (n > malloc_usable_size(p) && fails()) return NULL;
  return __libc_realloc(p, n);
}

/* The program leaves through _exit. */
void _exit(int status) {
  char text[32];
  const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&allocations));
  within = true;
  trials_end();
  if (count_to >= 0 && write(count_to, text, (size_t)n) != n) status = 99;
  for (;;) syscall(SYS_exit_group, status);
}

#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

/* One word hands out the work of a region: its number in the upper half, the
 * next chunk in the lower.  A worker that wakes late sees another region's
 * number and cannot take a chunk of it with a stale function. */
struct Pool {
  _Alignas(64) atomic_uint generation;   /* +1 per region; workers wait on it */
  _Alignas(64) atomic_uint_fast64_t ticket;
  _Alignas(64) atomic_int remaining;     /* chunks not yet finished */
  atomic_int sleeping;
  atomic_bool stop;
  PoolFn fn;
  void *arg;
  atomic_int nchunks; /* a late worker of an older region may look at it */
  int threads;
  pthread_t thread[];                    /* threads - 1 workers */
};

typedef struct Start {
  Pool *pool;
  int worker;
} Start;

static _Thread_local int inside; /* worker + 1 while this thread is running a chunk */

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void futex(atomic_uint *word, int op, unsigned value) {
  syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Take chunks of region `generation` until none is left. */
static void work(Pool *p, unsigned generation, int worker) {
  inside = worker + 1;
  for (;;) {
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    if ((unsigned)(t >> 32) != generation) break;
    if ((int)(uint32_t)t >= p->nchunks) break;
    if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t + 1, memory_order_acq_rel,
                                               memory_order_relaxed))
      continue;
    p->fn(p->arg, (int)(uint32_t)t, worker);
    atomic_fetch_sub_explicit(&p->remaining, 1, memory_order_release);
  }
  inside = 0;
}

/* Wait until the generation moves on from `seen`: spin, then sleep. */
static unsigned wait_for_work(Pool *p, unsigned seen) {
  const int64_t until = now_ns() + 50000;
  for (int i = 0;; i++) {
    unsigned g = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (g != seen) return g;
    pause_cpu();
    if (i % 64 || now_ns() < until) continue;
    atomic_fetch_add(&p->sleeping, 1);
    if (atomic_load(&p->generation) == seen) futex(&p->generation, FUTEX_WAIT, seen);
    atomic_fetch_sub(&p->sleeping, 1);
  }
}

static void *worker_main(void *arg) {
  Start *start = arg;
  Pool *p = start->pool;
  const int worker = start->worker;
  mem_free(start);
  for (unsigned seen = 0;;) {
    seen = wait_for_work(p, seen);
    if (atomic_load(&p->stop)) return NULL;
    work(p, seen, worker);
  }
}

static int quota_cores(void) {
  long quota = 0, period = 0;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (!f) return INT_MAX;
  int n = fscanf(f, "%ld %ld", &quota, &period);
  fclose(f);
  return n == 2 && period > 0 && quota > 0 ? (int)((quota + period - 1) / period) : INT_MAX;
}

int pool_cores(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, q = quota_cores();
  if (q < n) n = q;
  return n < 1 ? 1 : n;
}

Status pool_new(Pool **out, int threads) {
  if (threads == 0) threads = pool_cores();
  if (threads < 1 || threads > 1024) return fail(GRPO_EARG, "threads: %d, want 1 to 1024", threads);
  Pool *p = mem_alloc_aligned(sizeof *p + sizeof(pthread_t) * (size_t)threads);
  if (!p) return fail(GRPO_ENOMEM, "thread pool");
  *p = (Pool){.threads = 1};
  for (int i = 1; i < threads; i++) {
    Start *start = mem_alloc(sizeof *start);
    if (start) *start = (Start){p, i};
    if (!start || pthread_create(&p->thread[i - 1], NULL, worker_main, start)) {
      mem_free(start);
      pool_free(p);
      return fail(GRPO_ENOMEM, "thread pool: cannot start thread %d", i);
    }
    p->threads++;
  }
  *out = p;
  return GRPO_OK;
}

void pool_free(Pool *p) {
  if (!p) return;
  atomic_store(&p->stop, true);
  atomic_fetch_add(&p->generation, 1);
  futex(&p->generation, FUTEX_WAKE, INT_MAX);
  for (int i = 1; i < p->threads; i++) pthread_join(p->thread[i - 1], NULL);
  mem_free_aligned(p);
}

int pool_threads(const Pool *p) { return p ? p->threads : 1; }

void pool_run(Pool *p, int nchunks, PoolFn fn, void *arg) {
  if (!p || p->threads == 1 || nchunks <= 1 || inside) {
    for (int i = 0; i < nchunks; i++) fn(arg, i, inside ? inside - 1 : 0);
    return;
  }
  p->fn = fn;
  p->arg = arg;
  p->nchunks = nchunks;
  atomic_store_explicit(&p->remaining, nchunks, memory_order_relaxed);
  const unsigned g = atomic_load(&p->generation) + 1;
  atomic_store_explicit(&p->ticket, (uint64_t)g << 32, memory_order_release);
  atomic_store(&p->generation, g);
  if (atomic_load(&p->sleeping)) futex(&p->generation, FUTEX_WAKE, INT_MAX);
  work(p, g, 0);
  while (atomic_load_explicit(&p->remaining, memory_order_acquire) > 0) pause_cpu();
}

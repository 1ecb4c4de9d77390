#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/progress.h"

/* Each worker begins with a share of a region's chunks: consecutive ones, in the same part of
 * every region, so that data written in one region is still in its cache in the next.  Then it
 * helps the others.
 *
 * One word hands out a share: the region's number is in the upper half, the number of chunks not
 * yet taken in the lower.  Taking a chunk is a compare-and-swap of the whole word, so a worker
 * that wakes after the end of a region cannot take anything: it finds no chunks left or another
 * region's number.  A worker that has taken a chunk may read fn, arg and nchunks, because the
 * region cannot end before the chunk is finished. */
typedef struct Share {
  _Alignas(64) atomic_uint_fast64_t ticket;
} Share;

struct Pool {
  _Alignas(64) atomic_uint generation; /* +1 per region; workers wait on it */
  _Alignas(64) atomic_int remaining;   /* chunks not yet finished */
  atomic_int sleeping;
  atomic_bool stop;
  PoolFn fn;
  void *arg;
  int nchunks;
  int threads;
  pthread_t *thread; /* threads - 1 workers */
  Share share[];
};

typedef struct Start {
  Pool *pool;
  int worker;
} Start;

static _Thread_local const Pool *inside; /* the pool whose chunk this thread is running, or NULL */
static _Thread_local int inside_as;      /* the worker that it is there */

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futex(atomic_uint *word, int op, unsigned value) {
  syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* The first chunk of a worker's share. */
static int share_start(const Pool *p, int worker) {
  return (int)((int64_t)p->nchunks * worker / p->threads);
}

/* Takes chunks of a share of region `generation` until none is left. */
static void work_on(Pool *p, unsigned generation, int share, int worker) {
  atomic_uint_fast64_t *ticket = &p->share[share].ticket;
  uint64_t t = atomic_load_explicit(ticket, memory_order_acquire);
  while ((unsigned)(t >> 32) == generation && (uint32_t)t) {
    if (!atomic_compare_exchange_weak_explicit(ticket, &t, t - 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    p->fn(p->arg, share_start(p, share + 1) - (int)(uint32_t)t, worker);
    atomic_fetch_sub_explicit(&p->remaining, 1, memory_order_release);
    t = atomic_load_explicit(ticket, memory_order_acquire);
  }
}

static void work(Pool *p, unsigned generation, int worker) {
  const int threads = p->threads;
  inside = p;
  inside_as = worker;
  for (int i = 0; i < threads; i++) work_on(p, generation, (worker + i) % threads, worker);
  inside = NULL;
}

/* Waits until the generation is not `seen` any more: spins first, then sleeps. */
static unsigned wait_for_work(Pool *p, unsigned seen) {
  const int64_t until = clock_ns() + 50000;
  for (int i = 0;; i++) {
    unsigned g = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (g != seen) return g;
    pause_cpu();
    if (i % 64 || clock_ns() < until) continue;
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
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  int n = known ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN), q = quota_cores();
  if (q < n) n = q;
  return n < 1 ? 1 : n;
}

/* Workers block all signals, so that a host's handlers run on its own threads. */
static int start_thread(Pool *p, int worker) {
  Start *start = mem_alloc(sizeof *start);
  if (!start) return -1;
  *start = (Start){p, worker};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(&p->thread[worker - 1], NULL, worker_main, start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc) mem_free(start);
  return rc;
}

Status pool_new(Pool **out, int threads) {
  *out = NULL;
  if (threads == 0) threads = pool_cores();
  if (threads < 1 || threads > 1024) return fail(GRPO_EARG, "threads: %d, want 1 to 1024", threads);
  const size_t size = sizeof(Pool) + sizeof(Share) * (size_t)threads;
  Pool *p = mem_alloc_aligned(size + sizeof(pthread_t) * (size_t)threads);
  if (!p) return fail(GRPO_ENOMEM, "thread pool");
  memset(p, 0, size);
  p->threads = 1;
  p->thread = (pthread_t *)(void *)((char *)p + size);
  for (int i = 1; i < threads; i++) {
    if (start_thread(p, i) != 0) {
      pool_free(p);
      return fail(GRPO_ENOMEM, "thread pool: cannot start thread %d of %d", i + 1, threads);
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

/* Waits for chunks that other workers still run.  They may have lost their core to another process,
 * so after a while this thread yields its own. */
static void wait_for_others(Pool *p) {
  for (int i = 0; atomic_load_explicit(&p->remaining, memory_order_acquire) > 0; i++) {
    if (i < 5000)
      pause_cpu();
    else
      sched_yield();
  }
}

void pool_run(Pool *p, int nchunks, PoolFn fn, void *arg) {
  if (mem_measuring()) return;
  if (!inside) progress_note();
  if (!p || p->threads == 1 || nchunks <= 1 || inside) {
    const int worker = p && inside == p ? inside_as : 0;
    for (int i = 0; i < nchunks; i++) fn(arg, i, worker);
    return;
  }
  p->fn = fn;
  p->arg = arg;
  p->nchunks = nchunks;
  atomic_store_explicit(&p->remaining, nchunks, memory_order_relaxed);
  const unsigned g = atomic_load(&p->generation) + 1;
  for (int i = 0; i < p->threads; i++)
    atomic_store_explicit(&p->share[i].ticket,
                          (uint64_t)g << 32 | (uint32_t)(share_start(p, i + 1) - share_start(p, i)),
                          memory_order_release);
  atomic_store(&p->generation, g);
  if (atomic_load(&p->sleeping)) futex(&p->generation, FUTEX_WAKE, INT_MAX);
  work(p, g, 0);
  wait_for_others(p);
}

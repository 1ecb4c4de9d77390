#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "testing.h"

enum { MOST = 2000 };

typedef struct Count {
  Pool *pool;
  atomic_int hits[MOST], bad_worker;
  int threads;
} Count;

static void count(void *arg, int chunk, int worker) {
  Count *c = arg;
  atomic_fetch_add_explicit(&c->hits[chunk], 1, memory_order_relaxed);
  if (worker < 0 || worker >= c->threads) atomic_store(&c->bad_worker, 1);
}

TEST(every_chunk_runs_exactly_once) {
  static const int sizes[] = {0, 1, 2, 3, 7, 8, 64, 100, 999, MOST};
  static Count c;
  for (int threads = 1; threads <= 8; threads++) {
    Pool *p = NULL;
    CHECK(pool_new(&p, threads) == GRPO_OK && pool_threads(p) == threads);
    c.threads = threads;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      for (int i = 0; i < MOST; i++) atomic_store(&c.hits[i], 0);
      pool_run(p, sizes[s], count, &c);
      for (int i = 0; i < MOST; i++) CHECK(c.hits[i] == (i < sizes[s]));
    }
    pool_free(p);
  }
  CHECK(!c.bad_worker);
}

TEST(no_pool_runs_on_the_caller) {
  static Count c = {.threads = 1};
  pool_run(NULL, 10, count, &c);
  for (int i = 0; i < MOST; i++) CHECK(c.hits[i] == (i < 10));
  CHECK(!c.bad_worker && pool_threads(NULL) == 1);
  pool_free(NULL);
}

typedef struct Meeting {
  atomic_int begun;
  int first[2];
} Meeting;

/* Nobody is through with a first chunk before both have begun one. */
static void meet(void *arg, int chunk, int worker) {
  Meeting *m = arg;
  if (m->first[worker] >= 0) return;
  m->first[worker] = chunk;
  atomic_fetch_add(&m->begun, 1);
  while (atomic_load(&m->begun) < 2) usleep(1);
}

TEST(a_thread_begins_with_its_own_part) {
  Pool *p = NULL;
  CHECK(pool_new(&p, 2) == GRPO_OK);
  for (int chunks = 2; chunks < 20; chunks++) {
    Meeting m = {.first = {-1, -1}};
    pool_run(p, chunks, meet, &m);
    CHECK(m.first[0] == 0 && m.first[1] == chunks / 2);
  }
  pool_free(p);
}

typedef struct Nest {
  Pool *pool, *other;
  atomic_int inner, wrong;
} Nest;

typedef struct Inner {
  Nest *nest;
  int worker; /* the outer one, whose number an inner region of the same pool keeps */
} Inner;

static void same_worker(void *arg, int chunk, int worker) {
  Inner *in = arg;
  (void)chunk;
  atomic_fetch_add(&in->nest->inner, 1);
  if (worker != in->worker) atomic_fetch_add(&in->nest->wrong, 1);
}

static void outer(void *arg, int chunk, int worker) {
  Nest *n = arg;
  Inner in = {n, worker};
  (void)chunk;
  pool_run(n->pool, 5, same_worker, &in);
  in.worker = 0; /* scratch of another pool, or of none, may be smaller */
  pool_run(NULL, 5, same_worker, &in);
  pool_run(n->other, 5, same_worker, &in);
}

TEST(a_region_inside_a_chunk_runs_alone) {
  Nest n = {0};
  CHECK(pool_new(&n.pool, 6) == GRPO_OK && pool_new(&n.other, 2) == GRPO_OK);
  pool_run(n.pool, 100, outer, &n);
  CHECK(n.inner == 1500 && n.wrong == 0);
  pool_free(n.pool);
  pool_free(n.other);
}

static void add(void *arg, int chunk, int worker) {
  int *sums = arg;
  (void)worker;
  sums[chunk] += chunk; /* plain memory: a chunk of a later region must see it */
}

TEST(more_threads_than_cores_lose_nothing) {
  enum { REGIONS = 5000 };
  Pool *p = NULL;
  int sums[40] = {0};
  CHECK(pool_new(&p, 5) == GRPO_OK);
  for (int i = 0; i < REGIONS; i++) pool_run(p, 2 + i % 39, add, sums);
  for (int k = 0; k < 40; k++) {
    int times = 0;
    for (int i = 0; i < REGIONS; i++) times += k < 2 + i % 39;
    CHECK(sums[k] == k * times);
  }
  pool_free(p);
}

TEST(hammering_with_small_regions) {
  enum { REGIONS = 100000 };
  Pool *p = NULL;
  int sums[7] = {0};
  CHECK(pool_new(&p, 2) == GRPO_OK);
  const uint64_t allocations = mem_allocations();
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < REGIONS; i++) pool_run(p, 7 - i % 3, add, sums);
  clock_gettime(CLOCK_MONOTONIC, &b);
  for (int i = 0; i < 5; i++) CHECK(sums[i] == i * REGIONS);
  CHECK(sums[5] == 5 * (REGIONS * 2 / 3 + 1) && sums[6] == 6 * (REGIONS / 3 + 1));
  CHECK(mem_allocations() == allocations);
  printf("# %.2f us a region\n",
         ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 1e3 / REGIONS);
  pool_free(p);
}

TEST(workers_that_sleep_wake_up) {
  Pool *p = NULL;
  int sums[4] = {0};
  CHECK(pool_new(&p, 3) == GRPO_OK);
  for (int i = 0; i < 50; i++) {
    usleep(i % 2 ? 200 : 60); /* around the moment when they fall asleep */
    for (int k = 0; k < 20; k++) pool_run(p, 4, add, sums);
  }
  CHECK(sums[3] == 3 * 50 * 20);
  pool_free(p);
}

TEST(pools_come_and_go) {
  for (int i = 0; i < 100; i++) {
    Pool *p = NULL;
    int sums[4] = {0};
    CHECK(pool_new(&p, 1 + i % 5) == GRPO_OK);
    if (i % 2) pool_run(p, 4, add, sums);
    pool_free(p);
  }
}

TEST(wrong_numbers_of_threads_are_refused) {
  Pool *p = NULL;
  CHECK(pool_new(&p, -1) == GRPO_EARG && pool_new(&p, 100000) == GRPO_EARG && !p);
  CHECK(pool_new(&p, 0) == GRPO_OK && pool_threads(p) == pool_cores());
  pool_free(p);
}

TEST(running_out_of_memory_is_a_status_and_leaks_nothing) {
  const size_t live = mem_live_bytes();
  for (uint64_t n = 1; n <= 4; n++) {
    Pool *p = NULL;
    mem_fail_after(n);
    CHECK(pool_new(&p, 4) == GRPO_ENOMEM && !p);
  }
  mem_fail_after(0);
  CHECK(mem_live_bytes() == live);
}

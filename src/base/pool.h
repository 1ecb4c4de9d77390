/* pool.h - the engine's one thread pool.
 *
 * Work is cut into chunks whose number depends on the size of the work only,
 * never on the number of threads, so results do not either.  A worker takes chunks that follow one
 * another, of the same part of each region, before it helps the others.  Idle workers spin
 * for some 50 microseconds and then sleep on a futex.  Regions do not nest: a
 * chunk that starts one runs it alone.  A region never allocates.  One thread
 * at a time may start regions of a pool.
 */
#ifndef GRPO_BASE_POOL_H
#define GRPO_BASE_POOL_H

#include "base/err.h"

typedef struct Pool Pool;

/* fn(arg, chunk, worker): chunk 0..nchunks-1, worker 0..pool_threads()-1 (scratch memory is indexed
 * by it). */
typedef void (*PoolFn)(void *arg, int chunk, int worker);

Status
pool_new(Pool **out,
         int threads);   /* threads >= 1, the caller included; 0 = cores this process may use */
void pool_free(Pool *p); /* NULL is fine */
int pool_threads(const Pool *p); /* NULL: 1 */
int pool_cores(void);            /* cores this process may use (affinity and cgroup quota) */

/* Run fn for every chunk and wait.  p == NULL runs on the caller. */
void pool_run(Pool *p, int nchunks, PoolFn fn, void *arg);

#endif

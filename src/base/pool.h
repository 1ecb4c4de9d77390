/* pool.h - the engine's one thread pool.
 *
 * A region is one call of pool_run().  Its work is cut into chunks whose number depends on the
 * size of the work and never on the number of threads, so the results do not depend on it either.
 * A worker takes consecutive chunks, from the same part of each region, before it helps the
 * others.  Idle workers spin for some 50 microseconds and then sleep on a futex.  Regions do not
 * nest: a chunk that starts one runs it alone.  A region never allocates.  Only one thread at a
 * time may start regions of a pool.
 */
#ifndef GRPO_BASE_POOL_H
#define GRPO_BASE_POOL_H

#include "base/err.h"

typedef struct Pool Pool;

/* fn(arg, chunk, worker): chunk is in 0..nchunks-1, worker in 0..pool_threads()-1 and may index
 * scratch memory. */
typedef void (*PoolFn)(void *arg, int chunk, int worker);

/* `threads` counts the caller; 0 means pool_cores(). */
Status pool_new(Pool **out, int threads);
void pool_free(Pool *p);         /* NULL is fine */
int pool_threads(const Pool *p); /* NULL: 1 */
int pool_cores(void);            /* cores this process may use (affinity and cgroup quota) */

/* Runs fn for every chunk and waits; without a pool the caller runs them all.  While the caller
 * measures memory (mem.h) nothing runs. */
void pool_run(Pool *p, int nchunks, PoolFn fn, void *arg);

#endif

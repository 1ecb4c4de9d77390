/* progress.h - signs of life for whoever watches this process from outside, such as a watchdog.
 *
 * A count grows with every piece of work: a region of the pool, a part of a file, a call of a
 * reward.  A process whose count stands still has nothing to do, or waits.
 */
#ifndef GRPO_BASE_PROGRESS_H
#define GRPO_BASE_PROGRESS_H

#include <stdint.h>

#include "base/err.h"

/* Functions that hear of the work of the thread that makes a long call; either may be NULL. */
typedef struct ProgressWatch {
  /* `done` pieces of `of` have been made; what: NULL where nobody has counted.  A status other than
   * GRPO_OK ends the work, which returns it. */
  Status (*reached)(void *user, const char *what, int64_t done, int64_t of);
  /* Between two pieces that cannot be given up: it may wait, and no more. */
  void (*between)(void *user);
  void *user;
} ProgressWatch;
/* From now on w hears of this thread's work; the caller keeps it alive.  NULL: nobody does.
 * Returns who did before. */
const ProgressWatch *progress_watch(const ProgressWatch *w);
/* A long call has come so far.  Its state is then whole, so that it can end here. */
Status progress_reached(const char *what, int64_t done, int64_t of);

void progress_note(void); /* one piece more; any thread */
uint64_t progress_count(void);
/* The piece that begins now may take this long, because a limit of its own ends it.  Returns the
 * time that was announced before (0: none), which the caller announces again afterwards. */
double progress_allow(double seconds);
double progress_allowed(void);

#endif

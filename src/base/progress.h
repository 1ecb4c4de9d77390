/* progress.h - signs of life for whoever watches this process from outside, such as a watchdog.
 *
 * A count grows with every piece of work: a region of the pool, a part of a file, a call of a
 * reward.  A process whose count stands still has nothing to do, or waits.
 */
#ifndef GRPO_BASE_PROGRESS_H
#define GRPO_BASE_PROGRESS_H

#include <stdint.h>

void progress_note(void); /* one piece more; any thread */
uint64_t progress_count(void);
/* The piece that begins now may take this long, because a limit of its own ends it.  Returns the
 * time that was announced before (0: none), which the caller announces again afterwards. */
double progress_allow(double seconds);
double progress_allowed(void);

#endif

/* trials.h - tries the allocations of one process: at each, it forks children in which that fails.
 *
 *   MEMORY_TRIALS=FILE     turns this on, and receives the results
 *   MEMORY_HOW             "once", "from" or both: a child for each
 *   MEMORY_STRIDE=N        every N-th allocation is tried (default 1)
 *   MEMORY_FIRST=N         the first of them (default 1)
 *   MEMORY_EXPECTED=FILE   what the program prints if nothing fails
 *   MEMORY_STATES=DIR      receives each different tree `runs` that children leave behind
 *
 * The process waits until each child has ended, and then continues as if there had been none.  A
 * child is what a process of its own would be in which that allocation fails, because everything
 * that they share is made its own: it works in the directory `trial`, with copies of the trees
 * `runs` and `saved` and of the files `out`, `err` and `lines.lua`, and its open files are opened
 * again there.  The clock goes on by a microsecond each time it is asked, and all have one process
 * id and one peak of memory, so that no child depends on those before it.  Where the process has
 * threads or children of its own, a copy of it would not be the same: such a trial is left to a
 * process of its own.
 *
 * The results are lines:
 *   problem HOW N TEXT       neither the expected output and status 0, nor one line and status 5
 *   alone HOW N              to be tried in a process of its own
 *   state HOW N STATUS       DIR/HOW-N holds the tree `runs` of a child; later ones were the same
 *   tried HOW COUNT          at the end
 */
#ifndef GRPO_TESTS_MEMORY_TRIALS_H
#define GRPO_TESTS_MEMORY_TRIALS_H

#include <stdbool.h>

/* Reads the environment. */
void trials_begin(void);

/* The N-th allocation is about to be made.  Returns 0, or in a child 'o' (it fails once) or 'f'
 * (it fails, and all later ones).  The caller counts no allocations that are made within. */
int trials_at(long n);

/* The process ends. */
void trials_end(void);

#endif

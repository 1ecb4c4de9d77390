/* confined.h - runs a function in a confined process of its own.
 *
 * The child has no open file but the pipe for its answer, cannot start processes or gain
 * privileges, and may use a limited amount of memory and processor time beyond those it began
 * with.  On Linux, if the kernel allows it, system calls other than those for memory, time and the
 * answer fail (seccomp).  The child is killed when its time is over.  It is not a virtual machine:
 * the child can read this process's memory as it was when the child began.
 */
#ifndef GRPO_SANDBOX_CONFINED_H
#define GRPO_SANDBOX_CONFINED_H

#include "base/buf.h"

typedef struct ConfinedLimits {
  double seconds; /* wall clock, more than 0 */
  size_t memory;  /* bytes beyond those of this process; 0: no limit */
  size_t answer;  /* the most bytes of an answer */
} ConfinedLimits;

/* Appends its answer to the Buf. */
typedef void (*ConfinedFn)(void *user, Buf *answer);

/* Runs fn in a child and appends its answer to *answer.  ELIMIT: the child took too long, answered
 * too much or was killed (the message names the signal).  EIO: no process can be made. */
Status confined_run(ConfinedFn fn, void *user, const ConfinedLimits *limits, Buf *answer);

#endif

/* worker.h - a function run in a process of its own, with little that it may do.
 *
 * The child has no files but the pipe for its answer, may start no process, may use so much more memory
 * and processor time than it began with, and gains no privileges; on Linux, where the kernel allows it,
 * system calls other than those for memory, time and the answer fail (seccomp).  It is killed when its
 * time is over.
 * It is no virtual machine: it can read this process's memory as it was when it began.
 */
#ifndef GRPO_OS_WORKER_H
#define GRPO_OS_WORKER_H

#include "base/buf.h"

typedef struct WorkerLimits {
  double seconds; /* wall clock, more than 0 */
  size_t memory;  /* bytes beside what the process has; 0: no limit */
  size_t answer;  /* bytes of the answer at most */
} WorkerLimits;

/* Appends the answer to the Buf it is given. */
typedef void (*WorkerFn)(void *user, Buf *answer);

/* Runs fn in the child and appends its answer to *answer.  ELIMIT: too late, too long, or the child was
 * killed (by a limit: the message says which signal); EIO: no process can be made. */
Status worker_run(WorkerFn fn, void *user, const WorkerLimits *limits, Buf *answer);

#endif

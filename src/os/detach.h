/* detach.h - a process that continues in the background, and the parent that waits until it has
 * begun.
 *
 * detach_fork() makes a child in a session of its own, with an empty standard input: it has no
 * terminal, so closing one does not end it.  The child writes to the parent's output until
 * detach_ready(), so that errors at its start are seen where it was started.
 *
 * Call it before any thread exists, and once per process.
 */
#ifndef GRPO_OS_DETACH_H
#define GRPO_OS_DETACH_H

#include <stdbool.h>

#include "base/err.h"

typedef struct Detached {
  bool child; /* which of the two processes this is */
  int pipe;   /* the child writes to it, the parent reads from it */
  int pid;    /* the child's number, in the parent */
} Detached;

Status detach_fork(Detached *d);

/* In the child: appends all later output to `log` and sends `line` to the parent.  EIO: the log
 * cannot be opened.  It succeeds even if the parent has ended. */
Status detach_ready(Detached *d, const char *log, const char *line);

/* In the parent: waits for the child's line, at most size - 1 bytes.  *exited is -1, or the exit
 * status of a child that ended without a line (128 + n: by signal n).  When *stop becomes
 * non-zero, the child gets a SIGTERM. */
Status detach_wait(Detached *d, char *line, int size, const volatile int *stop, int *exited);

#endif

/* detach.h - a process that goes on in the background, and the one that waits until it has begun.
 *
 * detach_fork() makes a child in a session of its own, with nothing on its standard input: it has no
 * terminal, so closing one does not end it.  The child's output stays the parent's until
 * detach_ready(), so that what goes wrong at the start is seen where it was started.
 *
 * Call it before any thread exists.  One detachment per process.
 */
#ifndef GRPO_OS_DETACH_H
#define GRPO_OS_DETACH_H

#include <stdbool.h>

#include "base/err.h"

typedef struct Detached {
  bool child; /* which of the two processes this is */
  int pipe;   /* child: to write; parent: to read */
  int pid;    /* parent: the child's */
} Detached;

Status detach_fork(Detached *d);

/* In the child: output goes to `log` (appended) from now on, and the parent gets `line`.
 * EIO when the log cannot be opened; a parent that has gone is no failure. */
Status detach_ready(Detached *d, const char *log, const char *line);

/* In the parent: waits for the child's line, at most size - 1 bytes.  *exited: -1, or the child's exit
 * status when it ended without one (128 + n: by signal n).  A signal that *stop counts is passed on to
 * the child as SIGTERM. */
Status detach_wait(Detached *d, char *line, int size, const volatile int *stop, int *exited);

#endif

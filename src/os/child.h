/* child.h - programs that this process starts and looks after.
 *
 * A child has a process group of its own, so a Ctrl-C at the terminal reaches this process only,
 * which decides what its children get.  Its standard input is empty.  On Linux it gets a SIGTERM
 * when this process ends, however that happens; elsewhere it continues.
 *
 * Until child_poll() has returned a status, the number of a child belongs to no other process, so
 * that a signal cannot reach a stranger.
 */
#ifndef GRPO_OS_CHILD_H
#define GRPO_OS_CHILD_H

#include "base/err.h"

typedef struct Child {
  int pid;
  int status; /* -1: not known to have ended */
} Child;

/* Starts the program argv[0], which is a path, with both outputs appended to the file `output`.
 * While the child lives, it holds a shared lock (flock) on the file `shared`, unless that is NULL.
 * EIO: no process can be made, or a file cannot be opened.  A program that cannot be executed ends
 * with status 127 and a line in `output`. */
Status child_start(Child *c, char *const argv[], const char *output, const char *shared);

/* Returns the exit status (128 + n: ended by signal n), or -1 while the child lives. */
int child_poll(Child *c);

/* Sends a signal to a child that lives; does nothing to one that has ended. */
void child_signal(Child *c, int number);

#endif

/* jail_time.h - the processor time of all processes of a jail (jail_inside.h).
 *
 * The kernel adds a process's time to that of the one which waits for it, and to nothing if its
 * parent ignores SIGCHLD.  So the first process of a jail traces the others, sees each of them end,
 * and reads its time then.  Where tracing is refused, the kernel's sum is all that is known.
 */
#ifndef GRPO_OS_JAIL_TIME_H
#define GRPO_OS_JAIL_TIME_H

#include <sys/types.h>

/* In the command, before it is executed: lets its parent trace it and all that it starts. */
void jail_time_follow(void);
/* Waits until a process has ended and reaps it.  Returns its number, and -1 with errno when there
 * is none or a signal came.  Adds to *seconds what it has used, once for each process. */
pid_t jail_time_wait(int *status, double *seconds);

#endif

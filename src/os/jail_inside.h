/* jail_inside.h - the first process of a jail (jail.h): it furnishes the jail and watches the
 * command.
 *
 * It is a copy of a process that may have threads, so it makes system calls only and allocates
 * nothing.  It is process 1 of its namespace: when it ends, the kernel kills all others there.  A
 * SIGTERM makes it end the command and report.
 */
#ifndef GRPO_OS_JAIL_INSIDE_H
#define GRPO_OS_JAIL_INSIDE_H

#include "os/jail_task.h"

enum { JAIL_USER = 1000 }; /* the user and group of the command, as it sees itself */

typedef enum JailStep {
#define JAIL_STEPS(X)                                                                              \
  X(DONE, "")                                                                                      \
  X(PATH, "cannot read a path of `read`")                                                          \
  X(USER, "cannot change the user")                                                                \
  X(PARENT, "the process that asked has ended")                                                    \
  X(ROOT, "cannot mount a file system in memory")                                                  \
  X(MOUNT, "cannot mount what the command reads")                                                  \
  X(FILES, "cannot write the files of the command")                                                \
  X(PIVOT, "cannot change the root directory")                                                     \
  X(FORK, "cannot make a process")                                                                 \
  X(LIMITS, "cannot set the limits")                                                               \
  X(FILTER, "cannot filter system calls")                                                          \
  X(COMMAND, "cannot run the command")
#define X(name, text) JAIL_STEP_##name,
  JAIL_STEPS(X)
#undef X
      JAIL_NSTEPS
} JailStep;

typedef struct JailReport {
  int step;   /* JAIL_STEP_DONE, or what failed */
  int error;  /* errno of that */
  int status; /* of the command, as wait() gives it */
  double cpu; /* seconds that all processes have used, where they could be traced */
} JailReport;

typedef struct JailInside {
  const JailTask *task;
  char tmpfs[64]; /* options of the mount */
  int go;         /* read: a byte comes when this process has its user */
  int report;     /* written: a JailReport */
  int out, err;   /* written: by the command */
} JailInside;

_Noreturn void jail_inside(JailInside *in);

#endif

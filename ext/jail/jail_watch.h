/* jail_watch.h - the process that starts bubblewrap for a jail (jail.h), and watches all that runs
 * in it.
 *
 * It is a copy of a process that may have threads, so it makes system calls only and allocates
 * nothing.  It traces the processes of the jail: so it can limit the command before that begins,
 * sees how it ends, and also counts the time of processes for which nobody waits, which the kernel
 * adds to no process.  When it ends, they all do.  A SIGTERM makes it end them and report.
 */
#ifndef GRPO_EXT_JAIL_JAIL_WATCH_H
#define GRPO_EXT_JAIL_JAIL_WATCH_H

#include <sys/types.h>

#include "jail/jail_task.h"

typedef enum JailStep {
#define JAIL_STEPS(X)                                                                              \
  X(DONE, "")                                                                                      \
  X(PARENT, "the process that asked has ended")                                                    \
  X(USER, "cannot become an ordinary user")                                                        \
  X(START, "cannot start bwrap")                                                                   \
  X(TRACE, "cannot trace processes")                                                               \
  X(BWRAP, "bwrap has failed")                                                                     \
  X(LIMITS, "cannot set the limits")                                                               \
  X(FILES, "cannot write the files of the command")                                                \
  X(COMMAND, "cannot run the command")
#define X(name, text) JAIL_STEP_##name,
  JAIL_STEPS(X)
#undef X
      JAIL_NSTEPS
} JailStep;

typedef struct JailReport {
  int step;   /* JAIL_STEP_DONE, or what failed */
  int error;  /* errno of that; 0 where bwrap has told why */
  int status; /* of the command, as wait() gives it */
  double cpu; /* seconds that the command and all that it started have used */
} JailReport;

enum { JAIL_ARGUMENTS = 6, JAIL_FILTER = 7 }; /* descriptors that bwrap reads */

typedef struct JailWatch {
  const JailTask *task;
  const char *bwrap;       /* its path */
  const char *const *argv; /* of bwrap; ends with NULL */
  const char *arguments;   /* what bwrap reads from JAIL_ARGUMENTS */
  size_t arguments_size;
  int inodes;   /* how many files, directories and links there may be */
  pid_t asker;  /* the process that asked */
  int report;   /* written: a JailReport */
  int out, err; /* written: by the command */
} JailWatch;

_Noreturn void jail_watch(JailWatch *w);

#endif

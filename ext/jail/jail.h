/* jail.h - runs commands that are not trusted, each in a jail that ends with it.
 *
 * A command sees the programs and libraries of the machine (read only), the files that it is given,
 * and nothing else: no network, no other process, no file, descriptor or variable of this process.
 * Whatever it writes is in memory, of limited size, and gone with it, as is every process that it
 * has started.  Its user has no privileges, also where this process is root's.
 *
 * The jail is bubblewrap's (the program bwrap): namespaces of its own for users, files, processes,
 * network, ipc and names, and a seccomp filter.  Here are the limits, and what watches over them;
 * Linux 5.14 counts the processes of each jail.  Where there is no bwrap, or the kernel refuses,
 * nothing is run.
 */
#ifndef GRPO_EXT_JAIL_JAIL_H
#define GRPO_EXT_JAIL_JAIL_H

#include "base/buf.h"
#include "base/err.h"
#include "jail/jail_task.h"

enum { JAIL_AT_ONCE = 64 }; /* the most commands that run side by side */

typedef enum JailEnd {
  JAIL_EXITED, /* code: its exit status */
  JAIL_KILLED, /* code: the signal that ended it */
  JAIL_CPU,    /* used up cpu_seconds */
  JAIL_WALL,   /* was still there after wall_seconds */
  JAIL_OUTPUT  /* wrote more than `output` bytes */
} JailEnd;

typedef struct JailResult {
  JailEnd end;
  int code;
  double cpu;     /* seconds that its processes have used */
  Buf *out, *err; /* the caller's: what it wrote is appended */
} JailResult;

/* Runs n tasks, at most `at_once` of them side by side, and fills in results[i] for tasks[i].  When
 * *stop becomes non-zero all are killed.  EARG: a name of a file or a path cannot be used, or the
 * jail has no such command.  EIO: the system cannot make a jail, and why.  ELIMIT: *stop. */
Status jail_run(const JailTask *tasks, JailResult *results, int n, int at_once,
                const volatile int *stop);

#endif

#include "os/jail_time.h"

#ifdef __linux__
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

enum { PIDS = 1 << 22 }; /* Linux has no greater numbers */

/* Processes that have ended, and whose parents may still wait for them; a bit each. */
static uint8_t ended[PIDS / 8];

static int has_ended(pid_t pid) { return ended[pid / 8] >> (pid % 8) & 1; }

static void set_ended(pid_t pid, int yes) {
  const uint8_t bit = (uint8_t)(1u << (pid % 8));
  ended[pid / 8] = (uint8_t)(yes ? ended[pid / 8] | bit : ended[pid / 8] & ~bit);
}

void jail_time_follow(void) { ptrace(PTRACE_TRACEME, 0, NULL, NULL); }

/* A process has stopped, as its tracer sees it at signals, at its beginning and where it starts
 * another.  It continues, with its signal: SIGSTOP alone does not reach it. */
static void resume(pid_t pid, int status) {
  static int begun;
  const uintptr_t options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  uintptr_t signal = (uintptr_t)WSTOPSIG(status);
  if (status >> 16 || signal == SIGSTOP || !begun) signal = 0;
  if (!begun) ptrace(PTRACE_SETOPTIONS, pid, NULL, options); /* the command is executed */
  begun = 1;
  set_ended(pid, 0);
  ptrace(PTRACE_CONT, pid, NULL, signal);
}

/* The time of a process that has ended and is not reaped, without its children; 0 of a thread. */
static double seconds_of(pid_t pid) {
  struct timespec t;
  clockid_t clock;
  if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

pid_t jail_time_wait(int *status, double *seconds) {
  for (;;) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL)) return -1;
    const pid_t pid = info.si_pid;
    const int over =
        info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    const double used = over && !has_ended(pid) ? seconds_of(pid) : 0;
    if (waitpid(pid, status, __WALL) != pid) return -1;
    if (!WIFSTOPPED(*status)) {
      *seconds += used;
      set_ended(pid, !has_ended(pid)); /* the second time comes from a parent that has ended */
      return pid;
    }
    resume(pid, *status);
  }
}
#endif

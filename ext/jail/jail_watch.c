#include "jail/jail_watch.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jail/jail_filter.h"

#define CALL_close_range 436 /* older libraries have no function for it */

enum { PATH_SIZE = 4096 };

static _Noreturn void leave(const JailWatch *w, JailReport r) {
  if (write(w->report, &r, sizeof r) < 0) _exit(1);
  _exit(0);
}

static _Noreturn void give_up(const JailWatch *w, JailStep step) {
  leave(w, (JailReport){.step = (int)step, .error = errno});
}

/* ---- this process ----------------------------------------------------------------- */

/* Makes the three ends 3 to 5 and closes all others but 0 to 2. */
static void keep_ends(JailWatch *w) {
  int *const ends[] = {&w->report, &w->out, &w->err};
  for (int i = 0; i < 3; i++) *ends[i] = fcntl(*ends[i], F_DUPFD, 16);
  for (int i = 0; i < 3; i++) *ends[i] = dup2(*ends[i], 3 + i);
  syscall(CALL_close_range, 6, ~0U, 0);
}

static volatile sig_atomic_t over;    /* the asker wants the end */
static volatile sig_atomic_t command; /* the process of the command; 0: there is none yet */
static volatile sig_atomic_t first;   /* process 1 of the jail, which ends all others with it */
static volatile sig_atomic_t started; /* bwrap, outside of the jail */

static void end_all(void) {
  if (first)
    kill((pid_t)first, SIGKILL);
  else if (started)
    kill((pid_t)started, SIGKILL);
}

static void on_end(int s) {
  over = s;
  end_all();
}

static void reset_signals(void) {
  sigset_t none;
  for (int s = 1; s < 65; s++) signal(s, SIG_DFL);
  signal(SIGTERM, on_end);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Where memory is short, the jail goes before the training does. */
static void go_first(void) {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "1000", 4) != 4) errno = 0;
  close(fd);
}

/* Root's jails belong to nobody, because the kernel does not count the processes of root.  The
 * library's functions would tell threads that only the asker has. */
static void become_ordinary(const JailWatch *w) {
  enum { NOBODY = 65534 };
  if (geteuid() == 0 &&
      (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) ||
       syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY)))
    give_up(w, JAIL_STEP_USER);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != w->asker) give_up(w, JAIL_STEP_PARENT);
}

/* ---- bwrap ------------------------------------------------------------------------ */

static int write_all(int fd, const char *data, size_t size) {
  while (size) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    data += n;
    size -= (size_t)n;
  }
  return 0;
}

/* A descriptor `at` that reads these bytes, which nobody can change. */
static int open_bytes(int at, const void *data, size_t size) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  const int fd = (int)syscall(SYS_memfd_create, "jail", 2U /* MFD_ALLOW_SEALING */);
  if (fd < 0 || write_all(fd, data, size) || lseek(fd, 0, SEEK_SET) ||
      fcntl(fd, F_ADD_SEALS, seals) || (fd != at && dup2(fd, at) < 0))
    return -1;
  return fd == at ? 0 : close(fd);
}

/* Runs bwrap, which stops when it begins. */
static void start(const JailWatch *w) {
  const void *filter;
  const size_t filter_size = jail_filter(&filter);
  static const char *const no_variables[] = {NULL};
  volatile int step = JAIL_STEP_START, error = 0; /* the child shares the memory */
  personality(ADDR_NO_RANDOMIZE); /* a program is the more likely to do the same again */
  if (chdir("/") || open_bytes(0, w->task->input, w->task->input_size) ||
      open_bytes(JAIL_ARGUMENTS, w->arguments, w->arguments_size) ||
      open_bytes(JAIL_FILTER, filter, filter_size) || dup2(w->out, 1) < 0 || dup2(w->err, 2) < 0)
    give_up(w, JAIL_STEP_START);
  fcntl(w->report, F_SETFD, FD_CLOEXEC);
  close(w->out);
  close(w->err);
  const pid_t pid = vfork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
      step = JAIL_STEP_TRACE;
    else
      execve(w->bwrap, (char *const *)(uintptr_t)w->argv, (char *const *)(uintptr_t)no_variables);
    error = errno;
    _exit(1);
  }
  started = pid > 0 ? pid : 0;
  if (pid > 0) errno = error;
  if (pid < 0 || error) give_up(w, (JailStep)step);
  for (int fd = 0; fd < 3; fd++) close(fd);
  close(JAIL_ARGUMENTS);
  close(JAIL_FILTER);
}

/* ---- before the command begins ---------------------------------------------------- */

static int limit(pid_t pid, int what, uint64_t value) {
  struct rlimit r;
  if (prlimit(pid, what, NULL, &r)) return -1;
  if (r.rlim_max == RLIM_INFINITY || value < r.rlim_max) r.rlim_max = (rlim_t)value;
  r.rlim_cur = r.rlim_max;
  return prlimit(pid, what, &r, NULL);
}

static int set_limits(pid_t pid, const JailTask *t) {
  enum { STACK = 8 << 20, FILES = 256 };
  const uint64_t whole = (uint64_t)t->cpu_seconds;
  const uint64_t seconds = (double)whole < t->cpu_seconds ? whole + 1 : whole;
  return limit(pid, RLIMIT_CPU, seconds) || limit(pid, RLIMIT_AS, t->memory) ||
         limit(pid, RLIMIT_FSIZE, t->disk) ||
         limit(pid, RLIMIT_NPROC, (uint64_t)t->processes + 1) || /* with process 1 */
         limit(pid, RLIMIT_NOFILE, FILES) || limit(pid, RLIMIT_STACK, STACK) ||
         limit(pid, RLIMIT_CORE, 0) || limit(pid, RLIMIT_MEMLOCK, 0) ||
         limit(pid, RLIMIT_MSGQUEUE, 0);
}

/* Makes the directories of a relative path, but not its last part. */
static int make_parents(const char *path) {
  char dir[PATH_SIZE];
  for (size_t i = 0; path[i] && i < sizeof dir - 1; i++) {
    if (path[i] == '/' && i > 0) {
      dir[i] = '\0';
      if (mkdir(dir, 0755) && errno != EEXIST) return -1;
    }
    dir[i] = path[i];
  }
  return 0;
}

static int write_files(const JailTask *t) {
  for (int i = 0; i < t->num_files; i++) {
    const JailFile *f = &t->files[i];
    if (make_parents(f->name)) return -1;
    const int fd = open(f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0 || write_all(fd, f->data, f->size) || close(fd)) return -1;
  }
  return 0;
}

static int enter(pid_t pid, const char *name, int kind) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd < 0 || setns(fd, kind) ? -1 : close(fd);
}

/* A process of its own enters the jail, writes the files there, and limits how many more there can
 * be, for which bwrap has no option.  Nothing of the command has run yet. */
static int furnish(const JailWatch *w, pid_t pid) {
  char options[64];
  volatile int error = 0; /* the child shares the memory */
  snprintf(options, sizeof options, "nr_inodes=%d", w->inodes);
  const pid_t child = vfork();
  if (child == 0) {
    if (enter(pid, "user", CLONE_NEWUSER) || enter(pid, "mnt", CLONE_NEWNS) ||
        mount("none", "/", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) || chdir("/jail") ||
        write_files(w->task))
      error = errno;
    _exit(0);
  }
  if (child < 0) return -1;
  while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR) continue;
  errno = error;
  return error ? -1 : 0;
}

/* ---- while it runs ---------------------------------------------------------------- */

/* bwrap starts process 1 of the jail, which starts the command. */
typedef struct Watched {
  bool begun; /* the command */
  JailReport report;
} Watched;

static void fail_with(Watched *s, JailStep step) {
  s->report.step = (int)step;
  s->report.error = errno;
  end_all();
}

/* A process is new.  Process 1 gets the limits of the command too, because a command might take
 * it over. */
static void meet(const JailWatch *w, Watched *s, pid_t pid) {
  if (pid == started || first == pid || command) return;
  if (!first) {
    first = pid;
    return;
  }
  command = pid;
  if (set_limits(pid, w->task) || set_limits((pid_t)first, w->task))
    fail_with(s, JAIL_STEP_LIMITS);
  else if (furnish(w, pid))
    fail_with(s, JAIL_STEP_FILES);
}

/* A process has stopped, as its tracer sees it at signals, at its beginning and where it starts
 * another or executes a program.  It continues, with its signal: SIGSTOP alone does not reach
 * it. */
static void resume(const JailWatch *w, Watched *s, pid_t pid, int status) {
  static bool traced;
  const uintptr_t options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  const int event = status >> 16;
  uintptr_t signal = (uintptr_t)WSTOPSIG(status);
  if (event || signal == SIGSTOP || !traced) signal = 0;
  if (!traced && ptrace(PTRACE_SETOPTIONS, pid, NULL, options)) fail_with(s, JAIL_STEP_TRACE);
  traced = true;
  meet(w, s, pid);
  if (pid == command && event == PTRACE_EVENT_EXEC) {
    s->begun = true;
    if (w->task->probe) end_all();
  }
  ptrace(PTRACE_CONT, pid, NULL, signal);
}

/* The time of a process that has ended and is not reaped, without its children; 0 of a thread. */
static double seconds_of(pid_t pid) {
  struct timespec t;
  clockid_t clock;
  if (pid == started || pid == first || clock_getcpuclockid(pid, &clock) ||
      clock_gettime(clock, &t))
    return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Watches all until they have ended, which they do with the command. */
static JailReport watch(const JailWatch *w) {
  Watched s = {.report = {.step = JAIL_STEP_DONE}};
  if (over) end_all();
  for (;;) {
    int status;
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL)) {
      if (errno == EINTR) continue;
      break;
    }
    const pid_t pid = info.si_pid;
    const double used = seconds_of(pid);
    if (waitpid(pid, &status, __WALL) != pid) continue;
    if (WIFSTOPPED(status)) {
      resume(w, &s, pid, status);
      continue;
    }
    s.report.cpu += used;
    if (pid == first) first = 0; /* its number may be another's from now on */
    if (pid == started) started = 0;
    if (pid != command) continue;
    s.report.status = status;
    end_all();
  }
  if (!s.begun && !over && s.report.step == JAIL_STEP_DONE)
    s.report.step = command ? JAIL_STEP_COMMAND : JAIL_STEP_BWRAP;
  return s.report;
}

void jail_watch(JailWatch *w) {
  keep_ends(w);
  reset_signals();
  umask(022);
  go_first();
  become_ordinary(w);
  start(w);
  leave(w, watch(w));
}
#endif

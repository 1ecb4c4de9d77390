#include "os/jail.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "os/jail_inside.h"

/* ---- why there is no jail --------------------------------------------------------- */

/* The number in a file of /proc/sys; `missing` where there is none. */
static long setting(const char *path, long missing) {
  FILE *f = fopen(path, "r");
  long v = missing;
  if (!f) return missing;
  if (fscanf(f, "%ld", &v) != 1) v = missing;
  fclose(f);
  return v;
}

static const char *advice(void) {
  if (setting("/proc/sys/user/max_user_namespaces", 1) == 0)
    return "as root, set user.max_user_namespaces = 10000 (sysctl)";
  if (setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
    return "as root, set kernel.unprivileged_userns_clone = 1 (sysctl)";
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
    return "as root, set kernel.apparmor_restrict_unprivileged_userns = 0 (sysctl)";
  return "run this outside of the container, or start the container with user namespaces allowed "
         "(docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)";
}

static Status refused(const char *what, int error) {
  return fail(GRPO_EIO,
              "code cannot be jailed here, because the kernel refuses a part of the jail (%s: %s); "
              "%s",
              what, strerror(error), advice());
}

/* Before Linux 5.14 the processes of all jails of a user count as one. */
static Status check_kernel(void) {
  struct utsname u;
  int major = 0, minor = 0;
  if (uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
      (major > 5 || (major == 5 && minor >= 14)))
    return GRPO_OK;
  return fail(GRPO_EIO,
              "code cannot be jailed here, because that needs Linux 5.14 or newer, and "
              "this is %s; run it on a newer system",
              u.release);
}

/* ---- starting --------------------------------------------------------------------- */

/* Room for what the command writes, and for what it is given. */
static void size_memory_disk(JailInside *in) {
  enum { PAGE = 65536, INODES = 4096 }; /* the largest page of these machines */
  const JailTask *t = in->task;
  size_t bytes = t->disk + t->input_size + 64 * (size_t)PAGE;
  for (int i = 0; i < t->num_files; i++) bytes += t->files[i].size + 2 * (size_t)PAGE;
  snprintf(in->tmpfs, sizeof in->tmpfs, "mode=0755,size=%zu,nr_inodes=%d", bytes,
           INODES + 8 * t->num_files);
}

enum { OUT, ERR, REPORT, STREAMS };

typedef struct Running {
  pid_t pid; /* of the jail's first process; 0: this place is free */
  const JailTask *task;
  JailResult *result;
  int fd[STREAMS]; /* read; -1: has ended */
  int go;          /* written; open as long as this process lives */
  double deadline;
  bool too_long, too_much; /* it was asked to end because of this */
  JailReport report;
  size_t reported; /* bytes of it */
} Running;

static void close_end(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void close_pairs(int pairs[][2], int n) {
  for (int i = 0; i < n; i++) {
    close_end(&pairs[i][0]);
    close_end(&pairs[i][1]);
  }
}

static bool put(pid_t pid, const char *name, const char *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = write(fd, text, strlen(text));
  const int error = errno;
  close(fd);
  errno = error;
  return n == (ssize_t)strlen(text);
}

/* Root's jails belong to nobody, because the kernel does not count the processes of root. */
static bool map_user(pid_t pid) {
  enum { NOBODY = 65534 };
  char users[64], groups[64];
  const bool root = geteuid() == 0;
  snprintf(users, sizeof users, "%d %u 1", JAIL_USER, root ? NOBODY : (unsigned)geteuid());
  snprintf(groups, sizeof groups, "%d %u 1", JAIL_USER, root ? NOBODY : (unsigned)getegid());
  return (root || put(pid, "setgroups", "deny")) && put(pid, "uid_map", users) &&
         put(pid, "gid_map", groups);
}

/* Does not return in the child.  Its end sends no signal and is seen by those alone who wait with
 * __WALL, so that a host that waits for its own children is not disturbed. */
static pid_t start_inside(JailInside *in) {
  const unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                              CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  const pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
  if (pid == 0) jail_inside(in);
  return pid;
}

static void reap(pid_t pid, struct rusage *used) {
  int status;
  memset(used, 0, sizeof *used);
  while (wait4(pid, &status, __WALL, used) < 0 && errno == EINTR) continue;
}

static Status start(Running *r, const JailTask *t, JailResult *result) {
  int pairs[STREAMS + 1][2];
  for (int i = 0; i <= STREAMS; i++) pairs[i][0] = pairs[i][1] = -1;
  for (int i = 0; i <= STREAMS; i++) {
    if (pipe2(pairs[i], O_CLOEXEC) == 0) continue;
    const Status s = fail(GRPO_EIO, "jail: pipe: %s", strerror(errno));
    close_pairs(pairs, STREAMS + 1);
    return s;
  }
  int *const go = pairs[STREAMS];
  JailInside in = {.task = t,
                   .go = go[0],
                   .report = pairs[REPORT][1],
                   .out = pairs[OUT][1],
                   .err = pairs[ERR][1]};
  size_memory_disk(&in);
  const pid_t pid = start_inside(&in);
  if (pid < 0) {
    const Status s = errno == EAGAIN || errno == ENOMEM
                         ? fail(GRPO_EIO, "jail: cannot make a process: %s", strerror(errno))
                         : refused("namespaces", errno);
    close_pairs(pairs, STREAMS + 1);
    return s;
  }
  if (!map_user(pid) || write(go[1], "", 1) != 1) {
    const Status s = refused("mapping of users", errno);
    struct rusage used;
    kill(pid, SIGKILL);
    reap(pid, &used);
    close_pairs(pairs, STREAMS + 1);
    return s;
  }
  *r = (Running){.pid = pid,
                 .task = t,
                 .result = result,
                 .go = go[1],
                 .deadline = clock_seconds() + t->wall_seconds};
  close(go[0]);
  for (int i = 0; i < STREAMS; i++) {
    close(pairs[i][1]);
    r->fd[i] = pairs[i][0];
  }
  return GRPO_OK;
}

/* ---- while they run --------------------------------------------------------------- */

/* The first process ends the others, reaps them and reports; if it does not, it is killed. */
static void ask_to_end(Running *r) {
  const double grace = 5;
  kill(r->pid, SIGTERM);
  r->deadline = clock_seconds() + grace;
}

/* Takes what a stream holds. */
static void take(Running *r, int stream) {
  enum { PIECE = 65536 };
  char piece[PIECE];
  const ssize_t n = read(r->fd[stream], piece, PIECE);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    close_end(&r->fd[stream]);
  } else if (stream == REPORT) {
    const size_t room = sizeof r->report - r->reported;
    const size_t size = (size_t)n < room ? (size_t)n : room;
    memcpy((char *)&r->report + r->reported, piece, size);
    r->reported += size;
  } else if (!r->too_much) {
    Buf *b = stream == OUT ? r->result->out : r->result->err;
    const size_t room = b->len < r->task->output ? r->task->output - b->len : 0;
    buf_put(b, piece, (size_t)n < room ? (size_t)n : room);
    if ((size_t)n <= room) return;
    r->too_much = true;
    ask_to_end(r);
  }
}

/* Waits until something comes or a deadline is over, 0.2 seconds at most, and takes it. */
static void wait_and_take(Running *all, int n) {
  struct pollfd polled[JAIL_AT_ONCE * STREAMS];
  const double now = clock_seconds();
  double left = 0.2;
  for (int i = 0; i < n; i++) {
    Running *r = &all[i];
    for (int s = 0; s < STREAMS; s++)
      polled[i * STREAMS + s] = (struct pollfd){.fd = r->pid ? r->fd[s] : -1, .events = POLLIN};
    if (!r->pid) continue;
    if (now >= r->deadline && (r->too_long || r->too_much)) {
      kill(r->pid, SIGKILL);
    } else if (now >= r->deadline) {
      r->too_long = true;
      ask_to_end(r);
    } else if (r->deadline - now < left) {
      left = r->deadline - now;
    }
  }
  if (poll(polled, (nfds_t)(n * STREAMS), (int)(left * 1e3) + 1) <= 0) return;
  for (int i = 0; i < n * STREAMS; i++)
    if (polled[i].fd >= 0 && polled[i].revents) take(&all[i / STREAMS], i % STREAMS);
}

/* ---- the end ---------------------------------------------------------------------- */

static bool has_ended(const Running *r) {
  return r->pid && r->fd[OUT] < 0 && r->fd[ERR] < 0 && r->fd[REPORT] < 0;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

static Status cannot_begin(const JailTask *t, const JailReport *report) {
  static const char *const texts[] = {
#define X(name, text) text,
      JAIL_STEPS(X)
#undef X
  };
  const int step = report->step > 0 && report->step < JAIL_NSTEPS ? report->step : 1;
  if (step == JAIL_STEP_COMMAND)
    return fail(GRPO_EARG,
                "jail: cannot run '%s': %s; code sees programs below /usr, /bin and "
                "/lib, and what `read` names",
                t->command[0], strerror(report->error));
  if (step == JAIL_STEP_FILES || step == JAIL_STEP_FORK || step == JAIL_STEP_PATH)
    return fail(GRPO_EIO, "jail: %s: %s", texts[step], strerror(report->error));
  return refused(texts[step], report->error);
}

/* The processor's time comes first, because it does not depend on load. */
static Status end(Running *r) {
  struct rusage used;
  JailResult *result = r->result;
  reap(r->pid, &used);
  close_end(&r->go);
  r->pid = 0;
  result->cpu = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  result->code = 0;
  const bool whole = r->reported == sizeof r->report;
  if (whole && r->report.cpu > result->cpu) result->cpu = r->report.cpu;
  if (whole && r->report.step != JAIL_STEP_DONE) return cannot_begin(r->task, &r->report);
  const int status = r->report.status;
  if (r->too_much) {
    result->end = JAIL_OUTPUT;
  } else if (result->cpu >= r->task->cpu_seconds) {
    result->end = JAIL_CPU;
  } else if (r->too_long) {
    result->end = JAIL_WALL;
  } else if (!whole || WIFSIGNALED(status)) { /* somebody may have killed all of it */
    result->end = JAIL_KILLED;
    result->code = whole ? WTERMSIG(status) : SIGKILL;
  } else {
    result->end = JAIL_EXITED;
    result->code = WEXITSTATUS(status);
  }
  try(buf_status(result->out));
  return buf_status(result->err);
}

static void kill_all(Running *all, int n) {
  for (int i = 0; i < n; i++) {
    struct rusage used;
    if (!all[i].pid) continue;
    kill(all[i].pid, SIGKILL);
    reap(all[i].pid, &used);
    close_end(&all[i].go);
    for (int s = 0; s < STREAMS; s++) close_end(&all[i].fd[s]);
    all[i].pid = 0;
  }
}

static Status run_all(const JailTask *tasks, JailResult *results, int n, Running *all, int at_once,
                      const volatile int *stop) {
  int next = 0, done = 0;
  while (done < n) {
    if (stop && *stop) return fail(GRPO_ELIMIT, "jail: interrupted by a signal");
    for (int i = 0; i < at_once && next < n; i++) {
      if (all[i].pid) continue;
      try(start(&all[i], &tasks[next], &results[next]));
      next++;
    }
    wait_and_take(all, at_once);
    for (int i = 0; i < at_once; i++) {
      if (!has_ended(&all[i])) continue;
      done++;
      try(end(&all[i]));
    }
  }
  return GRPO_OK;
}

Status jail_run(const JailTask *tasks, JailResult *results, int n, int at_once,
                const volatile int *stop) {
  Running all[JAIL_AT_ONCE] = {{0}};
  if (at_once > JAIL_AT_ONCE) at_once = JAIL_AT_ONCE;
  if (at_once < 1) at_once = 1;
  try(check_kernel());
  for (int i = 0; i < n; i++) try(jail_check_task(&tasks[i]));
  const Status s = run_all(tasks, results, n, all, at_once, stop);
  kill_all(all, at_once);
  return s;
}

#else

Status jail_run(const JailTask *tasks, JailResult *results, int n, int at_once,
                const volatile int *stop) {
  (void)tasks, (void)results, (void)n, (void)at_once, (void)stop;
  return fail(GRPO_EIO, "code cannot be jailed here, because that needs Linux; run it there");
}
#endif

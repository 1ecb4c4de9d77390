#include "jail/jail.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "jail/jail_watch.h"

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
         "(docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
         "--security-opt systempaths=unconfined)";
}

static Status refused(const char *what, const char *why) {
  return fail(GRPO_EIO,
              "code cannot be jailed here, because the kernel refuses a part of the jail (%s: %s); "
              "%s",
              what, why, advice());
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

enum { PATH_SIZE = 4096, GRACE = 5 /* seconds that a watcher has to end its jail */ };

/* ---- what bwrap is told ------------------------------------------------------------ */

/* Finds the program in the directories of PATH; `path` has PATH_SIZE bytes. */
static Status find_bwrap(char *path) {
  const char *dirs = getenv("PATH");
  if (!dirs || !*dirs) dirs = JAIL_PATH;
  for (size_t n; *dirs; dirs += n + (dirs[n] == ':')) {
    n = strcspn(dirs, ":");
    const int size = snprintf(path, PATH_SIZE, "%.*s/bwrap", (int)n, dirs);
    if (*path == '/' && size < PATH_SIZE && access(path, X_OK) == 0) return GRPO_OK;
  }
  return fail(GRPO_EIO, "code cannot be jailed here, because the program bwrap is missing; install "
                        "bubblewrap (Debian, Ubuntu: apt-get install bubblewrap)");
}

static void put(Buf *b, const char *word) { buf_put(b, word, strlen(word) + 1); }

static void put_words(Buf *b, const char *const *words) {
  for (; *words; words++) put(b, *words);
}

/* The same path inside as outside. */
static void put_path(Buf *b, const char *option, const char *path) {
  put_words(b, (const char *const[]){option, path, path, NULL});
}

/* Room for what the command writes, and for what it is given. */
static size_t memory_disk(const JailTask *t) {
  enum { PAGE = 65536 }; /* the largest page of these machines */
  size_t bytes = t->disk + 64 * (size_t)PAGE;
  for (int i = 0; i < t->num_files; i++) bytes += t->files[i].size + 2 * (size_t)PAGE;
  return bytes;
}

static void put_variable(Buf *b, const char *pair) {
  const char *value = strchr(pair, '=');
  if (!value) return;
  put(b, "--setenv");
  buf_put(b, pair, (size_t)(value - pair));
  put(b, "");
  put(b, value + 1);
}

/* Process 1 is bwrap's; the command must not read its memory or write to it. */
static const char *const spaces[] = {"--unshare-user",
                                     "--unshare-pid",
                                     "--unshare-net",
                                     "--unshare-ipc",
                                     "--unshare-uts",
                                     "--uid",
                                     "1000",
                                     "--gid",
                                     "1000",
                                     "--hostname",
                                     "jail",
                                     "--new-session",
                                     "--clearenv",
                                     "--chdir",
                                     "/jail",
                                     "--die-with-parent",
                                     "--seccomp",
                                     "7",
                                     "--unshare-cgroup-try",
                                     "--size",
                                     NULL};
static const char *const programs[] = {"/usr",
                                       "/bin",
                                       "/sbin",
                                       "/lib",
                                       "/lib32",
                                       "/lib64",
                                       "/libx32",
                                       "/etc/alternatives",
                                       "/etc/ld.so.cache",
                                       NULL};
static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                      "/dev/random", "/dev/urandom", NULL};
static const char *const places[] = {"--dir",   "/tmp",    "--dir", "/dev/shm", "--dir",
                                     "/jail",   "--proc",  "/proc", "--perms",  "0000",
                                     "--tmpfs", "/proc/1", NULL};

_Static_assert(JAIL_FILTER == 7 && JAIL_ARGUMENTS == 6, "descriptors are written here as texts");

static void put_arguments(Buf *b, const JailTask *t) {
  char size[32];
  snprintf(size, sizeof size, "%zu", memory_disk(t));
  put_words(b, spaces);
  put_words(b, (const char *const[]){size, "--perms", "0755", "--tmpfs", "/", NULL});
  for (const char *const *p = programs; *p; p++) put_path(b, "--ro-bind-try", *p);
  for (const char *const *p = devices; *p; p++) put_path(b, "--dev-bind-try", *p);
  put_words(b, places);
  for (const char *const *p = t->readable; p && *p; p++) put_path(b, "--ro-bind", *p);
  for (const char *const *p = t->env; p && *p; p++) put_variable(b, *p);
}

/* The words of bwrap's command line, as pointers. */
static void put_command(Buf *b, const JailTask *t) {
  static const char *const bwrap[] = {"bwrap", "--args", "6", "--"};
  size_t n = 0;
  while (t->command[n]) n++;
  buf_put(b, bwrap, sizeof bwrap);
  buf_put(b, t->command, (n + 1) * sizeof *t->command);
}

/* ---- starting --------------------------------------------------------------------- */

enum { OUT, ERR, REPORT, STREAMS };

typedef struct Running {
  pid_t pid; /* of the jail's watcher; 0: this place is free */
  const JailTask *task;
  JailResult *result;
  int fd[STREAMS]; /* read; -1: has ended */
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

/* Does not return in the child.  The child's end sends no signal, and only a wait with __WALL sees
 * it, so that a host that waits for its own children is not disturbed. */
static pid_t start_watcher(JailWatch *w) {
  const pid_t pid = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, NULL);
  if (pid == 0) jail_watch(w);
  return pid;
}

static void reap(pid_t pid) {
  while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) continue;
}

static Status begin(Running *r, const JailTask *t, JailResult *result, const char *bwrap) {
  enum { INODES = 4096 };
  int pairs[STREAMS][2];
  Buf arguments = {0}, command = {0};
  for (int i = 0; i < STREAMS; i++) pairs[i][0] = pairs[i][1] = -1;
  put_arguments(&arguments, t);
  put_command(&command, t);
  Status s = buf_status(&arguments);
  if (!s) s = buf_status(&command);
  for (int i = 0; i < STREAMS && !s; i++)
    if (pipe2(pairs[i], O_CLOEXEC)) s = fail(GRPO_EIO, "jail: pipe: %s", strerror(errno));
  JailWatch w = {.task = t,
                 .bwrap = bwrap,
                 .argv = (const char *const *)(const void *)command.data,
                 .arguments = arguments.data,
                 .arguments_size = arguments.len,
                 .inodes = INODES + 8 * t->num_files,
                 .asker = getpid(),
                 .report = pairs[REPORT][1],
                 .out = pairs[OUT][1],
                 .err = pairs[ERR][1]};
  const pid_t pid = s ? -1 : start_watcher(&w);
  if (pid < 0 && !s) s = fail(GRPO_EIO, "jail: cannot make a process: %s", strerror(errno));
  buf_free(&arguments);
  buf_free(&command);
  if (s) {
    close_pairs(pairs, STREAMS);
    return s;
  }
  *r = (Running){
      .pid = pid, .task = t, .result = result, .deadline = clock_seconds() + t->wall_seconds};
  for (int i = 0; i < STREAMS; i++) {
    close(pairs[i][1]);
    r->fd[i] = pairs[i][0];
  }
  return GRPO_OK;
}

/* ---- while they run --------------------------------------------------------------- */

/* The watcher ends the others and reports; if it does not, it is killed, and they are with it. */
static void ask_to_end(Running *r) {
  kill(r->pid, SIGTERM);
  r->deadline = clock_seconds() + GRACE;
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

/* Returns bwrap's own words about its failure, one sentence without its name. */
static const char *words_of(Buf *err) {
  static const char name[] = "bwrap: ";
  char *words = buf_status(err) || !err->len ? NULL : err->data;
  if (!words) return "it does not say why";
  words[strcspn(words, "\n")] = '\0';
  if (!strncmp(words, name, sizeof name - 1)) words += sizeof name - 1;
  char *end = strstr(words, ". ");
  if (end) *end = '\0';
  return words;
}

static Status cannot_begin(const JailTask *t, const JailReport *report, Buf *err) {
  static const char *const texts[] = {
#define X(name, text) text,
      JAIL_STEPS(X)
#undef X
  };
  const int step = report->step > 0 && report->step < JAIL_NSTEPS ? report->step : 1;
  const char *words = words_of(err), *last = strrchr(words, ':');
  if (step == JAIL_STEP_COMMAND)
    return fail(GRPO_EARG,
                "jail: cannot run '%s': %s; code sees programs below /usr, /bin and "
                "/lib, and what `read` names",
                t->command[0], last && last[1] ? last + 2 : words);
  if (step == JAIL_STEP_FILES || step == JAIL_STEP_START)
    return fail(GRPO_EIO, "jail: %s: %s", texts[step], strerror(report->error));
  if (step == JAIL_STEP_BWRAP) return refused("bwrap", words);
  return refused(texts[step], strerror(report->error));
}

/* The processor's time comes first, because it does not depend on load. */
static Status end(Running *r) {
  JailResult *result = r->result;
  reap(r->pid);
  r->pid = 0;
  const bool whole = r->reported == sizeof r->report;
  result->cpu = whole ? r->report.cpu : 0;
  result->code = 0;
  if (whole && r->report.step != JAIL_STEP_DONE)
    return cannot_begin(r->task, &r->report, result->err);
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

/* Asks all watchers to end their jails and waits for them; kills those that take too long. */
static void kill_all(Running *all, int n) {
  const double deadline = clock_seconds() + GRACE;
  for (int i = 0; i < n; i++)
    if (all[i].pid) kill(all[i].pid, SIGTERM);
  for (int i = 0; i < n; i++) {
    if (!all[i].pid) continue;
    while (waitpid(all[i].pid, NULL, __WALL | WNOHANG) == 0) {
      if (clock_seconds() >= deadline) kill(all[i].pid, SIGKILL);
      usleep(1000);
    }
    for (int s = 0; s < STREAMS; s++) close_end(&all[i].fd[s]);
    all[i].pid = 0;
  }
}

static Status run_all(const JailTask *tasks, JailResult *results, int n, Running *all, int at_once,
                      const char *bwrap, const volatile int *stop) {
  int next = 0, done = 0;
  while (done < n) {
    if (stop && *stop) return fail(GRPO_ELIMIT, "jail: interrupted by a signal");
    for (int i = 0; i < at_once && next < n; i++) {
      if (all[i].pid) continue;
      try(begin(&all[i], &tasks[next], &results[next], bwrap));
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
  char bwrap[PATH_SIZE];
  try(check_kernel());
  try(find_bwrap(bwrap));
  for (int i = 0; i < n; i++) try(jail_check_task(&tasks[i]));
  const Status s = run_all(tasks, results, n, all, at_once, bwrap, stop);
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

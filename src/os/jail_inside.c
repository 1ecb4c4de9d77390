#include "os/jail_inside.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/jail_filter.h"
#include "os/jail_time.h"

/* ---- system calls without a function in older libraries, by their numbers of all machines  */

#define CALL_open_tree     428
#define CALL_move_mount    429
#define CALL_close_range   436
#define CALL_mount_setattr 442

enum {
  TREE_CLONE = 1,          /* OPEN_TREE_CLONE */
  TREE_RECURSIVE = 0x8000, /* AT_RECURSIVE */
  EMPTY_PATH = 0x1000,     /* AT_EMPTY_PATH */
  MOVE_FROM_EMPTY = 4,     /* MOVE_MOUNT_F_EMPTY_PATH */
  READ_ONLY = 1,           /* MOUNT_ATTR_RDONLY */
  NO_SETUID = 2,           /* MOUNT_ATTR_NOSUID */
  NO_DEVICES = 4,          /* MOUNT_ATTR_NODEV */
  CLOSE_AT_EXEC = 4,       /* CLOSE_RANGE_CLOEXEC */
  MAX_READABLE = 64,
  PATH_SIZE = 4096
};

typedef struct MountAttr { /* struct mount_attr */
  uint64_t set, clear, propagation, userns_fd;
} MountAttr;

/* ---- the descriptors -------------------------------------------------------------- */

/* Makes the four ends 3 to 6 and closes all others but 0 to 2. */
static void keep_ends(JailInside *in) {
  int *const ends[] = {&in->go, &in->report, &in->out, &in->err};
  for (int i = 0; i < 4; i++) *ends[i] = fcntl(*ends[i], F_DUPFD, 16);
  for (int i = 0; i < 4; i++) *ends[i] = dup2(*ends[i], 3 + i);
  syscall(CALL_close_range, 7, ~0U, 0);
}

static _Noreturn void leave(const JailInside *in, JailReport r) {
  if (write(in->report, &r, sizeof r) < 0) _exit(1);
  _exit(0);
}

static _Noreturn void give_up(const JailInside *in, JailStep step) {
  leave(in, (JailReport){.step = step, .error = errno});
}

/* ---- what the command reads ------------------------------------------------------- */

typedef struct Tree {
  const char *path;
  int fd; /* a copy of the mount, which is nowhere yet */
} Tree;

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

/* Copies the mounts while this process still has the file permissions of the one that asked.  A
 * path of `must` that is not there is an error. */
static int open_trees(const char *const *paths, bool must, uint64_t attributes, Tree *trees,
                      int n) {
  for (; paths && *paths && n < MAX_READABLE; paths++) {
    const int fd =
        (int)syscall(CALL_open_tree, AT_FDCWD, *paths, TREE_CLONE | TREE_RECURSIVE | O_CLOEXEC);
    if (fd < 0) {
      if (must || (errno != ENOENT && errno != ENOTDIR)) return -1;
      continue;
    }
    MountAttr a = {.set = attributes};
    if (syscall(CALL_mount_setattr, fd, "", EMPTY_PATH | TREE_RECURSIVE, &a, sizeof a)) return -1;
    trees[n++] = (Tree){*paths, fd};
  }
  return n;
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

static int attach(const Tree *t) {
  const char *at = t->path + 1;
  struct stat st;
  if (fstat(t->fd, &st) || make_parents(at)) return -1;
  if (S_ISDIR(st.st_mode)) {
    if (mkdir(at, 0755) && errno != EEXIST) return -1;
  } else {
    const int fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
      close(fd);
    else if (errno != EEXIST && errno != EROFS && errno != EACCES)
      return -1;
  }
  return (int)syscall(CALL_move_mount, t->fd, "", AT_FDCWD, at, MOVE_FROM_EMPTY);
}

/* ---- the file system -------------------------------------------------------------- */

static int write_file(const char *name, const char *data, size_t size) {
  const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  if (fd < 0) return -1;
  while (size) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    data += n;
    size -= (size_t)n;
  }
  return close(fd);
}

static int write_files(const JailTask *t) {
  static const char *const made[] = {"tmp", "dev", "dev/shm", "proc", "jail"};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    if (mkdir(made[i], 0755) && errno != EEXIST) return -1;
  if (write_file("input", t->input, t->input_size) || chdir("jail")) return -1;
  for (int i = 0; i < t->num_files; i++) {
    const JailFile *f = &t->files[i];
    if (make_parents(f->name) || write_file(f->name, f->data, f->size)) return -1;
  }
  return chdir("..");
}

/* A file system in memory becomes the root.  It is mounted over /tmp, which nobody else sees. */
static void furnish(const JailInside *in, const Tree *trees, int n) {
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("jail", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, in->tmpfs) || chdir("/tmp"))
    give_up(in, JAIL_STEP_ROOT);
  if (write_files(in->task)) give_up(in, JAIL_STEP_FILES);
  for (int i = 0; i < n; i++)
    if (attach(&trees[i])) give_up(in, JAIL_STEP_MOUNT);
  /* Programs run without /proc, which a container may forbid.  Options that hide more than the
   * processes of others need a newer kernel. */
  mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2,subset=pid");
  if (syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/jail"))
    give_up(in, JAIL_STEP_PIVOT);
  if (sethostname("jail", 4)) give_up(in, JAIL_STEP_PIVOT);
}

/* ---- the user --------------------------------------------------------------------- */

/* Waits until the parent has mapped users: until then, this process has none. */
static void wait_for_user(const JailInside *in) {
  char byte;
  ssize_t got;
  while ((got = read(in->go, &byte, 1)) < 0 && errno == EINTR) continue;
  if (got != 1) give_up(in, JAIL_STEP_PARENT);
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) { /* where memory is short, the jail goes before the training does */
    if (write(fd, "1000", 4) != 4) errno = 0;
    close(fd);
  }
}

static void change_user(const JailInside *in) {
  /* The library's functions would tell threads that only the parent has.  Root alone may leave its
   * groups; those of others reach nothing that is mounted. */
  syscall(SYS_setgroups, 0, NULL);
  if (syscall(SYS_setresgid, JAIL_USER, JAIL_USER, JAIL_USER) ||
      syscall(SYS_setresuid, JAIL_USER, JAIL_USER, JAIL_USER))
    give_up(in, JAIL_STEP_USER);
  /* The command must not read this process, which is a copy of the one that asked. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  struct pollfd p = {.fd = in->go};
  if (poll(&p, 1, 0) < 0 || (p.revents & POLLHUP)) give_up(in, JAIL_STEP_PARENT);
}

/* ---- the command ------------------------------------------------------------------ */

static int limit(int what, uint64_t value) {
  struct rlimit r;
  if (getrlimit(what, &r)) return -1;
  if (r.rlim_max == RLIM_INFINITY || value < r.rlim_max) r.rlim_max = (rlim_t)value;
  r.rlim_cur = r.rlim_max;
  return setrlimit(what, &r);
}

static int set_limits(const JailTask *t) {
  enum { STACK = 8 << 20, FILES = 256 };
  const uint64_t whole = (uint64_t)t->cpu_seconds;
  const uint64_t seconds = (double)whole < t->cpu_seconds ? whole + 1 : whole;
  return limit(RLIMIT_CPU, seconds) || limit(RLIMIT_AS, t->memory) ||
         limit(RLIMIT_FSIZE, t->disk) || limit(RLIMIT_NPROC, (uint64_t)t->processes + 1) ||
         limit(RLIMIT_NOFILE, FILES) || limit(RLIMIT_STACK, STACK) || limit(RLIMIT_CORE, 0) ||
         limit(RLIMIT_MEMLOCK, 0) || limit(RLIMIT_MSGQUEUE, 0);
}

static int drop_capabilities(void) {
  struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
  const struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  for (int c = 0; c < 64; c++) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return (int)syscall(SYS_capset, &h, none);
}

/* Runs the program, or with `probe` only tells whether it could. */
static int run_program(const char *path, const JailTask *t) {
  struct stat st;
  if (!t->probe)
    execve(path, (char *const *)(uintptr_t)t->command, (char *const *)(uintptr_t)t->env);
  else if (!stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK))
    return 0;
  return -1;
}

/* Seeks the program in JAIL_PATH. */
static int seek_program(const JailTask *t) {
  const char *name = t->command[0];
  const size_t size = strlen(name);
  char path[PATH_SIZE];
  int error = ENOENT;
  if (strchr(name, '/')) return run_program(name, t);
  for (const char *dir = JAIL_PATH; *dir;) {
    const size_t n = strcspn(dir, ":");
    if (n + size + 2 > sizeof path) break;
    memcpy(path, dir, n);
    path[n] = '/';
    memcpy(path + n + 1, name, size + 1);
    if (!run_program(path, t)) return 0;
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    dir += dir[n] ? n + 1 : n;
  }
  errno = error;
  return -1;
}

static _Noreturn void become_command(const JailInside *in) {
  const int input = open("/input", O_RDONLY);
  unlink("/input");
  if (input < 0 || dup2(input, 0) < 0 || dup2(in->out, 1) < 0 || dup2(in->err, 2) < 0 ||
      syscall(CALL_close_range, 3, ~0U, CLOSE_AT_EXEC))
    give_up(in, JAIL_STEP_LIMITS);
  personality(ADDR_NO_RANDOMIZE); /* a program is the more likely to do the same again */
  if (set_limits(in->task) || drop_capabilities() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    give_up(in, JAIL_STEP_LIMITS);
  jail_time_follow();
  if (jail_filter()) give_up(in, JAIL_STEP_FILTER);
  if (seek_program(in->task)) give_up(in, JAIL_STEP_COMMAND);
  _exit(0);
}

/* The parent asks for the end, and the kernel counts the time of those alone who are reaped. */
static volatile sig_atomic_t over;
static void on_end(int s) {
  over = s;
  kill(-1, SIGKILL); /* all of this namespace but this process */
}

/* Waits for the command, ends what it has left, and reaps it. */
static JailReport wait_for(pid_t command) {
  JailReport r = {.step = JAIL_STEP_DONE};
  if (over) kill(-1, SIGKILL);
  for (;;) {
    int status;
    const pid_t pid = jail_time_wait(&status, &r.cpu);
    if (pid == command) {
      r.status = status;
      kill(-1, SIGKILL);
    }
    if (pid < 0 && errno != EINTR) return r;
  }
}

static void reset_signals(void) {
  sigset_t none;
  for (int s = 1; s < 65; s++) signal(s, SIG_DFL);
  signal(SIGTERM, on_end);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

void jail_inside(JailInside *in) {
  Tree trees[MAX_READABLE + 1];
  keep_ends(in);
  reset_signals();
  setsid();
  umask(022);
  wait_for_user(in);
  int n = open_trees(programs, false, READ_ONLY | NO_SETUID | NO_DEVICES, trees, 0);
  if (n >= 0) n = open_trees(devices, false, READ_ONLY | NO_SETUID, trees, n);
  if (n < 0) give_up(in, JAIL_STEP_MOUNT);
  n = open_trees(in->task->readable, true, READ_ONLY | NO_SETUID | NO_DEVICES, trees, n);
  if (n < 0) give_up(in, JAIL_STEP_PATH);
  change_user(in);
  furnish(in, trees, n);
  /* shares this process's memory until it becomes the command, so that nothing is copied */
  const pid_t command = vfork();
  if (command < 0) give_up(in, JAIL_STEP_FORK);
  if (command == 0) become_command(in);
  close(in->out);
  close(in->err);
  leave(in, wait_for(command));
}
#endif

/* shim.c - LD_PRELOAD: counts the system calls that change files, and lets one of them go wrong; or
 * kills the process at an instant.
 *
 *   CRASH_UNDER=PREFIX   only paths that begin so count, and descriptors that were opened there
 *   CRASH_TRACE=FILE     writes a line for each call: its name and its path
 *   CRASH_AT=N           the call that goes wrong, from 1
 *   CRASH_HOW=kill       SIGKILL before the call
 *             tear       SIGKILL after half of a write
 *             eio, eintr the call fails with that error
 *             short      a write writes one byte
 *             dead       this call and all later ones fail with EIO
 *             full       what needs room fails with ENOSPC from this call on
 *             after      SIGKILL when CRASH_AT microseconds have passed
 *
 * Processes that this one starts are left alone.  Writes of stdio are not seen, because the
 * program writes the files of a run without it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS = 1024 };

static const char *under, *how = "";
static long at;
static int trace = -1;
static atomic_long calls;
static char paths[DESCRIPTORS][256]; /* of descriptors that count; "" for others */

static void *kill_later(void *unused) {
  usleep((useconds_t)at);
  kill(getpid(), SIGKILL);
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("CRASH_TRACE");
  under = getenv("CRASH_UNDER");
  if (getenv("CRASH_HOW")) how = getenv("CRASH_HOW");
  if (getenv("CRASH_AT")) at = atol(getenv("CRASH_AT"));
  if (file) trace = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  unsetenv("LD_PRELOAD");
  pthread_t thread;
  if (!strcmp(how, "after") && pthread_create(&thread, NULL, kill_later, NULL) != 0) abort();
}

static void *next_of(const char *name) {
  void *f = dlsym(RTLD_NEXT, name);
  if (!f) abort();
  return f;
}
#define NEXT(name) ((__typeof__(&name))next_of(#name))

static bool counts(const char *path) {
  return under && path && strncmp(path, under, strlen(under)) == 0;
}

static const char *path_of(int fd) { return fd >= 0 && fd < DESCRIPTORS ? paths[fd] : ""; }

/* The path of a name in a directory; "" if it does not count. */
static const char *path_at(int dir, const char *name) {
  static _Thread_local char path[256];
  if (dir == AT_FDCWD || name[0] == '/') return counts(name) ? name : "";
  if (!*path_of(dir)) return "";
  snprintf(path, sizeof path, "%.200s/%.50s", path_of(dir), name);
  return path;
}

static bool needs_room(const char *name) {
  return strcmp(name, "unlink") != 0 && strcmp(name, "rmdir") != 0 && strcmp(name, "truncate") != 0;
}

/* Counts a call; true when it has to fail: errno is set. */
static bool fails(const char *name, const char *path) {
  if (!path || !*path) return false;
  const long n = atomic_fetch_add(&calls, 1) + 1;
  if (trace >= 0) {
    char line[320];
    const int length = snprintf(line, sizeof line, "%s %s\n", name, path);
    if (NEXT(write)(trace, line, (size_t)length) != length) abort();
  }
  if (!at || n < at || !strcmp(how, "after")) return false;
  if (!strcmp(how, "dead")) return errno = EIO, true;
  if (!strcmp(how, "full")) return errno = ENOSPC, needs_room(name);
  if (n > at) return false;
  if (!strcmp(how, "kill")) kill(getpid(), SIGKILL), pause();
  if (!strcmp(how, "eio")) return errno = EIO, true;
  if (!strcmp(how, "eintr")) return errno = EINTR, true;
  return false;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int opened(int fd, const char *path) {
  if (fd >= 0 && fd < DESCRIPTORS) snprintf(paths[fd], sizeof paths[fd], "%s", path);
  return fd;
}

static int open_at(int dir, const char *name, int flags, mode_t mode) {
  const char *path = path_at(dir, name);
  if ((flags & (O_CREAT | O_TRUNC)) && fails("open", path)) return -1;
  return opened(NEXT(openat)(dir, name, flags, mode), path);
}

#define MODE_OF(flags)                                                                             \
  mode_t mode = 0;                                                                                 \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                                                           \
    va_list list;                                                                                  \
    va_start(list, flags);                                                                         \
    mode = (mode_t)va_arg(list, int);                                                              \
    va_end(list);                                                                                  \
  }

int open(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int dir, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(dir, path, flags, mode);
}
int openat64(int dir, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(dir, path, flags, mode);
}
int close(int fd) {
  if (fd >= 0 && fd < DESCRIPTORS) paths[fd][0] = 0;
  return NEXT(close)(fd);
}

/* ---- writing -------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t n) {
  const char *path = path_of(fd);
  if (fails("write", path)) return -1;
  const bool here = *path && at && atomic_load(&calls) == at;
  if (here && !strcmp(how, "tear")) {
    if (NEXT(write)(fd, data, n / 2) < 0) abort();
    kill(getpid(), SIGKILL), pause();
  }
  return NEXT(write)(fd, data, here && !strcmp(how, "short") && n ? 1 : n);
}
int fsync(int fd) { return fails("fsync", path_of(fd)) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return fails("fsync", path_of(fd)) ? -1 : NEXT(fdatasync)(fd); }
int ftruncate(int fd, off_t size) {
  return fails("truncate", path_of(fd)) ? -1 : NEXT(ftruncate)(fd, size);
}
int truncate(const char *path, off_t size) {
  return fails("truncate", path_at(AT_FDCWD, path)) ? -1 : NEXT(truncate)(path, size);
}

/* ---- names ------------------------------------------------------------------------------- */

int rename(const char *from, const char *to) {
  return fails("rename", path_at(AT_FDCWD, to)) ? -1 : NEXT(rename)(from, to);
}
int link(const char *from, const char *to) {
  return fails("link", path_at(AT_FDCWD, to)) ? -1 : NEXT(link)(from, to);
}
int symlink(const char *target, const char *path) {
  return fails("symlink", path_at(AT_FDCWD, path)) ? -1 : NEXT(symlink)(target, path);
}
int unlink(const char *path) {
  return fails("unlink", path_at(AT_FDCWD, path)) ? -1 : NEXT(unlink)(path);
}
int unlinkat(int dir, const char *path, int flags) {
  return fails("unlink", path_at(dir, path)) ? -1 : NEXT(unlinkat)(dir, path, flags);
}
int rmdir(const char *path) {
  return fails("rmdir", path_at(AT_FDCWD, path)) ? -1 : NEXT(rmdir)(path);
}
int mkdir(const char *path, mode_t mode) {
  return fails("mkdir", path_at(AT_FDCWD, path)) ? -1 : NEXT(mkdir)(path, mode);
}

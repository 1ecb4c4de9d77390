/* odd_machine.c - LD_PRELOAD: a file system without symbolic links (NO_LINKS), and a clock that is
 * CLOCK_OFF seconds away. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int symlink(const char *target, const char *path) {
  const char *how = getenv("NO_LINKS");
  if (!how) return (int)syscall(SYS_symlinkat, target, -100, path);
  errno = atoi(how);
  return -1;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  const char *off = getenv("CLOCK_OFF");
  const int rc = (int)syscall(SYS_clock_gettime, clock, t);
  if (clock == CLOCK_REALTIME && off) t->tv_sec += atoll(off);
  return rc;
}

time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}

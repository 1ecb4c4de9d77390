/* missing.c - functions that src/base/pool.c calls and the C library of the browser lacks: there is
 * one core. */
#include <errno.h>
#include <sched.h>

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
  (void)process;
  (void)size;
  (void)set;
  errno = ENOSYS;
  return -1;
}

int __sched_cpucount(size_t size, const cpu_set_t *set) {
  (void)size;
  (void)set;
  return 1;
}

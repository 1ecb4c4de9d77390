/* The part of linux/futex.h that src/base/pool.c uses: the pool is alone here, so it neither sleeps
 * nor wakes anyone. */
#define FUTEX_WAIT         0
#define FUTEX_WAKE         1
#define FUTEX_PRIVATE_FLAG 128
#ifndef SYS_futex
#define SYS_futex 0
#endif

static inline long syscall(long number, ...) {
  (void)number;
  return 0;
}

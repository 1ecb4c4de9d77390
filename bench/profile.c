/* profile.c - where the time of a run goes: linked into a copy of the program, it looks at the main
 * thread's stack up to a thousand times a second of its processor time.
 *
 * The main thread works on every chunk of every region (pool.h), so its stack says what all threads
 * do; where it waits for them, it is in the pool.  Samples go to the file GRPO_PROFILE, mapped, so
 * that nothing need be done at the end: 64-bit words, for each sample the number of addresses and
 * these, innermost first, as the program's file has them; 0 ends.  Linux only.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { WORDS = 16 << 20, FRAMES = 40, SKIP = 2 /* the handler and the signal's return */ };

static uint64_t *words; /* [WORDS], the file */
static size_t used;
static uint64_t bias;

static void sample(int number) {
  (void)number;
  void *frame[FRAMES];
  const int n = backtrace(frame, FRAMES) - SKIP;
  if (n < 1 || used + (size_t)n + 2 > WORDS) return;
  words[used++] = (uint64_t)n;
  /* a return address is behind its call */
  for (int i = 0; i < n; i++)
    words[used++] = (uint64_t)(uintptr_t)frame[i + SKIP] - bias - (i > 0 ? 1 : 0);
}

static int first_object(struct dl_phdr_info *info, size_t size, void *user) {
  (void)size, (void)user;
  bias = info->dlpi_addr;
  return 1;
}

static int start_timer(void) {
  struct sigevent event;
  timer_t timer;
  const struct timespec period = {0, 1000000};
  const struct itimerspec every = {period, period};
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer)) return -1;
  return timer_settime(timer, 0, &every, NULL);
}

__attribute__((constructor)) static void profile_start(void) {
  const char *path = getenv("GRPO_PROFILE");
  struct sigaction action;
  void *warm[4];
  if (!path) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || ftruncate(fd, (off_t)(WORDS * sizeof *words))) return;
  words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (words == MAP_FAILED) return;
  dl_iterate_phdr(first_object, NULL);
  backtrace(warm, 4); /* loads what it needs */
  memset(&action, 0, sizeof action);
  action.sa_handler = sample;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGPROF, &action, NULL) == 0) (void)!start_timer();
}

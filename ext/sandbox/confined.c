#include "sandbox/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "base/clock.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers map terabytes and make system calls of their own */
#else
#define SANITIZED 0
#endif

/* ---- the child ---------------------------------------------------------------------- */

static void limit(int what, rlim_t value) {
  const struct rlimit r = {value, value};
  setrlimit(what, &r);
}

/* Bytes of address space in use; 0: unknown. */
static size_t mapped(void) {
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  const int n = fscanf(f, "%lu", &pages);
  fclose(f);
  return n == 1 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

#if defined(__linux__) && defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__linux__) && defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* Permits system calls for memory, time, writing the answer and exiting, and no others. */
static void allow_few_calls(void) {
#if defined(__linux__) && !SANITIZED
#define ALLOW(call)                                                                                \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
  struct sock_filter rules[] = {
#ifdef OWN_ARCH /* on another architecture these numbers mean other calls */
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
#endif
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(__NR_brk),
      ALLOW(__NR_mmap),
      ALLOW(__NR_munmap),
      ALLOW(__NR_mremap),
      ALLOW(__NR_madvise),
      ALLOW(__NR_mprotect),
      ALLOW(__NR_clock_gettime),
      ALLOW(__NR_write),
      ALLOW(__NR_exit),
      ALLOW(__NR_exit_group),
      ALLOW(__NR_futex),
      ALLOW(__NR_rt_sigreturn),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
#undef ALLOW
  const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  /* if the kernel has no filters, only the limits of confine() hold */
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
#endif
}

static void confine(const ConfinedLimits *l, int keep) {
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = 3; fd < (most > 0 && most < 4096 ? most : 4096); fd++)
    if (fd != keep) close(fd);
  const size_t space = mapped();
  if (l->memory && space && !SANITIZED) limit(RLIMIT_AS, space + l->memory + ((size_t)16 << 20));
  limit(RLIMIT_CPU, (rlim_t)l->seconds + 2);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NPROC, 0);
  allow_few_calls();
}

static void write_all(int fd, const char *p, size_t n) {
  while (n) {
    const ssize_t done = write(fd, p, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) _exit(1);
    p += done;
    n -= (size_t)done;
  }
}

static _Noreturn void work(ConfinedFn fn, void *user, const ConfinedLimits *l, int out) {
  Buf answer = {0};
  for (int sig = 1; sig < 32; sig++) signal(sig, SIG_DFL);
  confine(l, out);
  fn(user, &answer);
  if (buf_status(&answer)) _exit(1);
  write_all(out, answer.data ? answer.data : "", answer.len);
  _exit(0);
}

/* ---- the parent --------------------------------------------------------------------- */

/* Reads all that the child writes.  Returns false if it takes too long or writes too much. */
static bool collect(int in, const ConfinedLimits *l, Buf *answer) {
  enum { PIECE = 65536 };
  const double deadline = clock_seconds() + l->seconds;
  const size_t before = answer->len;
  char piece[PIECE];
  for (;;) {
    const double left = deadline - clock_seconds();
    struct pollfd p = {.fd = in, .events = POLLIN};
    if (left <= 0) return false;
    const int n = poll(&p, 1, (int)(left * 1e3) + 1);
    if (n <= 0) continue;
    const ssize_t got = read(in, piece, PIECE);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    buf_put(answer, piece, (size_t)got);
    if (answer->len - before > l->answer) return false;
  }
}

Status confined_run(ConfinedFn fn, void *user, const ConfinedLimits *limits, Buf *answer) {
  int ends[2], status = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(GRPO_EIO, "pipe: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return fail(GRPO_EIO, "fork: %s", strerror(errno));
  }
  if (pid == 0) work(fn, user, limits, ends[1]);
  close(ends[1]);
  const bool whole = collect(ends[0], limits, answer);
  close(ends[0]);
  if (!whole) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!whole)
    return fail(GRPO_ELIMIT,
                "the process took longer than %g seconds, or answered too much, and was killed",
                limits->seconds);
  if (WIFSIGNALED(status))
    return fail(GRPO_ELIMIT, "the process was ended by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return fail(GRPO_ELIMIT, "the process ran out of memory");
  return buf_status(answer);
}

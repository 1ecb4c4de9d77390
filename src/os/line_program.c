#include "os/line_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

struct LineProgram {
  pid_t pid;
  int in, out; /* ours: a socket that is its standard input, a pipe from its output */
  Buf to, from;
  size_t sent, taken; /* bytes at the beginning that are done with */
  const char *problem;
};

/* ---- starting ----------------------------------------------------------------------- */

/* Only calls that are safe between fork and exec: this process has threads. */
static _Noreturn void become(char *const argv[], int in, int out, pid_t parent) {
  static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE};
  sigset_t none;
  setpgid(0, 0);
  for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) signal(handled[i], SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
  if (getppid() != parent) _exit(127);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  execvp(argv[0], argv);
  _exit(127);
}

static Status make_pipes(int in[2], int out[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
    return fail(GRPO_EIO, "a program's input: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC) == 0) return GRPO_OK;
  close(in[0]);
  close(in[1]);
  return fail(GRPO_EIO, "a program's output: %s", strerror(errno));
}

Status line_program_start(LineProgram **made, char *const argv[]) {
  int in[2], out[2];
  sigset_t all, before;
  LineProgram *p = mem_zalloc(sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "a program");
  const Status s = make_pipes(in, out);
  if (s) return mem_free(p), s;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of ours runs in the child */
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(argv, in[1], out[1], parent);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(in[1]);
  close(out[1]);
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  *p = (LineProgram){.pid = pid, .in = in[0], .out = out[0]};
  *made = p;
  if (pid > 0) return GRPO_OK;
  *made = NULL;
  line_program_end(p);
  return fail(GRPO_EIO, "%s: no process can be made: %s", argv[0], strerror(errno));
}

/* ---- lines ---------------------------------------------------------------------------- */

Status line_program_send(LineProgram *p, const char *text, size_t n) {
  if (p->sent == p->to.len) buf_clear(&p->to), p->sent = 0;
  buf_put(&p->to, text, n);
  buf_putc(&p->to, '\n');
  return buf_status(&p->to);
}

static void send_some(LineProgram *p) {
  const ssize_t n =
      send(p->in, p->to.data + p->sent, p->to.len - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) p->sent += (size_t)n;
  if (n < 0 && errno != EAGAIN && errno != EINTR) p->sent = p->to.len; /* it reads no more */
}

/* Forgets the line that was taken last. */
static void forget(LineProgram *p) {
  if (!p->taken) return;
  p->from.len -= p->taken;
  memmove(p->from.data, p->from.data + p->taken, p->from.len);
  p->taken = 0;
}

static void receive_some(LineProgram *p) {
  char piece[1 << 16];
  const ssize_t n = read(p->out, piece, sizeof piece);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) buf_put(&p->from, piece, (size_t)n);
  if (n <= 0) p->problem = "it has ended";
}

static const char *line_end(const LineProgram *p) {
  const size_t n = p->from.len - p->taken;
  return n ? memchr(p->from.data + p->taken, '\n', n) : NULL;
}

/* A tenth of a second at most, so that a signal is seen soon. */
static int wait_ms(double left) { return left <= 0 ? 0 : left < 0.1 ? (int)(left * 1e3) + 1 : 100; }

Status line_program_step(LineProgram *p, double seconds, const volatile int *stop) {
  const double end = clock_seconds() + seconds;
  forget(p);
  while (!line_end(p) && !p->problem && !(stop && *stop)) {
    if (p->from.len > LINE_PROGRAM_LINE) {
      p->problem = "it wrote a line of more than a mebibyte";
      break;
    }
    const double left = end - clock_seconds();
    const bool more = p->sent < p->to.len;
    struct pollfd polled[] = {{.fd = p->out, .events = POLLIN},
                              {.fd = more ? p->in : -1, .events = POLLOUT}};
    if (poll(polled, 2, wait_ms(left)) > 0) {
      if (polled[1].revents) send_some(p);
      if (polled[0].revents) receive_some(p);
      try(buf_status(&p->from));
    }
    if (left <= 0) break;
  }
  return GRPO_OK;
}

bool line_program_line(LineProgram *p, const char **line, size_t *n) {
  forget(p);
  const char *end = line_end(p);
  if (!end) return false;
  *line = p->from.data;
  *n = (size_t)(end - p->from.data);
  p->taken = *n + 1;
  return true;
}

const char *line_program_problem(const LineProgram *p) { return line_end(p) ? NULL : p->problem; }

/* ---- the end -------------------------------------------------------------------------- */

/* It gets half a second to end by itself, with whatever it has started. */
static void reap(pid_t pid) {
  kill(-pid, SIGTERM);
  kill(pid, SIGTERM); /* it may not have its group yet */
  for (int i = 0; i < 50; i++) {
    const pid_t ended = waitpid(pid, NULL, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) {
      kill(-pid, SIGKILL);
      return;
    }
    usleep(10000);
  }
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

void line_program_end(LineProgram *p) {
  if (!p) return;
  close(p->in);
  close(p->out);
  if (p->pid > 0) reap(p->pid);
  buf_free(&p->to);
  buf_free(&p->from);
  mem_free(p);
}

#include "mpi/watchdog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"
#include "mpi/watchdog_hub.h"

enum {
  CONNECT_MS = 2000, /* for one address of the hub */
  LOST_SECONDS = 10  /* the hub is gone; rank 0 speaks before the others */
};

static struct {
  int own;       /* rank 0: its end of the pair of sockets; -1: none */
  atomic_int fd; /* the hub; -1: none */
  atomic_bool waits, left;
  int rank, size;
  char hub_host[64];
  /* of the thread */
  double heard, looked, patience;
} dog = {.own = -1, .fd = -1};

/* ---- rank 0 starts the hub --------------------------------------------------------------- */

static Status patience_from_environment(double *out) {
  const char *said = getenv("GRPO_PATIENCE");
  char *end = NULL;
  *out = WATCHDOG_FLOOR;
  if (!said || !*said) return GRPO_OK;
  *out = strtod(said, &end);
  if (*out >= 1 && *out <= 1e6 && !*end) return GRPO_OK;
  return fail(GRPO_EARG, "GRPO_PATIENCE is %.40s, want seconds from 1 to 1000000", said);
}

/* The addresses at which other hosts may reach this one, and 127.0.0.1 for ranks beside it. */
static void find_addresses(WatchdogCard *card) {
  struct ifaddrs *list = NULL;
  card->address[card->naddresses++] = htonl(INADDR_LOOPBACK);
  if (getifaddrs(&list)) return;
  for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
    struct sockaddr_in a;
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
    if (!(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK) continue;
    memcpy(&a, i->ifa_addr, sizeof a);
    if (card->naddresses < WATCHDOG_ADDRESSES)
      card->address[card->naddresses++] = a.sin_addr.s_addr;
  }
  freeifaddrs(list);
}

static int listen_anywhere(uint16_t *port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t n = sizeof a;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, SOMAXCONN) ||
      getsockname(fd, (struct sockaddr *)&a, &n)) {
    close(fd);
    return -1;
  }
  *port = ntohs(a.sin_port);
  return fd;
}

static void close_from(int fd) {
#ifdef SYS_close_range
  if (!syscall(SYS_close_range, fd, ~0U, 0)) return;
#endif
  for (const int end = (int)sysconf(_SC_OPEN_MAX); fd < end; fd++) close(fd);
}

/* In the child: no signal of the launcher ends it, and it holds nothing of the trainer's but the
 * screen: neither files, whose locks it would keep, nor MPI's sockets. */
_Noreturn static void be_hub(Hub *h, int own, int listening) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
  sigset_t none;
  struct rlimit most;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  setsid();
  const int kept[] = {fcntl(own, F_DUPFD, 1000), fcntl(listening, F_DUPFD, 1000)};
  const int nothing = open("/dev/null", O_RDWR);
  if (kept[0] < 0 || kept[1] < 0 || nothing < 0) _exit(1);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(kept[0], 3);
  dup2(kept[1], 4);
  close_from(5);
  if (!getrlimit(RLIMIT_NOFILE, &most)) {
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
  }
  hub_run(h, 3, 4);
  _exit(0);
}

static Status start_hub(WatchdogCard *card, int size, int listening) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    return fail(GRPO_EIO, "no pair of sockets: %s", strerror(errno));
  Hub *h = hub_new(size, card->patience, card->ours, card->hubs);
  const int pid = h ? fork() : -1;
  if (pid == 0) {
    close(pair[0]);
    be_hub(h, pair[1], listening);
  }
  hub_free(h);
  close(pair[1]);
  dog.own = pair[0];
  if (pid > 0) return GRPO_OK;
  close(pair[0]);
  dog.own = -1;
  return fail(GRPO_EIO, "no process can be started: %s", strerror(errno));
}

Status watchdog_open(WatchdogCard *card, int size) {
  *card = (WatchdogCard){0};
  try(patience_from_environment(&card->patience));
  gethostname(card->host, sizeof card->host - 1);
  find_addresses(card);
  if (getrandom(card->ours, sizeof card->ours, 0) != (ssize_t)sizeof card->ours ||
      getrandom(card->hubs, sizeof card->hubs, 0) != (ssize_t)sizeof card->hubs)
    return fail(GRPO_EIO, "no random bytes: %s", strerror(errno));
  uint16_t port = 0;
  const int listening = listen_anywhere(&port);
  if (listening < 0) return fail(GRPO_EIO, "no port can be had: %s", strerror(errno));
  const Status s = start_hub(card, size, listening);
  close(listening);
  if (s == GRPO_OK) card->port = port;
  return s;
}

/* ---- a rank says how it is ------------------------------------------------------------------ */

static void say(const Beat *b) {
  const int fd = atomic_load(&dog.fd);
  if (fd >= 0) (void)!send(fd, b, sizeof *b, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void watchdog_wait(bool waits) { atomic_store_explicit(&dog.waits, waits, memory_order_relaxed); }

void watchdog_leave(int status, bool all) {
  const Beat b = {.kind = all ? BEAT_END : BEAT_LEAVE, .status = status};
  if (!atomic_exchange(&dog.left, true)) say(&b);
}

/* Ends this rank, for the hub or because it is lost. */
static void end_here(int status) {
  if (!atomic_load(&dog.left)) _exit(status);
}

/* Ends this rank with a line about the hub; unheard: seconds, 0: its process has ended. */
static void end_alone(double unheard) {
  char line[256], host[64] = "";
  int n;
  if (atomic_load(&dog.left)) return;
  gethostname(host, sizeof host - 1);
  if (unheard > 0)
    n = snprintf(line, sizeof line,
                 "grpo: rank %d on %s has heard nothing of rank 0 on %s for %.0f s, because that "
                 "host, or the link to it, is lost; resume the run\n",
                 dog.rank, host, dog.hub_host, unheard);
  else
    n = snprintf(line, sizeof line,
                 "grpo: rank %d on %s: the process on %s that watches over the ranks has ended, "
                 "because it was killed, or that host goes down; resume the run\n",
                 dog.rank, host, dog.hub_host);
  (void)!write(STDERR_FILENO, line, (size_t)n);
  end_here(1);
}

static void say_alive(void) {
  say(&(Beat){.kind = BEAT_ALIVE,
              .rank = dog.rank,
              .waits = atomic_load_explicit(&dog.waits, memory_order_relaxed),
              .progress = progress_count(),
              .allowed = progress_allowed()});
}

/* Reads one beat if it is there.  Returns 1: yes, 0: not yet, -1: the hub's process has ended,
 * -2: its host is out of reach. */
static int read_beat(int fd, Beat *b, size_t *got) {
  const ssize_t n = recv(fd, (char *)b + *got, sizeof *b - *got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  if (n <= 0) return n == 0 || errno == ECONNRESET ? -1 : -2;
  *got += (size_t)n;
  if (*got < sizeof *b) return 0;
  *got = 0;
  return 1;
}

static void *watch(void *unused) {
  Beat b;
  size_t got = 0;
  const int fd = atomic_load(&dog.fd);
  double next = 0;
  (void)unused;
  dog.heard = dog.looked = clock_seconds();
  for (;;) {
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, BEAT_MS);
    const double now = clock_seconds();
    if (now - dog.looked > 2) dog.heard += now - dog.looked; /* this process was stopped */
    dog.looked = now;
    int have;
    while ((have = read_beat(fd, &b, &got)) > 0) {
      dog.heard = now;
      if (b.kind == BEAT_ALIVE) dog.patience = b.patience;
      if (b.kind == BEAT_END) end_here(b.status);
    }
    if (have < 0 && atomic_load(&dog.left)) return NULL;
    if (have < 0) {
      poll(NULL, 0, dog.rank ? LOST_SECONDS * 1000 : 0);
      end_alone(have == -1 ? 0 : clock_seconds() - dog.heard);
    }
    if (now - dog.heard > dog.patience) end_alone(now - dog.heard);
    if (now < next) continue;
    say_alive();
    next = now + BEAT_MS / 1000.0;
  }
}

/* ---- it joins -------------------------------------------------------------------------------- */

/* Connects within CONNECT_MS; -1: that is not possible. */
static int reach(uint32_t address, uint16_t port) {
  const struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = address};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
  int why = 0;
  socklen_t n = sizeof why;
  if (fd < 0) return -1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (connect(fd, (const struct sockaddr *)&a, sizeof a) &&
      (errno != EINPROGRESS ||
       poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, CONNECT_MS) != 1 ||
       getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n) || why)) {
    close(fd);
    return -1;
  }
  return fd;
}

/* Says hello; does the hub answer with its word? */
static bool greet(int fd, const WatchdogCard *card, int rank) {
  Beat b = {.kind = BEAT_HELLO, .rank = rank};
  size_t got = 0;
  memcpy(b.word, card->ours, sizeof b.word);
  gethostname(b.host, sizeof b.host - 1);
  if (send(fd, &b, sizeof b, MSG_NOSIGNAL) != (ssize_t)sizeof b) return false;
  const double end = clock_seconds() + CONNECT_MS / 1000.0;
  int have;
  while (!(have = read_beat(fd, &b, &got)) && clock_seconds() < end)
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 100);
  return have > 0 && b.kind == BEAT_HELLO && !memcmp(b.word, card->hubs, sizeof b.word);
}

static Status begin_to_watch(int fd) {
  pthread_t thread;
  sigset_t all, before;
  atomic_store(&dog.fd, fd);
  sigfillset(&all); /* signals are for the trainer's own thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&thread, NULL, watch, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return fail(GRPO_EIO, "no thread can be started: %s", strerror(failed));
  pthread_detach(thread);
  return GRPO_OK;
}

Status watchdog_join(const WatchdogCard *card, int rank, int size) {
  char tried[WATCHDOG_ADDRESSES * INET_ADDRSTRLEN] = "";
  if (!card->port) return fail(GRPO_EIO, "rank 0 has not started it");
  dog.rank = rank;
  dog.size = size;
  dog.patience = card->patience + 1; /* until the hub says its own */
  memcpy(dog.hub_host, card->host, sizeof dog.hub_host);
  if (dog.own >= 0 && greet(dog.own, card, rank)) return begin_to_watch(dog.own);
  for (int i = 0; i < card->naddresses; i++) {
    const int fd = reach(card->address[i], card->port);
    if (fd >= 0 && greet(fd, card, rank)) return begin_to_watch(fd);
    if (fd >= 0) close(fd);
    char name[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &card->address[i], name, sizeof name);
    const size_t n = strlen(tried);
    snprintf(tried + n, sizeof tried - n, "%s%s", n ? " " : "", name);
  }
  return fail(GRPO_EIO, "rank %d does not reach rank 0 on %s at port %d of %s", rank, card->host,
              card->port, tried);
}

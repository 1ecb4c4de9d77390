/* fuzz_watchdog.c - words in any pieces, from ranks and strangers, into mpi/watchdog_hub.h.
 *
 * Strangers learn nothing and end nothing; a rank gets whole words, the hub's own one first, or the
 * end; what ends all is a rank that says so or is gone, or time; and then there is at most one
 * clean line.
 *
 * The input is a list of orders: a byte, whose low 3 bits say what is done and the next 3 to which
 * connection, and a byte with its argument; some take more bytes. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "mpi/watchdog_hub.h"

enum { SIZE = 4, ENDS = 8, FLOOR = 100, GREETING = 2 };

enum Order { RAW, HELLO, ALIVE, LEAVE, CLOSE, TIME, BEATS, READ };

/* A connection, as its own side knows it. */
typedef struct End {
  int fd;
  char sent[sizeof(Beat)]; /* the word that is being sent */
  size_t nsent;
  double opened;
  bool known, refused, left; /* it has said the ranks' word; something else, or nothing; farewell */
  char got[sizeof(Beat)];
  size_t ngot, words;
  double patience; /* that it was told last */
} End;

typedef struct Trial {
  Hub *h;
  End end[ENDS];
  bool used[SIZE];
  double now, began;
  bool may_end; /* a rank has said so, or is gone */
  bool lost;    /* words of a closed side did not arrive, so it is not known who is there */
  int screen[2];
} Trial;

static const uint8_t ranks_word[BEAT_WORD] = "word of ranks..",
                     hubs_word[BEAT_WORD] = "word of the hub";

/* Makes a socket hold few words, so that a side that does not read is noticed. */
static void make_small(int fd) {
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int));
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){1}, sizeof(int));
}

static int listener(struct sockaddr_in *at) {
  static struct sockaddr_in a = {.sin_family = AF_INET};
  static int fd = -1;
  socklen_t n = sizeof a;
  if (fd < 0) {
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    make_small(fd);
    FUZZ_CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 64) &&
               !getsockname(fd, (struct sockaddr *)&a, &n));
  }
  *at = a;
  return fd;
}

static int connect_raw(void) {
  struct sockaddr_in at;
  const struct linger none = {.l_onoff = 1};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  listener(&at);
  FUZZ_CHECK(fd >= 0);
  make_small(fd);
  FUZZ_CHECK(!connect(fd, (struct sockaddr *)&at, sizeof at));
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  return fd;
}

/* ---- what the other side has said ------------------------------------------------------ */

/* A whole word has been sent. */
static void note_word(Trial *t, End *e) {
  Beat b;
  memcpy(&b, e->sent, sizeof b);
  if (e->refused || e->left) return;
  if (e->known) {
    e->left = b.kind == BEAT_LEAVE || b.kind == BEAT_END;
    t->may_end |= b.kind == BEAT_END;
    return;
  }
  const bool right = b.kind == BEAT_HELLO && !memcmp(b.word, ranks_word, BEAT_WORD) &&
                     b.rank >= 0 && b.rank < SIZE && !t->used[b.rank];
  e->known = right;
  e->refused = !right;
  if (right) t->used[b.rank] = true;
}

static void put(Trial *t, End *e, const void *data, size_t n) {
  if (e->fd < 0) *e = (End){.fd = connect_raw(), .opened = t->now};
  for (const char *at = data; n;) {
    const size_t left = sizeof e->sent - e->nsent, part = n < left ? n : left;
    if (send(e->fd, at, part, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)part) return;
    memcpy(e->sent + e->nsent, at, part);
    at += part, n -= part, e->nsent += part;
    if (e->nsent < sizeof e->sent) continue;
    e->nsent = 0;
    note_word(t, e);
    hub_listen(t->h, 0);
    hub_listen(t->h, 0); /* the first one may only have let it in */
  }
}

static void close_end(Trial *t, End *e) {
  int waits = 0;
  if (e->fd < 0) return;
  t->lost |= ioctl(e->fd, TIOCOUTQ, &waits) || waits > 0;
  t->may_end |= e->known && !e->left;
  close(e->fd);
  *e = (End){.fd = -1};
  hub_listen(t->h, 0);
}

/* ---- what it hears --------------------------------------------------------------------- */

static void check_word(End *e) {
  Beat b;
  memcpy(&b, e->got, sizeof b);
  FUZZ_CHECK(e->known);
  if (e->words == 0)
    FUZZ_CHECK(b.kind == BEAT_HELLO && !memcmp(b.word, hubs_word, BEAT_WORD));
  else
    FUZZ_CHECK(b.kind == BEAT_ALIVE || b.kind == BEAT_END);
  if (b.kind != BEAT_ALIVE) return;
  FUZZ_CHECK(b.patience >= FLOOR && b.patience >= e->patience);
  e->patience = b.patience; /* it only grows */
}

/* ms: to wait for more, where a full socket was read. */
static void read_all(End *e, int ms) {
  ssize_t n;
  if (e->fd < 0) return;
  while ((n = recv(e->fd, e->got + e->ngot, sizeof e->got - e->ngot, MSG_DONTWAIT)) > 0) {
    e->ngot += (size_t)n;
    FUZZ_CHECK(e->known);
    if (e->ngot < sizeof e->got) continue;
    e->ngot = 0;
    check_word(e);
    e->words++;
    if (ms) poll(&(struct pollfd){.fd = e->fd, .events = POLLIN}, 1, ms);
  }
}

static void check_screen(const Trial *t) {
  char line[1024];
  const ssize_t n = read(t->screen[0], line, sizeof line);
  if (n < 0 && errno == EAGAIN) return;
  FUZZ_CHECK(n > 1 && n < (ssize_t)sizeof line && hub_has_ended_all(t->h));
  FUZZ_CHECK(!memcmp(line, "grpo: rank ", 11));
  FUZZ_CHECK(line[n - 1] == '\n');
  for (ssize_t i = 0; i < n - 1; i++) FUZZ_CHECK(line[i] >= ' ' && line[i] <= '~');
}

static void check_end(const Trial *t) {
  const bool late = t->now - t->began >= FLOOR;
  const bool waited_for = t->used[0] || t->used[1] || t->used[2] || t->used[3];
  FUZZ_CHECK(!hub_has_ended_all(t->h) || t->may_end || (late && waited_for));
}

/* ---- orders ---------------------------------------------------------------------------- */

static void beat(Trial *t, End *e, Beat b, const uint8_t *more, size_t n) {
  if (n > 0) b.progress = more[0] >> 1, b.waits = more[0] & 1;
  if (n > 1) b.allowed = (uint32_t)more[1] << (more[1] % 25);
  put(t, e, &b, sizeof b);
}

static void hello(Trial *t, End *e, int argument, const uint8_t *more, size_t n) {
  Beat b = {.kind = BEAT_HELLO, .rank = argument % 8 - 1};
  memcpy(b.word, ranks_word, BEAT_WORD);
  if (argument & 0x80) b.word[argument % BEAT_WORD] ^= 1;
  memcpy(b.host, "node", 4);
  if (n) memcpy(b.host, more, n < sizeof b.host ? n : sizeof b.host);
  put(t, e, &b, sizeof b);
}

static void pass_time(Trial *t, double seconds, int looks) {
  for (int i = 0; i < looks; i++) {
    hub_look(t->h, t->now += seconds);
    for (End *e = t->end; e < t->end + ENDS; e++)
      e->refused |= e->fd >= 0 && !e->known && t->now - e->opened > GREETING;
  }
}

/* Obeys one order; returns how many bytes it has taken. */
static size_t obey(Trial *t, const uint8_t *data, size_t size) {
  const int argument = data[1];
  End *e = &t->end[data[0] >> 3 & 7];
  const uint8_t *more = data + 2;
  size_t n = 0; /* bytes behind the argument */
  switch ((enum Order)(data[0] & 7)) {
  case RAW:
    n = (size_t)argument;
    break;
  case HELLO:
    n = data[0] & 0x80 ? 64 : 0;
    break;
  case ALIVE:
    n = (size_t)argument % 3;
    break;
  default:
    break;
  }
  if (n > size - 2) n = size - 2;
  switch ((enum Order)(data[0] & 7)) {
  case RAW:
    put(t, e, more, n);
    break;
  case HELLO:
    hello(t, e, argument, more, n);
    break;
  case ALIVE:
    beat(t, e, (Beat){.kind = BEAT_ALIVE}, more, n);
    break;
  case LEAVE: {
    const Beat b = {.kind = argument & 1 ? BEAT_END : BEAT_LEAVE, .status = argument >> 1};
    put(t, e, &b, sizeof b);
    break;
  }
  case CLOSE:
    close_end(t, e);
    break;
  case TIME:
    pass_time(t, argument / 4.0, 1);
    break;
  case BEATS:
    pass_time(t, 0.25, argument);
    break;
  case READ:
    read_all(e, argument % 8);
    break;
  }
  hub_listen(t->h, 0);
  return n + 2;
}

static void begin(Trial *t) {
  struct sockaddr_in at;
  int pair[2];
  *t = (Trial){.now = 1000, .began = 1000, .h = NULL};
  t->h = hub_new(SIZE, FLOOR, ranks_word, hubs_word);
  for (int i = 0; i < ENDS; i++) t->end[i].fd = -1;
  FUZZ_CHECK(t->h && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !pipe2(t->screen, O_NONBLOCK));
  t->end[0] = (End){.fd = pair[0], .opened = t->now};
  hub_begin(t->h, pair[1], listener(&at), t->screen[1], t->now);
}

static void end(Trial *t) {
  struct sockaddr_in at;
  for (int i = 0; i < ENDS; i++)
    if (t->end[i].fd >= 0) close(t->end[i].fd);
  hub_free(t->h);
  close(t->screen[0]);
  close(t->screen[1]);
  for (int fd; (fd = accept(listener(&at), NULL, NULL)) >= 0;) close(fd); /* of this trial */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Trial t;
  begin(&t);
  while (size >= 2 && !hub_has_ended_all(t.h) && !t.lost) {
    const size_t n = obey(&t, data, size);
    data += n, size -= n;
    if (!t.lost) check_end(&t);
  }
  for (int i = 0; i < ENDS; i++) read_all(&t.end[i], 0);
  check_screen(&t);
  end(&t);
  return 0;
}

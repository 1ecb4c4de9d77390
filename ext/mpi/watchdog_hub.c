#include "mpi/watchdog_hub.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
  STRANGERS = 64,     /* connections that have not said who they are */
  GREETING = 2,       /* seconds in which they must */
  RECENT = 3,         /* seconds: a rank that was heard of since then is alive */
  JUMP = 2,           /* more seconds between two looks: this process did not run */
  FAREWELL_MS = 2000, /* for ranks to read that all end */
  ROUND_NS = 10000000 /* between two rounds, so that thousands of ranks cost little */
};

typedef enum PeerState { PEER_ABSENT, PEER_HERE, PEER_LEFT } PeerState;

typedef struct Peer {
  int fd; /* -1: none */
  PeerState state;
  double heard, progressed; /* when; of a stranger, heard: when it came */
  Beat last;
  char in[sizeof(Beat)]; /* the word that comes */
  size_t got;            /* bytes of it that are there */
} Peer;

struct Hub {
  uint8_t ranks_word[BEAT_WORD], own_word[BEAT_WORD];
  int size, listening, screen;
  double floor, looked, slowest; /* seconds */
  double all_wait;               /* since when; 0: one works */
  bool over, told;               /* all end; the user knows why */
  Peer *peer;                    /* [size + STRANGERS]: ranks, then strangers */
  struct pollfd *poll;
};

Hub *hub_new(int size, double floor, const uint8_t ranks[BEAT_WORD], const uint8_t own[BEAT_WORD]) {
  Hub *h = mem_zalloc(sizeof *h);
  const size_t n = (size_t)size + STRANGERS;
  if (!h) return NULL;
  *h = (Hub){.size = size, .floor = floor};
  memcpy(h->ranks_word, ranks, BEAT_WORD);
  memcpy(h->own_word, own, BEAT_WORD);
  h->peer = mem_zalloc(n * sizeof *h->peer);
  h->poll = mem_zalloc((n + 1) * sizeof *h->poll);
  for (size_t i = 0; h->peer && i < n; i++) h->peer[i].fd = -1;
  if (h->peer && h->poll) return h;
  hub_free(h);
  return NULL;
}

static void drop(Peer *p) {
  if (p->fd >= 0) close(p->fd);
  p->fd = -1;
  p->got = 0;
}

void hub_free(Hub *h) {
  if (!h) return;
  for (int i = 0; h->peer && i < h->size + STRANGERS; i++) drop(&h->peer[i]);
  mem_free(h->peer);
  mem_free(h->poll);
  mem_free(h);
}

/* ---- words ------------------------------------------------------------------------------ */

/* A rank that does not read what it asked for gets no half words, but the end. */
static void say(const Peer *p, const Beat *b) {
  const ssize_t n = send(p->fd, b, sizeof *b, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0 && (size_t)n < sizeof *b) shutdown(p->fd, SHUT_WR);
}

/* Ends all ranks, with this line unless one of them has spoken. */
static void end_all(Hub *h, int status, const char *line, ...) {
  char text[512];
  if (h->over) return;
  h->over = true;
  if (line && !h->told) {
    va_list args;
    va_start(args, line);
    vsnprintf(text, sizeof text - 1, line, args);
    va_end(args);
    strcat(text, "\n");
    (void)!write(h->screen, text, strlen(text));
  }
  const Beat end = {.kind = BEAT_END, .status = status};
  for (int r = 0; r < h->size; r++)
    if (h->peer[r].state == PEER_HERE) say(&h->peer[r], &end);
}

/* ---- what ranks say ----------------------------------------------------------------------- */

/* The name of a host, which is shown on a terminal. */
static void make_clean(char *name, size_t size) {
  name[size - 1] = 0;
  for (; *name; name++)
    if (*name < ' ' || *name > '~') *name = '?';
}

static void welcome(Hub *h, Peer *from) {
  const Beat *b = (const void *)from->in;
  const int r = b->rank;
  Beat hello = {.kind = BEAT_HELLO};
  const bool known = memcmp(b->word, h->ranks_word, sizeof b->word) == 0;
  if (!known || r < 0 || r >= h->size || h->peer[r].state != PEER_ABSENT) {
    drop(from);
    return;
  }
  Peer *p = &h->peer[r];
  *p = (Peer){.fd = from->fd, .state = PEER_HERE, .heard = h->looked, .progressed = h->looked};
  p->last = *b;
  make_clean(p->last.host, sizeof p->last.host);
  from->fd = -1;
  from->got = 0;
  memcpy(hello.word, h->own_word, sizeof hello.word);
  say(p, &hello);
}

static double patience(const Hub *h, const Peer *p) {
  return h->floor + HUB_TIMES * h->slowest + (p ? p->last.allowed : 0);
}

static void take_alive(Hub *h, Peer *p, const Beat *b) {
  const double took = h->looked - p->progressed;
  const bool moved = b->progress != p->last.progress, was_heard = h->looked - p->heard < RECENT;
  if (moved && was_heard && !b->waits && !p->last.waits && took > h->slowest) h->slowest = took;
  if (moved || b->waits != p->last.waits) p->progressed = h->looked;
  p->heard = h->looked;
  p->last.progress = b->progress;
  p->last.waits = b->waits;
  p->last.allowed = b->allowed;
  say(p, &(Beat){.kind = BEAT_ALIVE, .patience = patience(h, NULL)});
}

static void take(Hub *h, Peer *p) {
  Beat b;
  memcpy(&b, p->in, sizeof b);
  if (p->state == PEER_ABSENT) { /* a stranger */
    if (b.kind == BEAT_HELLO)
      welcome(h, p);
    else
      drop(p);
  } else if (p->state == PEER_LEFT) { /* its farewell was its last word */
  } else if (b.kind == BEAT_ALIVE) {
    take_alive(h, p, &b);
  } else if (b.kind == BEAT_LEAVE || b.kind == BEAT_END) {
    p->state = PEER_LEFT;
    h->told |= b.status != 0;
    if (b.kind == BEAT_END) end_all(h, b.status, NULL);
  }
}

static void is_gone(Hub *h, Peer *p) {
  const bool here = p->state == PEER_HERE;
  drop(p);
  if (!here) return;
  p->state = PEER_LEFT;
  end_all(h, 1,
          "grpo: rank %d on %s is gone, because it was killed, for want of memory perhaps, or has "
          "crashed; resume the run",
          (int)(p - h->peer), p->last.host);
}

static void hear(Hub *h, Peer *p) {
  while (p->fd >= 0) {
    const ssize_t n = recv(p->fd, p->in + p->got, sizeof p->in - p->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (n <= 0) {
      is_gone(h, p);
      return;
    }
    p->got += (size_t)n;
    if (p->got < sizeof p->in) continue;
    p->got = 0;
    take(h, p);
  }
}

/* Accepts one connection.  Returns false if none waits, or no place is free yet. */
static bool let_in(Hub *h) {
  Peer *place = h->peer + h->size, *end = place + STRANGERS;
  while (place < end && place->fd >= 0) place++;
  const int fd = place < end ? accept(h->listening, NULL, NULL) : -1;
  if (fd >= 0) *place = (Peer){.fd = fd, .heard = h->looked};
  return fd >= 0;
}

/* ---- who fails ------------------------------------------------------------------------------ */

/* A rank that is alive and waits; NULL: none does. */
static const Peer *waiting(const Hub *h) {
  for (const Peer *p = h->peer; p < h->peer + h->size; p++)
    if (p->state == PEER_HERE && p->last.waits && h->looked - p->heard < RECENT) return p;
  return NULL;
}

/* All ranks are inside a call.  When one of their calls ends, it had taken this long, because a
 * large message may take long. */
static void look_at_calls(Hub *h) {
  double since = 0;
  bool all = true;
  const Peer *last = NULL;
  for (const Peer *p = h->peer; p < h->peer + h->size; p++) {
    if (p->state == PEER_LEFT) continue;
    if (p->state == PEER_HERE && h->looked - p->heard >= RECENT) return; /* nobody knows */
    all = all && p->state == PEER_HERE && p->last.waits;
    if (p->progressed > since) since = p->progressed;
  }
  if (!all) since = 0;
  if (h->all_wait > 0 && since != h->all_wait) {
    const double took = (since > 0 ? since : h->looked) - h->all_wait;
    if (took > h->slowest) h->slowest = took;
  }
  h->all_wait = since;
  if (since <= 0 || h->looked - since < patience(h, NULL)) return;
  for (const Peer *p = h->peer; p < h->peer + h->size; p++)
    if (p->state == PEER_HERE && (!last || p->last.progress < last->last.progress)) last = p;
  end_all(h, 1,
          "grpo: rank %d on %s and all others have waited for one another for %.0f s, because the "
          "link between two hosts is cut or too slow; mend it and resume the run",
          (int)(last - h->peer), last->last.host, h->looked - since);
}

static void look_at_rank(Hub *h, const Peer *p, const Peer *waits) {
  const double limit = patience(h, p), unheard = h->looked - p->heard;
  const double still = h->looked - p->progressed;
  const int r = (int)(p - h->peer), other = (int)(waits - h->peer);
  if (unheard > limit)
    end_all(h, 1,
            "grpo: rank %d on %s was not heard of for %.0f s, while rank %d on %s waits, because "
            "it is stopped or the link to its host is cut; resume the run",
            r, p->last.host, unheard, other, waits->last.host);
  else if (unheard < RECENT && !p->last.waits && still > limit)
    end_all(h, 1,
            "grpo: rank %d on %s made no progress for %.0f s, while rank %d on %s waits, because "
            "a reward, a hook or its disk hangs; mend it and resume the run",
            r, p->last.host, still, other, waits->last.host);
}

void hub_look(Hub *h, double now) {
  const double away = now - h->looked;
  h->looked = now;
  if (away > JUMP) /* this process, or the machine, was stopped */
    for (Peer *p = h->peer; p < h->peer + h->size; p++) p->heard += away, p->progressed += away;
  for (Peer *p = h->peer + h->size; p < h->peer + h->size + STRANGERS; p++)
    if (p->fd >= 0 && now - p->heard > GREETING) drop(p);
  const Peer *waits = waiting(h);
  for (const Peer *p = h->peer; waits && p < h->peer + h->size; p++)
    if (p->state == PEER_HERE && p != waits) look_at_rank(h, p, waits);
  look_at_calls(h);
}

/* ---- its life -------------------------------------------------------------------------------- */

void hub_begin(Hub *h, int own, int listening, int screen, double now) {
  h->listening = listening;
  h->screen = screen;
  h->looked = now;
  h->peer[h->size] = (Peer){.fd = own, .heard = now}; /* it says hello as all do */
}

void hub_listen(Hub *h, int ms) {
  nfds_t n = 0;
  h->poll[n++] = (struct pollfd){.fd = h->listening, .events = POLLIN};
  for (int i = 0; i < h->size + STRANGERS; i++)
    if (h->peer[i].fd >= 0) h->poll[n++] = (struct pollfd){.fd = h->peer[i].fd, .events = POLLIN};
  if (poll(h->poll, n, ms) <= 0) return;
  n = 1;
  for (int i = 0; i < h->size + STRANGERS; i++) /* in the same order; hear() closes, opens none */
    if (h->peer[i].fd >= 0 && h->poll[n++].revents) hear(h, &h->peer[i]);
  while (h->poll[0].revents && let_in(h)) {}
}

bool hub_has_ended_all(const Hub *h) { return h->over; }

static void round_of(Hub *h) {
  hub_listen(h, BEAT_MS);
  nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
}

/* Rank 0 comes first, so the hub ends when rank 0 has ended and no other is left. */
static bool is_alone(const Hub *h) {
  for (int r = 0; r < h->size; r++)
    if (h->peer[r].fd >= 0) return false;
  return true;
}

void hub_run(Hub *h, int own, int listening) {
  hub_begin(h, own, listening, STDERR_FILENO, clock_seconds());
  double next = h->looked;
  bool met = false;
  while (!h->over && !(met && is_alone(h))) {
    round_of(h);
    met |= h->peer[0].state != PEER_ABSENT || h->peer[h->size].fd != own;
    if (clock_seconds() < next) continue;
    hub_look(h, clock_seconds());
    next = h->looked + BEAT_MS / 1000.0;
  }
  const double end = clock_seconds() + FAREWELL_MS / 1000.0;
  while (!is_alone(h) && clock_seconds() < end) round_of(h);
}

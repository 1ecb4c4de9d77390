/* The watchdog of ranks, whose ranks are children of this test, without MPI. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/progress.h"
#include "mpi/watchdog.h"
#include "mpi/watchdog_hub.h"
#include "status.h"
#include "testing.h"

enum { RANKS = 3, DONE = 42 };

typedef enum Fate { LEAVES, DIES, STOPS, WAITS, WORKS, HANGS, FAILS, ENDS } Fate;

/* The life of a rank, after all have joined. */
static void live(const WatchdogCard *card, int rank, Fate fate, int ready, int go) {
  char c = 'r';
  if (rank > 0 && watchdog_join(card, rank, RANKS)) _exit(99);
  if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1) _exit(98);
  watchdog_wait(fate == WAITS);
  if (fate == DIES) { /* the last word of another comes first */
    poll(NULL, 0, 500);
    raise(SIGKILL);
  }
  if (fate == STOPS) raise(SIGSTOP);
  if (fate == FAILS) {
    watchdog_leave(7, true);
    _exit(7);
  }
  if (fate == ENDS) { /* as all do, but the launcher is faster than the others */
    watchdog_leave(7, false);
    _exit(7);
  }
  for (int i = 0; fate != LEAVES && i < 3000; i++) { /* the hub ends this much earlier */
    if (fate == WORKS) progress_note();
    poll(NULL, 0, 10);
  }
  watchdog_leave(0, false);
  _exit(DONE);
}

/* Three ranks meet these fates; rank 0 starts the hub, whose line is in `line`.  Statuses: of the
 * ranks that were not killed or stopped, 0 for those. */
static void run(const Fate fate[RANKS], bool stranger, int status[RANKS], char line[512]) {
  int ready[2], go[2], to_ranks[2], pid[RANKS];
  char c;
  CHECK(!pipe(ready) && !pipe(go) && !pipe(to_ranks));
  const char *out = test_path("%s/line", test_tmp());
  setenv("GRPO_PATIENCE", "4", 1);
  for (int r = 0; r < RANKS; r++) {
    pid[r] = fork();
    if (pid[r]) continue;
    WatchdogCard card;
    close(ready[0]);
    if (r == 0) {
      const int fd = open(out, O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(fd, STDERR_FILENO);
      if (watchdog_open(&card, RANKS) || watchdog_join(&card, 0, RANKS)) _exit(97);
      for (int i = 1; i <= RANKS; i++)
        if (write(to_ranks[1], &card, sizeof card) != (ssize_t)sizeof card) _exit(96);
    } else if (read(to_ranks[0], &card, sizeof card) != (ssize_t)sizeof card) {
      _exit(95);
    }
    live(&card, r, fate[r], ready[1], go[0]);
  }
  close(ready[1]);
  for (int r = 0; r < RANKS; r++) CHECK(read(ready[0], &c, 1) == 1);
  WatchdogCard card;
  CHECK(read(to_ranks[0], &card, sizeof card) == (ssize_t)sizeof card);
  for (uint8_t i = 0; stranger && i < 100; i++) { /* of any size, with a wrong word, or none */
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons(card.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    Beat b = {.kind = i % 7, .rank = i % 5 - 1, .status = 3};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!connect(fd, (const struct sockaddr *)&a, sizeof a));
    memset(b.word, i, sizeof b.word);
    CHECK(send(fd, &b, i % 2 ? sizeof b : i, MSG_NOSIGNAL) >= 0);
    if (i % 3) close(fd);
  }
  CHECK(write(go[1], "rrr", RANKS) == RANKS);
  for (int r = 0; r < RANKS; r++) {
    int how;
    if (fate[r] == STOPS) continue;
    CHECK(waitpid(pid[r], &how, 0) == pid[r]);
    status[r] = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
  }
  for (int r = 0; r < RANKS; r++) {
    if (fate[r] != STOPS) continue;
    kill(pid[r], SIGKILL);
    waitpid(pid[r], NULL, 0);
    status[r] = 0;
  }
  CHECK(read(ready[0], &c, 1) == 0); /* the hub holds nothing of ours, and neither do ranks */
  FILE *f = fopen(out, "r");
  const size_t n = fread(line, 1, 511, f);
  line[n] = 0;
  fclose(f);
  for (int i = 0; i < 2; i++) close(go[i]), close(to_ranks[i]);
  close(ready[0]);
}

static void all_end_with(const Fate fate[RANKS], int failed, const char *words) {
  int status[RANKS];
  char line[512], name[64];
  run(fate, false, status, line);
  snprintf(name, sizeof name, "grpo: rank %d on ", failed);
  CHECK(strncmp(line, name, strlen(name)) == 0);
  CHECK(strstr(line, words) != NULL);
  const char *end = strchr(line, '\n');
  CHECK(end && !end[1]); /* one line */
  for (int r = 0; r < RANKS; r++) CHECK(r == failed ? status[r] <= 1 : status[r] == 1);
}

TEST(a_rank_that_dies_ends_all) {
  all_end_with((Fate[]){WAITS, DIES, WORKS}, 1, "is gone");
  all_end_with((Fate[]){DIES, WAITS, WORKS}, 0, "is gone");
}

TEST(a_rank_that_is_stopped_ends_all) {
  all_end_with((Fate[]){WAITS, WORKS, STOPS}, 2, "was not heard of");
}

TEST(a_rank_that_hangs_ends_all) {
  all_end_with((Fate[]){WORKS, HANGS, WAITS}, 1, "made no progress");
}

TEST(ranks_that_wait_for_one_another_end) {
  all_end_with((Fate[]){WAITS, WAITS, WAITS}, 0, "waited for one another");
}

TEST(a_rank_that_has_spoken_ends_all_without_a_line) {
  int status[RANKS];
  char line[512];
  run((Fate[]){WAITS, FAILS, WORKS}, false, status, line);
  CHECK(status[0] == 7 && status[1] == 7 && status[2] == 7);
  CHECK(!line[0]);
  run((Fate[]){WAITS, ENDS, DIES}, false, status, line);
  CHECK(status[0] == 1 && status[1] == 7);
  CHECK(!line[0]);
}

TEST(ranks_that_leave_and_strangers_end_nothing) {
  int status[RANKS];
  char line[512];
  run((Fate[]){LEAVES, LEAVES, LEAVES}, true, status, line);
  for (int r = 0; r < RANKS; r++) CHECK(status[r] == DONE);
  CHECK(!line[0]);
}

TEST(no_hub_is_an_error) {
  const WatchdogCard none = {0};
  CHECK(watchdog_join(&none, 1, RANKS) == GRPO_EIO);
}

/* ---- the hub alone ------------------------------------------------------------------------- */

enum { FLOOR = 50, SILENT = 150 };

/* A hub of RANKS ranks, at second 100, to which nobody has come. */
typedef struct Place {
  Hub *hub;
  struct sockaddr_in at;
  int own, listening, screen[2];
} Place;

static const uint8_t ours[BEAT_WORD] = "ours", hubs[BEAT_WORD] = "hubs";

static void place_open(Place *p) {
  int pair[2];
  socklen_t n = sizeof p->at;
  *p = (Place){.at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
  p->hub = hub_new(RANKS, FLOOR, ours, hubs);
  p->listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK(p->hub && !bind(p->listening, (struct sockaddr *)&p->at, n) && !listen(p->listening, 200));
  CHECK(!getsockname(p->listening, (struct sockaddr *)&p->at, &n) && !pipe(p->screen));
  CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !fcntl(p->screen[0], F_SETFL, O_NONBLOCK));
  p->own = pair[0];
  hub_begin(p->hub, pair[1], p->listening, p->screen[1], 100);
}

static void place_close(Place *p) {
  hub_free(p->hub);
  close(p->own);
  close(p->listening);
  for (int i = 0; i < 2; i++) close(p->screen[i]);
}

static int come(const Place *p) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(!connect(fd, (const struct sockaddr *)&p->at, sizeof p->at));
  return fd;
}

static void tell(const Place *p, int fd, Beat b) {
  memcpy(b.word, ours, sizeof b.word);
  CHECK(send(fd, &b, sizeof b, MSG_NOSIGNAL) == (ssize_t)sizeof b);
  for (int i = 0; i < 3; i++) hub_listen(p->hub, 20);
}

/* The next word of the hub; kind 0: there is none. */
static Beat word_of(int fd) {
  Beat b = {0};
  if (recv(fd, &b, sizeof b, MSG_DONTWAIT) != (ssize_t)sizeof b) b.kind = 0;
  return b;
}

TEST(silent_strangers_keep_no_rank_out) {
  Place p;
  int fd[SILENT];
  place_open(&p);
  for (int i = 0; i < SILENT; i++) fd[i] = come(&p);
  for (int i = 0; i < 3; i++) hub_listen(p.hub, 20);
  const int rank = come(&p);
  hub_look(p.hub, 102.5);
  hub_listen(p.hub, 20);
  hub_look(p.hub, 105);
  tell(&p, rank, (Beat){.kind = BEAT_HELLO, .rank = 1});
  const Beat b = word_of(rank);
  CHECK(b.kind == BEAT_HELLO && !memcmp(b.word, hubs, sizeof b.word));
  for (int i = 0; i < SILENT; i++) close(fd[i]);
  close(rank);
  place_close(&p);
}

TEST(the_slowest_piece_of_work_lengthens_the_patience) {
  Place p;
  place_open(&p);
  tell(&p, p.own, (Beat){.kind = BEAT_HELLO, .rank = 0});
  CHECK(word_of(p.own).kind == BEAT_HELLO);
  tell(&p, p.own, (Beat){.kind = BEAT_ALIVE});
  CHECK(word_of(p.own).patience == FLOOR);
  for (int i = 1; i <= 7; i++) { /* a piece of seven seconds */
    hub_look(p.hub, 100 + i);
    tell(&p, p.own, (Beat){.kind = BEAT_ALIVE, .progress = i == 7});
  }
  while (word_of(p.own).kind) {}
  tell(&p, p.own, (Beat){.kind = BEAT_ALIVE, .progress = 1});
  CHECK(word_of(p.own).patience == FLOOR + HUB_TIMES * 7);
  for (int i = 8; i <= 20; i++) { /* it waits */
    hub_look(p.hub, 100 + i);
    tell(&p, p.own, (Beat){.kind = BEAT_ALIVE, .progress = 1 + (i == 20), .waits = 1});
  }
  while (word_of(p.own).kind) {}
  tell(&p, p.own, (Beat){.kind = BEAT_ALIVE, .progress = 2});
  CHECK(word_of(p.own).patience == FLOOR + HUB_TIMES * 7);
  place_close(&p);
}

TEST(the_name_of_a_host_writes_nothing_else_to_the_screen) {
  Place p;
  char line[512] = "";
  place_open(&p);
  const int rank = come(&p);
  tell(&p, rank, (Beat){.kind = BEAT_HELLO, .rank = 2, .host = "a\033[31m\nb"});
  close(rank);
  for (int i = 0; i < 3; i++) hub_listen(p.hub, 20);
  CHECK(hub_has_ended_all(p.hub));
  CHECK(read(p.screen[0], line, sizeof line - 1) > 0);
  CHECK(!strncmp(line, "grpo: rank 2 on a?[31m?b is gone", 32));
  place_close(&p);
}

TEST(a_rank_that_has_not_read_for_long_gets_whole_words_or_the_end) {
  const int small = 1;
  const struct timeval patience = {.tv_usec = 200000};
  Beat b = {.kind = BEAT_ALIVE};
  ssize_t n;
  Place p;
  place_open(&p);
  CHECK(!setsockopt(p.listening, SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
  CHECK(!setsockopt(p.listening, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
  const int fd = come(&p);
  CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
  CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
  tell(&p, fd, (Beat){.kind = BEAT_HELLO, .rank = 0});
  for (int i = 0; i < 600; i++) { /* more than the sockets hold */
    CHECK(send(fd, &b, sizeof b, MSG_NOSIGNAL) == (ssize_t)sizeof b);
    hub_listen(p.hub, 0);
  }
  while ((n = recv(fd, &b, sizeof b, MSG_WAITALL)) == (ssize_t)sizeof b)
    CHECK(b.kind == BEAT_HELLO || b.kind == BEAT_ALIVE);
  CHECK(n <= 0 || recv(fd, &b, sizeof b, 0) == 0);
  close(fd);
  place_close(&p);
}

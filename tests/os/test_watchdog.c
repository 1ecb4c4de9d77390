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
#include "os/watchdog.h"
#include "os/watchdog_hub.h"
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

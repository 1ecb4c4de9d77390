/* Messages between ranks.  Alone it tests one rank, and starts itself again under every mpirun that
 * is installed, with 1, 2, 3 and 7 ranks. */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "mpi/ranks.h"
#include "os/comm.h"
#include "status.h"
#include "testing.h"

enum { MOST = 8, LARGE = 1 << 20 };

static int rank, size;

/* The bytes of rank r's piece; rank 1, if there is one, has none. */
static size_t piece_of(int r) { return r == 1 ? 0 : (size_t)r + 3; }

static void check_gather(void) {
  char mine[MOST + 3], *all;
  size_t at[MOST + 1];
  for (size_t i = 0; i < piece_of(rank); i++) mine[i] = (char)('a' + rank);
  REQUIRE(comm_gather(mine, piece_of(rank), &all, at));
  for (int r = 0; r < size; r++) {
    CHECK(at[r + 1] - at[r] == piece_of(r));
    for (size_t i = at[r]; i < at[r + 1]; i++) CHECK(all[i] == 'a' + r);
  }
  mem_free(all);
}

static void check_share(void) {
  int *x = mem_alloc(LARGE * sizeof *x);
  size_t at[MOST + 1];
  for (int r = 0; r <= size; r++) at[r] = (size_t)(LARGE / size * r) * sizeof *x;
  at[size] = LARGE * sizeof *x;
  for (size_t i = 0; i < LARGE; i++) x[i] = -1;
  for (size_t i = at[rank] / sizeof *x; i < at[rank + 1] / sizeof *x; i++) x[i] = (int)i;
  REQUIRE(comm_share(x, at));
  size_t wrong = 0;
  for (size_t i = 0; i < LARGE; i++) wrong += x[i] != (int)i;
  CHECK(wrong == 0);
  mem_free(x);
}

/* Rank a has for rank b one number for each step from a to b, each a + 10 b. */
static void check_exchange(void) {
  int to[MOST * MOST], from[MOST * MOST];
  size_t to_at[MOST + 1] = {0}, from_at[MOST + 1] = {0};
  for (int r = 0; r < size; r++) {
    const size_t out = r > rank ? (size_t)(r - rank) : 0, in = rank > r ? (size_t)(rank - r) : 0;
    to_at[r + 1] = to_at[r] + out * sizeof *to;
    from_at[r + 1] = from_at[r] + in * sizeof *from;
    for (size_t i = 0; i < out; i++) to[to_at[r] / sizeof *to + i] = rank + 10 * r;
  }
  REQUIRE(comm_exchange(to, to_at, from, from_at));
  for (int r = 0; r < size; r++)
    for (size_t i = from_at[r] / sizeof *from; i < from_at[r + 1] / sizeof *from; i++)
      CHECK(from[i] == r + 10 * rank);
  int own = 5, got = 0;
  if (size > 1) return;
  OK(comm_exchange(&own, (const size_t[]){0, sizeof own}, &got, (const size_t[]){0, sizeof got}));
  CHECK(got == 5);
}

static void check_messages(void) {
  int word = rank * 10;
  if (size > 1 && rank == 0) {
    for (int r = 1; r < size; r++) {
      OK(comm_receive(r, &word, sizeof word));
      CHECK(word == r * 10);
    }
    word = 77;
  } else if (rank > 0) {
    OK(comm_send(0, &word, sizeof word));
  }
  if (size == 1) word = 77;
  OK(comm_broadcast(0, &word, sizeof word));
  CHECK(word == 77);
  OK(ranks_barrier());
}

static void check_failures(void) {
  OK(comm_agree(GRPO_OK));
  CHECK(!comm_has_agreed_to_fail());
  if (size < 2) return;
  const Status mine = rank == 1 ? fail(GRPO_ENOMEM, "no room") : GRPO_OK;
  CHECK(comm_agree(mine) == GRPO_ENOMEM);
  CHECK(strncmp(err_message(), "rank 1 on ", 10) == 0 && strstr(err_message(), ": no room"));
  CHECK(comm_has_agreed_to_fail());
}

static void check_all(void) {
  rank = comm_rank();
  size = comm_size();
  CHECK(rank >= 0 && rank < size && size <= MOST);
  check_gather();
  check_share();
  check_exchange();
  check_messages();
  check_failures();
}

static void under_launcher(void) {
  REQUIRE(ranks_start(getenv("GRPO_MPI")));
  const char *want = getenv("TEST_COMM_RANKS");
  CHECK(want && comm_size() == atoi(want));
  check_all();
  comm_finish(0);
}

TEST(one_rank_talks_to_itself) {
  if (getenv("TEST_COMM_RANKS"))
    under_launcher();
  else
    check_all();
}

TEST(a_library_that_is_not_there_is_named) {
  if (getenv("TEST_COMM_RANKS")) return;
  CHECK(ranks_start("other") == GRPO_EARG);
  CHECK(strstr(err_message(), "want openmpi or mpich"));
}

/* A copy of this program, beside the library as grpo is. */
static bool make_program(const char *kind) {
  char self[1024];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(n > 0);
  self[n > 0 ? n : 0] = 0;
  char *name = strrchr(self, '/');
  *name = 0;
  if (access(test_path("%s/../../../libgrpo-%s.so", self, kind), R_OK)) return false;
  CHECK(!system(test_path("cp %s/%s %s/program && cp %s/../../../libgrpo-%s.so %s", self, name + 1,
                          test_tmp(), self, kind, test_tmp())));
  return true;
}

static void run_under(const char *program, const char *kind, const char *flags) {
  static const int ranks[] = {1, 2, 3, 7};
  if (getenv("TEST_COMM_RANKS")) return;
  const bool launches = !system(test_path("command -v %s >/dev/null", program));
  if (!launches || !make_program(kind)) {
    test_skip(launches ? "built without the header of MPI" : "there is no mpirun of this MPI");
    return;
  }
  for (int i = 0; i < 4; i++)
    CHECK(!system(test_path("ASAN_OPTIONS=detect_leaks=0 " /* MPI's own */
                            "TEST_COMM_RANKS=%d GRPO_MPI=%s OMPI_ALLOW_RUN_AS_ROOT=1 "
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 %s %s -n %d %s/program "
                            "one_rank >%s/out 2>&1 </dev/null",
                            ranks[i], kind, program, flags, ranks[i], test_tmp(), test_tmp())));
}

TEST(ranks_of_open_mpi_talk) { run_under("mpirun.openmpi", "openmpi", "--oversubscribe"); }
TEST(ranks_of_mpich_talk) { run_under("mpirun.mpich", "mpich", ""); }

#include "mpi/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "mpi/comm_module.h"
#include "mpi/watchdog.h"
#include "os/comm.h"

static struct {
  const CommModule *module; /* NULL: this process is alone */
  uint64_t sent, received;  /* bytes */
} mpi;

/* ---- messages ---------------------------------------------------------------------------- */

/* Around each call that needs other ranks. */
static const CommModule *meet(void) {
  watchdog_wait(true);
  return mpi.module;
}

static Status met(int failed) {
  watchdog_wait(false);
  progress_note();
  if (!failed) return GRPO_OK;
  return fail(GRPO_EIO, "rank %d of %d has lost the others", comm_rank(), comm_size());
}

/* Bytes that a call gives to others and gets from them. */
static void count(size_t sent, size_t received) {
  mpi.sent += sent;
  mpi.received += received;
}

void ranks_bytes(uint64_t *sent, uint64_t *received) {
  *sent = mpi.sent;
  *received = mpi.received;
}

Status ranks_barrier(void) { return comm_size() == 1 ? GRPO_OK : met(meet()->barrier()); }

static Status broadcast(int from, void *data, size_t bytes) {
  return met(meet()->broadcast(from, data, bytes));
}

static Status share(void *data, const size_t *at) {
  const int rank = comm_rank(), size = comm_size();
  const size_t own = at[rank + 1] - at[rank];
  count(own * (size_t)(size - 1), at[size] - own);
  return met(meet()->share(data, at));
}

static Status exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at) {
  const int rank = comm_rank(), size = comm_size();
  const size_t own = to_at[rank + 1] - to_at[rank];
  count(to_at[size] - own, from_at[size] - own);
  return met(meet()->exchange(to, to_at, from, from_at));
}

static Status send_to(int to, const void *data, size_t bytes) {
  count(bytes, 0);
  return met(meet()->send(to, data, bytes));
}

static Status receive_from(int from, void *data, size_t bytes) {
  count(0, bytes);
  return met(meet()->receive(from, data, bytes));
}

/* ---- the end ----------------------------------------------------------------------------- */

/* MPI's end can hang when nothing is left to do: MPICH's does over UCX if the link loses frames. */
enum { FINISH_SECONDS = 5 };

static volatile sig_atomic_t finish_status;

static void end_without_mpi(int signal) {
  static const char line[] =
      "grpo: warning: all ranks have ended, but MPI did not, so they ended without it; nothing is "
      "lost, whatever its launcher says\n";
  (void)signal;
  if (comm_rank() == 0) (void)!write(STDERR_FILENO, line, sizeof line - 1);
  _exit(finish_status);
}

static void finish(int status) {
  if (status) watchdog_leave(status, false); /* a launcher may end the others now */
  if (comm_size() > 1 && ranks_barrier() == GRPO_OK) {
    finish_status = status;
    watchdog_leave(status, false);
    signal(SIGALRM, end_without_mpi);
    alarm(FINISH_SECONDS);
  }
  mpi.module->finish();
  alarm(0);
  watchdog_leave(0, false);
  mpi.module = NULL;
}

static void leave(int status) { watchdog_leave(status, true); }

static void end_all(int status) {
  leave(status);
  if (comm_size() > 1) mpi.module->abort(status);
}

/* ---- starting ---------------------------------------------------------------------------- */

/* The module's path: beside the program, or in lib/grpo beside its folder. */
static Status find_module(const char *kind, char *path, size_t size) {
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n < 0) return fail(GRPO_EIO, "the program's own path cannot be read");
  program[n] = 0;
  *strrchr(program, '/') = 0;
  static const char *const places[] = {"%s/libgrpo-%s.so", "%s/../lib/grpo/libgrpo-%s.so"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, size, i ? places[1] : places[0], program, kind);
    if (access(path, R_OK) == 0) return GRPO_OK;
  }
  return fail(GRPO_ENOENT,
              "libgrpo-%s.so is not beside the program in %s, so its ranks cannot meet; install "
              "the development package of %s and build again",
              kind, program, kind);
}

static Status load(const char *path, const CommModule **out) {
  const CommModule *(*get)(void);
  void *from = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI's parts look for its symbols */
  if (!from) return fail(GRPO_EARG, "%s", dlerror());
  void *address = dlsym(from, COMM_MODULE_SYMBOL);
  memcpy(&get, &address, sizeof get);
  *out = address ? get() : NULL;
  if (*out && (*out)->version == COMM_MODULE_VERSION) return GRPO_OK;
  dlclose(from);
  return fail(GRPO_EARG, "%s is of another version; build it again", path);
}

/* If the watchdog cannot start, the ranks continue without it, and one of them says so. */
static Status watch(void) {
  static WatchdogCard card;
  const int rank = comm_rank(), size = comm_size();
  int joined[COMM_RANKS];
  size_t at[COMM_RANKS + 1];
  Status s = rank == 0 ? watchdog_open(&card, size) : GRPO_OK;
  try(comm_agree(s == GRPO_EARG ? s : GRPO_OK)); /* a wrong GRPO_PATIENCE */
  if (s == GRPO_OK && rank == 0) s = watchdog_join(&card, 0, size);
  try(comm_broadcast(0, &card, sizeof card));
  if (s == GRPO_OK && rank > 0) s = watchdog_join(&card, rank, size);
  for (int r = 0; r <= size; r++) at[r] = (size_t)r * sizeof *joined;
  joined[rank] = s == GRPO_OK;
  try(comm_share(joined, at));
  int missing = 0;
  while (missing < size && joined[missing]) missing++;
  if (missing == size) return GRPO_OK;
  watchdog_leave(0, false);
  if (rank == missing)
    log_message(LOG_WARNING, "nobody notices a rank that hangs, because %s", err_message());
  return GRPO_OK;
}

Status ranks_start(const char *kind) {
  static const CommBackend backend = {.broadcast = broadcast,
                                      .share = share,
                                      .exchange = exchange,
                                      .send = send_to,
                                      .receive = receive_from,
                                      .finish = finish,
                                      .abort = end_all,
                                      .leave = leave};
  char path[PATH_MAX + 64];
  const CommModule *m = NULL;
  if (mpi.module) return GRPO_OK;
  if (strcmp(kind, "openmpi") && strcmp(kind, "mpich"))
    return fail(GRPO_EARG, "GRPO_MPI is %.40s, want openmpi or mpich", kind);
  try(find_module(kind, path, sizeof path));
  try(load(path, &m));
  int rank = 0, size = 1;
  if (m->start(&rank, &size)) return fail(GRPO_EIO, "%s: the ranks do not meet", path);
  if (size > COMM_RANKS) return fail(GRPO_ELIMIT, "%d ranks, want at most %d", size, COMM_RANKS);
  mpi.module = m;
  comm_connect(&backend, rank, size);
  return size == 1 ? GRPO_OK : watch();
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Processes with equal names see one another's numbers and files in /proc. */
typedef struct NodeName {
  char boot[40], processes[40];
} NodeName;

static NodeName node_name(void) {
  NodeName n = {{0}, {0}};
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  const bool known = f && fgets(n.boot, sizeof n.boot, f);
  if (f) fclose(f);
  const ssize_t k = readlink("/proc/self/ns/pid", n.processes, sizeof n.processes - 1);
  if (!known || k <= 0) /* on a node of its own */
    snprintf(n.boot, sizeof n.boot, "rank %d", comm_rank());
  return n;
}

Status ranks_node(int *first, int *place, int *most) {
  const int rank = comm_rank(), n = comm_size();
  size_t at[COMM_RANKS + 1];
  *first = *place = 0;
  *most = 1;
  if (n == 1) return GRPO_OK;
  NodeName *name = mem_zalloc((size_t)n * sizeof *name);
  if (!name) return fail(GRPO_ENOMEM, "no memory for the names of %d ranks", n);
  name[rank] = node_name();
  for (int r = 0; r <= n; r++) at[r] = (size_t)r * sizeof *name;
  const Status s = comm_share(name, at);
  *first = rank;
  for (int r = 0; r < n && s == GRPO_OK; r++) {
    int count = 0;
    for (int k = 0; k < n; k++) count += memcmp(&name[k], &name[r], sizeof *name) == 0;
    *most = count > *most ? count : *most;
    if (memcmp(&name[r], &name[rank], sizeof *name)) continue;
    if (r < *first) *first = r;
    *place += r < rank;
  }
  mem_free(name);
  return s;
}

#include "os/comm.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "os/comm_module.h"
#include "os/watchdog.h"

static struct {
  const CommModule *module; /* NULL: this process is alone */
  int rank, size;
  bool agreed_to_fail;
  uint64_t sent, received; /* bytes */
} world = {.size = 1};

/* ---- starting ------------------------------------------------------------------------- */

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value && *value;
}

/* A shell that srun has started is a step of one task, with the variables of a launcher. */
static bool is_alone(void) {
  static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const char *size = getenv(sizes[i]);
    if (size && strcmp(size, "1") == 0) return true;
  }
  return false;
}

const char *comm_launcher(void) {
  const char *chosen = getenv("GRPO_MPI");
  if (chosen && *chosen) return chosen;
  if (is_alone()) return NULL;
  if (is_set("OMPI_COMM_WORLD_SIZE")) return "openmpi";
  if (is_set("PMIX_RANK")) return "openmpi"; /* srun --mpi=pmix */
  if (is_set("PMI_RANK") || is_set("PMI_FD")) return "mpich";
  return NULL;
}

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
  int joined[COMM_RANKS];
  size_t at[COMM_RANKS + 1];
  Status s = world.rank == 0 ? watchdog_open(&card, world.size) : GRPO_OK;
  try(comm_agree(s == GRPO_EARG ? s : GRPO_OK)); /* a wrong GRPO_PATIENCE */
  if (s == GRPO_OK && world.rank == 0) s = watchdog_join(&card, 0, world.size);
  try(comm_broadcast(0, &card, sizeof card));
  if (s == GRPO_OK && world.rank > 0) s = watchdog_join(&card, world.rank, world.size);
  for (int r = 0; r <= world.size; r++) at[r] = (size_t)r * sizeof *joined;
  joined[world.rank] = s == GRPO_OK;
  try(comm_share(joined, at));
  int missing = 0;
  while (missing < world.size && joined[missing]) missing++;
  if (missing == world.size) return GRPO_OK;
  watchdog_leave(0, false);
  if (world.rank == missing)
    log_message(LOG_WARNING, "nobody notices a rank that hangs, because %s", err_message());
  return GRPO_OK;
}

Status comm_start(const char *kind) {
  char path[PATH_MAX + 64];
  const CommModule *m = NULL;
  if (world.module) return GRPO_OK;
  if (strcmp(kind, "openmpi") && strcmp(kind, "mpich"))
    return fail(GRPO_EARG, "GRPO_MPI is %.40s, want openmpi or mpich", kind);
  try(find_module(kind, path, sizeof path));
  try(load(path, &m));
  int rank = 0, size = 1;
  if (m->start(&rank, &size)) return fail(GRPO_EIO, "%s: the ranks do not meet", path);
  if (size > COMM_RANKS) return fail(GRPO_ELIMIT, "%d ranks, want at most %d", size, COMM_RANKS);
  world.module = m;
  world.rank = rank;
  world.size = size;
  return size == 1 ? GRPO_OK : watch();
}

/* MPI's end can hang when nothing is left to do: MPICH's does over UCX if the link loses frames. */
enum { FINISH_SECONDS = 5 };

static volatile sig_atomic_t finish_status;

static void end_without_mpi(int signal) {
  static const char line[] =
      "grpo: warning: all ranks have ended, but MPI did not, so they ended without it; nothing is "
      "lost, whatever its launcher says\n";
  (void)signal;
  if (world.rank == 0) (void)!write(STDERR_FILENO, line, sizeof line - 1);
  _exit(finish_status);
}

void comm_finish(int status) {
  if (status) watchdog_leave(status, false); /* a launcher may end the others now */
  if (world.size > 1 && comm_barrier() == GRPO_OK) {
    finish_status = status;
    watchdog_leave(status, false);
    signal(SIGALRM, end_without_mpi);
    alarm(FINISH_SECONDS);
  }
  if (world.module) world.module->finish();
  alarm(0);
  watchdog_leave(0, false);
  world.module = NULL;
  world.rank = 0;
  world.size = 1;
}

void comm_abort(int status) {
  watchdog_leave(status, true);
  if (world.size > 1) world.module->abort(status);
}

void comm_leave(int status) { watchdog_leave(status, true); }

int comm_rank(void) { return world.rank; }
int comm_size(void) { return world.size; }

/* ---- messages ---------------------------------------------------------------------------- */

/* Around each call that needs other ranks. */
static const CommModule *meet(void) {
  watchdog_wait(true);
  return world.module;
}

static Status met(int failed) {
  watchdog_wait(false);
  progress_note();
  if (!failed) return GRPO_OK;
  return fail(GRPO_EIO, "rank %d of %d has lost the others", world.rank, world.size);
}

/* Bytes that a call gives to others and gets from them. */
static void count(size_t sent, size_t received) {
  world.sent += sent;
  world.received += received;
}

void comm_bytes(uint64_t *sent, uint64_t *received) {
  *sent = world.sent;
  *received = world.received;
}

Status comm_barrier(void) { return world.size == 1 ? GRPO_OK : met(meet()->barrier()); }

Status comm_broadcast(int from, void *data, size_t bytes) {
  return world.size == 1 || !bytes ? GRPO_OK : met(meet()->broadcast(from, data, bytes));
}

Status comm_share(void *data, const size_t *at) {
  if (world.size == 1 || !at[world.size]) return GRPO_OK;
  const size_t own = at[world.rank + 1] - at[world.rank];
  count(own * (size_t)(world.size - 1), at[world.size] - own);
  return met(meet()->share(data, at));
}

Status comm_exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at) {
  const size_t most =
      to_at[world.size] > from_at[world.size] ? to_at[world.size] : from_at[world.size];
  if (most > INT_MAX)
    return fail(GRPO_ELIMIT, "%zu bytes of other ranks at once are too many", most);
  const size_t own = to_at[world.rank + 1] - to_at[world.rank];
  count(to_at[world.size] - own, from_at[world.size] - own);
  if (world.size > 1) return met(meet()->exchange(to, to_at, from, from_at));
  if (to_at[1]) memcpy(from, to, to_at[1]);
  return GRPO_OK;
}

Status comm_send(int to, const void *data, size_t bytes) {
  if (world.size == 1) return fail(GRPO_EARG, "there is no rank %d to send to", to);
  count(bytes, 0);
  return met(meet()->send(to, data, bytes));
}

Status comm_receive(int from, void *data, size_t bytes) {
  if (world.size == 1) return fail(GRPO_EARG, "there is no rank %d to receive from", from);
  count(0, bytes);
  return met(meet()->receive(from, data, bytes));
}

Status comm_gather(const void *mine, size_t bytes, char **all, size_t *at) {
  const int n = world.size;
  size_t each[COMM_RANKS + 1];
  *all = NULL;
  for (int r = 0; r <= n; r++) each[r] = (size_t)r * sizeof *at;
  at[world.rank] = bytes;
  try(comm_share(at, each));
  size_t sum = 0;
  for (int r = 0; r < n; r++) {
    const size_t of_rank = at[r];
    at[r] = sum;
    sum += of_rank;
  }
  at[n] = sum;
  char *data = mem_alloc(sum ? sum : 1);
  if (!data) return fail(GRPO_ENOMEM, "no memory for %zu bytes of other ranks", sum);
  if (bytes) memcpy(data + at[world.rank], mine, bytes);
  const Status s = comm_share(data, at);
  if (s == GRPO_OK)
    *all = data;
  else
    mem_free(data);
  return s;
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
    snprintf(n.boot, sizeof n.boot, "rank %d", world.rank);
  return n;
}

Status comm_node(int *first, int *place, int *most) {
  const int n = world.size;
  size_t at[COMM_RANKS + 1];
  *first = *place = 0;
  *most = 1;
  if (n == 1) return GRPO_OK;
  NodeName *name = mem_zalloc((size_t)n * sizeof *name);
  if (!name) return fail(GRPO_ENOMEM, "no memory for the names of %d ranks", n);
  name[world.rank] = node_name();
  for (int r = 0; r <= n; r++) at[r] = (size_t)r * sizeof *name;
  const Status s = comm_share(name, at);
  *first = world.rank;
  for (int r = 0; r < n && s == GRPO_OK; r++) {
    int count = 0;
    for (int k = 0; k < n; k++) count += memcmp(&name[k], &name[r], sizeof *name) == 0;
    *most = count > *most ? count : *most;
    if (memcmp(&name[r], &name[world.rank], sizeof *name)) continue;
    if (r < *first) *first = r;
    *place += r < world.rank;
  }
  mem_free(name);
  return s;
}

/* ---- failures ------------------------------------------------------------------------------ */

typedef struct Failure {
  int status;
  char host[64], message[512];
} Failure;

Status comm_agree(Status mine) {
  if (world.size == 1) return mine;
  Failure f = {.status = (int)mine};
  int of_rank[COMM_RANKS];
  size_t at[COMM_RANKS + 1];
  if (mine) snprintf(f.message, sizeof f.message, "%s", err_message());
  gethostname(f.host, sizeof f.host - 1);
  for (int r = 0; r <= world.size; r++) at[r] = (size_t)r * sizeof *of_rank;
  of_rank[world.rank] = f.status;
  try(comm_share(of_rank, at));
  int first = 0;
  while (first < world.size && of_rank[first] == GRPO_OK) first++;
  if (first == world.size) return GRPO_OK;
  try(comm_broadcast(first, &f, sizeof f));
  world.agreed_to_fail = true;
  if (first == 0) return fail((Status)f.status, "%s", f.message);
  return fail((Status)f.status, "rank %d on %s: %s", first, f.host, f.message);
}

bool comm_has_agreed_to_fail(void) { return world.agreed_to_fail; }

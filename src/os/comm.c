#include "os/comm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static struct {
  const CommBackend *backend; /* NULL: this process is alone */
  int rank, size;
  bool agreed_to_fail;
} world = {.size = 1};

void comm_connect(const CommBackend *backend, int rank, int size) {
  world.backend = backend;
  world.rank = rank;
  world.size = size;
}

void comm_finish(int status) {
  if (world.backend) world.backend->finish(status);
  comm_connect(NULL, 0, 1);
}

void comm_abort(int status) {
  if (world.backend) world.backend->abort(status);
}

void comm_leave(int status) {
  if (world.backend) world.backend->leave(status);
}

int comm_rank(void) { return world.rank; }
int comm_size(void) { return world.size; }

/* ---- messages ---------------------------------------------------------------------------- */

Status comm_broadcast(int from, void *data, size_t bytes) {
  return world.size == 1 || !bytes ? GRPO_OK : world.backend->broadcast(from, data, bytes);
}

Status comm_share(void *data, const size_t *at) {
  return world.size == 1 || !at[world.size] ? GRPO_OK : world.backend->share(data, at);
}

Status comm_exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at) {
  const size_t most =
      to_at[world.size] > from_at[world.size] ? to_at[world.size] : from_at[world.size];
  if (most > INT_MAX)
    return fail(GRPO_ELIMIT, "%zu bytes of other ranks at once are too many", most);
  if (world.size > 1) return world.backend->exchange(to, to_at, from, from_at);
  if (to_at[1]) memcpy(from, to, to_at[1]);
  return GRPO_OK;
}

Status comm_send(int to, const void *data, size_t bytes) {
  if (world.size == 1) return fail(GRPO_EARG, "there is no rank %d to send to", to);
  return world.backend->send(to, data, bytes);
}

Status comm_receive(int from, void *data, size_t bytes) {
  if (world.size == 1) return fail(GRPO_EARG, "there is no rank %d to receive from", from);
  return world.backend->receive(from, data, bytes);
}

Status comm_gather(const void *mine, size_t bytes, char **all, size_t *at) {
  const int n = world.size;
  size_t each[COMM_RANKS + 1] = {0};
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

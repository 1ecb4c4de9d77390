/* mpi_module.c - libgrpo-openmpi.so and libgrpo-mpich.so: comm_module.h by MPI.
 *
 * The Makefile compiles it once against each MPI whose header is there.
 */
#include <limits.h>
#include <mpi.h>
#include <time.h>

#include "mpi/comm_module.h"

enum {
  CHUNK = 1 << 30, /* MPI counts in int */
  SPIN_NS = 50000, /* the time in which a call is asked without a pause whether it is done */
  MOST_NS = 1000000
};

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Waits for a call that MPI has begun.  MPI's own waiting takes a whole core from a rank that has
 * work; here a rank sleeps for a twentieth of the time that it has waited already. */
static int complete(int failed, MPI_Request *r) {
  const long long begun = now_ns();
  for (int done = 0; !failed;) {
    failed = MPI_Test(r, &done, MPI_STATUS_IGNORE);
    if (done || failed) break;
    const long long waited = now_ns() - begun;
    if (waited < SPIN_NS) continue;
    const long pause = waited / 20 < MOST_NS ? (long)(waited / 20) : MOST_NS;
    nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
  }
  return failed;
}

static int start(int *rank, int *size) {
  int ready = 0, given;
  if (MPI_Initialized(&ready)) return 1;
  if (!ready && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) return 1;
  if (MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)) return 1;
  return MPI_Comm_rank(MPI_COMM_WORLD, rank) || MPI_Comm_size(MPI_COMM_WORLD, size);
}

static int barrier(void) {
  MPI_Request r;
  return complete(MPI_Ibarrier(MPI_COMM_WORLD, &r), &r);
}

static int piece(size_t left) { return left < CHUNK ? (int)left : CHUNK; }

static int broadcast(int from, void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    const int n = piece(bytes);
    MPI_Request r;
    if (complete(MPI_Ibcast(at, n, MPI_BYTE, from, MPI_COMM_WORLD, &r), &r)) return 1;
    at += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static int share_at_once(void *data, const size_t *at, int size) {
  int count[size], first[size];
  for (int r = 0; r < size; r++) {
    first[r] = (int)at[r];
    count[r] = (int)(at[r + 1] - at[r]);
  }
  MPI_Request request;
  return complete(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, first, MPI_BYTE,
                                  MPI_COMM_WORLD, &request),
                  &request);
}

static int share(void *data, const size_t *at) {
  int size;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size)) return 1;
  if (at[size] <= INT_MAX) return share_at_once(data, at, size);
  for (int r = 0; r < size; r++)
    if (broadcast(r, (char *)data + at[r], at[r + 1] - at[r])) return 1;
  return 0;
}

static int exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at) {
  int size;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size)) return 1;
  int to_first[size], to_count[size], from_first[size], from_count[size];
  for (int r = 0; r < size; r++) {
    to_first[r] = (int)to_at[r];
    to_count[r] = (int)(to_at[r + 1] - to_at[r]);
    from_first[r] = (int)from_at[r];
    from_count[r] = (int)(from_at[r + 1] - from_at[r]);
  }
  if (!to_at[size]) to = to_first; /* for Open MPI equal addresses mean MPI_IN_PLACE */
  if (!from_at[size]) from = from_first;
  MPI_Request request;
  return complete(MPI_Ialltoallv(to, to_count, to_first, MPI_BYTE, from, from_count, from_first,
                                 MPI_BYTE, MPI_COMM_WORLD, &request),
                  &request);
}

static int send_to(int to, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    const int n = piece(bytes);
    MPI_Request r;
    if (complete(MPI_Isend(at, n, MPI_BYTE, to, 0, MPI_COMM_WORLD, &r), &r)) return 1;
    at += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static int receive_from(int from, void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    const int n = piece(bytes);
    MPI_Request r;
    if (complete(MPI_Irecv(at, n, MPI_BYTE, from, 0, MPI_COMM_WORLD, &r), &r)) return 1;
    at += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static void finish(void) {
  int over = 0;
  if (MPI_Finalized(&over) == MPI_SUCCESS && !over) MPI_Finalize();
}

static void end_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

__attribute__((visibility("default"))) const CommModule *grpo_comm_module(void);
const CommModule *grpo_comm_module(void) {
  static const CommModule module = {
      COMM_MODULE_VERSION, start,  barrier, broadcast, share, exchange, send_to,
      receive_from,        finish, end_all};
  return &module;
}

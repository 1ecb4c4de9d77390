/* mpi_module.c - libgrpo-openmpi.so and libgrpo-mpich.so: comm_module.h by MPI.
 *
 * The Makefile compiles it once against each MPI whose header is there.
 */
#include <limits.h>
#include <mpi.h>

#include "os/comm_module.h"

enum { CHUNK = 1 << 30 }; /* MPI counts in int */

static int start(int *rank, int *size) {
  int ready = 0, given;
  if (MPI_Initialized(&ready)) return 1;
  if (!ready && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) return 1;
  if (MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)) return 1;
  return MPI_Comm_rank(MPI_COMM_WORLD, rank) || MPI_Comm_size(MPI_COMM_WORLD, size);
}

static int barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }

static int piece(size_t left) { return left < CHUNK ? (int)left : CHUNK; }

static int broadcast(int from, void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    const int n = piece(bytes);
    if (MPI_Bcast(at, n, MPI_BYTE, from, MPI_COMM_WORLD)) return 1;
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
  return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, first, MPI_BYTE,
                        MPI_COMM_WORLD);
}

static int share(void *data, const size_t *at) {
  int size;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size)) return 1;
  if (at[size] <= INT_MAX) return share_at_once(data, at, size);
  for (int r = 0; r < size; r++)
    if (broadcast(r, (char *)data + at[r], at[r + 1] - at[r])) return 1;
  return 0;
}

static int send_to(int to, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    const int n = piece(bytes);
    if (MPI_Send(at, n, MPI_BYTE, to, 0, MPI_COMM_WORLD)) return 1;
    at += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static int receive_from(int from, void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    const int n = piece(bytes);
    if (MPI_Recv(at, n, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) return 1;
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
  static const CommModule module = {COMM_MODULE_VERSION, start,  barrier, broadcast, share, send_to,
                                    receive_from,        finish, end_all};
  return &module;
}

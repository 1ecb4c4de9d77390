/* comm.h - the processes of a run, its ranks, and what they tell one another.
 *
 * Without comm_start(), and where nothing has launched several, there is one rank, 0, and every
 * call returns at once.  mpirun and srun start ranks; the library that speaks to them stands beside
 * the program (comm_module.h), and the program links no MPI.
 *
 * All ranks must make the same calls in the same order.  A connection that fails is final: EIO.
 * No sum is taken here: whoever adds floating-point numbers chooses the order.
 */
#ifndef GRPO_OS_COMM_H
#define GRPO_OS_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { COMM_RANKS = 4096 }; /* at most */

/* The library for the launcher that has started this process: "openmpi", "mpich"; NULL: none. */
const char *comm_launcher(void);
/* Meets the other ranks.  kind: "openmpi" or "mpich".  ENOENT, EARG: its library is not there or
 * does not fit. */
Status comm_start(const char *kind);
/* All ranks; the last call.  status: of this process, which has said why if it is not 0. */
void comm_finish(int status);
/* Ends all ranks at once with this exit status; returns where there is one alone. */
void comm_abort(int status);
/* This rank ends at once, with this status, and so do the others.  Safe in a signal handler. */
void comm_leave(int status);

int comm_rank(void);
int comm_size(void);

/* This process's node: the lowest of its ranks, this one's place among them, from 0, and the most
 * ranks that a node has. */
Status comm_node(int *first, int *place, int *most);
/* Gives the bytes that this rank has sent to others and got so far, without broadcasts, which are
 * short. */
void comm_bytes(uint64_t *sent, uint64_t *received);

Status comm_barrier(void);
Status comm_broadcast(int from, void *data, size_t bytes);
/* Rank r has filled data[at[r] .. at[r + 1]); afterwards every rank has all, at[comm_size()]
 * bytes. */
Status comm_share(void *data, const size_t *at);
Status comm_send(int to, const void *data, size_t bytes);
Status comm_receive(int from, void *data, size_t bytes);
/* Every rank has for rank r what is at to[to_at[r] .. to_at[r + 1]), and gets what rank r has for
 * it at from[from_at[r] .. from_at[r + 1]).  At most 2 GiB on each side. */
Status comm_exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at);
/* Pieces whose sizes differ, one after another: *all is the caller's, from mem_alloc; at has
 * comm_size() + 1 places. */
Status comm_gather(const void *mine, size_t bytes, char **all, size_t *at);
/* The failure of the first rank that has one, on all ranks, named by rank and host; else OK. */
Status comm_agree(Status mine);
/* Has comm_agree() returned a failure, which rank 0 then reports for all? */
bool comm_has_agreed_to_fail(void);

#endif

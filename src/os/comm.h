/* comm.h - the processes of a run, its ranks, and what they tell one another.
 *
 * There is one rank, 0, and every call returns at once, unless something has connected several
 * processes.  An extension does that: it starts a backend and gives it to comm_connect().
 *
 * All ranks must make the same calls in the same order.  A connection that fails is final: EIO.
 * No sum is taken here: whoever adds floating-point numbers chooses the order.
 */
#ifndef GRPO_OS_COMM_H
#define GRPO_OS_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { COMM_RANKS = 4096 }; /* at most */

/* The functions that carry the calls of the same names below between several ranks. */
typedef struct CommBackend {
  Status (*broadcast)(int from, void *data, size_t bytes);
  Status (*share)(void *data, const size_t *at);
  Status (*exchange)(const void *to, const size_t *to_at, void *from, const size_t *from_at);
  Status (*send)(int to, const void *data, size_t bytes);
  Status (*receive)(int from, void *data, size_t bytes);
  void (*finish)(int status);
  void (*abort)(int status);
  void (*leave)(int status);
} CommBackend;

/* All `size` ranks have met, and this process is number `rank`, from 0. */
void comm_connect(const CommBackend *backend, int rank, int size);
/* All ranks; the last call.  status: of this process, which has said why if it is not 0. */
void comm_finish(int status);
/* Ends all ranks at once with this exit status; returns where there is one alone. */
void comm_abort(int status);
/* This rank ends at once, with this status, and so do the others.  Safe in a signal handler. */
void comm_leave(int status);

int comm_rank(void);
int comm_size(void);

Status comm_broadcast(int from, void *data, size_t bytes);
/* Rank r has filled data[at[r] .. at[r + 1]); afterwards every rank has all, at[comm_size()]
 * bytes. */
Status comm_share(void *data, const size_t *at);
Status comm_send(int to, const void *data, size_t bytes);
Status comm_receive(int from, void *data, size_t bytes);
/* Every rank sends to[to_at[r] .. to_at[r + 1]) to rank r, and receives into from[from_at[r] ..
 * from_at[r + 1]) what rank r sends to it.  At most 2 GiB on each side. */
Status comm_exchange(const void *to, const size_t *to_at, void *from, const size_t *from_at);
/* Pieces whose sizes differ, one after another: *all is the caller's, from mem_alloc; at has
 * comm_size() + 1 places. */
Status comm_gather(const void *mine, size_t bytes, char **all, size_t *at);
/* The failure of the first rank that has one, on all ranks, named by rank and host; else OK. */
Status comm_agree(Status mine);
/* Has comm_agree() returned a failure, which rank 0 then reports for all? */
bool comm_has_agreed_to_fail(void);

#endif

/* ranks.h - MPI for os/comm.h: it starts the ranks of a run, and counts what they send.
 *
 * mpirun and srun start ranks; the library that speaks to them stands beside the program
 * (comm_module.h), and the program links no MPI.
 */
#ifndef GRPO_MPI_RANKS_H
#define GRPO_MPI_RANKS_H

#include <stdint.h>

#include "base/err.h"

/* Meets the other ranks.  kind: "openmpi" or "mpich".  ENOENT, EARG: its library is not there or
 * does not fit. */
Status ranks_start(const char *kind);
Status ranks_barrier(void);
/* This process's node: the lowest of its ranks, this one's place among them, from 0, and the most
 * ranks that a node has. */
Status ranks_node(int *first, int *place, int *most);
/* Gives the bytes that this rank has sent to others and got so far, without broadcasts, which are
 * short. */
void ranks_bytes(uint64_t *sent, uint64_t *received);

#endif

/* watchdog.h - a rank that dies, hangs or is cut off ends all ranks, with one line.
 *
 * Rank 0 starts a process that watches, the hub.  A thread of every rank tells it four times a
 * second how far this rank is (base/progress.h), and whether it waits for others; the hub answers.
 * Neither needs MPI, which may hang.  The hub ends all ranks when
 *
 *   - a rank's connection ends before the rank has said that it leaves: its process is gone;
 *   - for longer than the patience nothing was heard from a rank, or it works and its progress
 *     stands still, while another rank waits; or all ranks wait, and no call of theirs ends.
 *
 * A rank that has not heard the hub for as long ends by itself.  The patience is the sum of
 * WATCHDOG_FLOOR seconds (GRPO_PATIENCE of rank 0 says another number), HUB_TIMES the longest
 * that any rank has needed for one piece of work so far, and what a limit of its own allows to the
 * piece that the rank is at (limits.reward.seconds).  Time in which the process that counts was
 * itself stopped does not count.
 */
#ifndef GRPO_OS_WATCHDOG_H
#define GRPO_OS_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "mpi/watchdog_hub.h"

enum {
  WATCHDOG_FLOOR = 120,
  WATCHDOG_ADDRESSES = 16,
};

/* Where the hub is, and what both sides say to be believed.  Rank 0 gives it to all. */
typedef struct WatchdogCard {
  uint16_t port; /* 0: there is no hub */
  uint8_t ours[BEAT_WORD], hubs[BEAT_WORD];
  char host[64];
  double patience; /* seconds, at first */
  int32_t naddresses;
  uint32_t address[WATCHDOG_ADDRESSES]; /* IPv4, in network order */
} WatchdogCard;

/* Rank 0: starts the hub.  EARG: GRPO_PATIENCE is not a number of seconds from 1 to a million; EIO,
 * ENOMEM: there can be no hub. */
Status watchdog_open(WatchdogCard *card, int size);
/* All ranks: connects this one.  EIO: the hub is not reached. */
Status watchdog_join(const WatchdogCard *card, int rank, int size);
/* The rank begins or ends to wait for others. */
void watchdog_wait(bool waits);
/* This rank leaves with this status; the first call counts.  If it is not 0, the user knows why,
 * and no line follows; all: the others end at once, with the same status.  Safe in a signal
 * handler. */
void watchdog_leave(int status, bool all);

#endif

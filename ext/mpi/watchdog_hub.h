/* watchdog_hub.h - the process that watches over ranks, and what it and they say.
 *
 * watchdog.h says when it ends them.
 */
#ifndef GRPO_OS_WATCHDOG_HUB_H
#define GRPO_OS_WATCHDOG_HUB_H

#include <stdbool.h>
#include <stdint.h>

typedef enum BeatKind {
  BEAT_HELLO = 1, /* a rank: its host and the ranks' word; the hub: its own word */
  BEAT_ALIVE,     /* a rank: how far it is; the hub answers with the patience */
  BEAT_LEAVE,     /* a rank goes, with this status */
  BEAT_END,       /* a rank goes, with this status, and all end; the hub: so they do */
} BeatKind;

enum {
  BEAT_MS = 250,
  BEAT_WORD = 16,
  HUB_TIMES = 10, /* the longest piece of work, in the patience */
};

/* All that is ever said, in either direction, byte for byte. */
typedef struct Beat {
  uint32_t kind;
  int32_t rank, status;
  uint32_t waits;    /* is it in a call that needs other ranks? */
  uint64_t progress; /* pieces of work so far */
  double allowed;    /* seconds that the piece at hand may take by a limit of its own */
  double patience;   /* seconds */
  uint8_t word[BEAT_WORD];
  char host[64];
} Beat;

typedef struct Hub Hub;

/* Memory for the hub of `size` ranks; NULL: there is none.  ranks, own: what ranks say to be
 * believed, and what it says itself. */
Hub *hub_new(int size, double floor, const uint8_t ranks[BEAT_WORD], const uint8_t own[BEAT_WORD]);
void hub_free(Hub *h); /* closes what it listens to; NULL is fine */
/* The life of the process: until all ranks have left or are gone.  own: the connection of rank 0;
 * listening: where the others come. */
void hub_run(Hub *h, int own, int listening);

/* Its parts.  screen: where its one line goes; now: of clock_seconds(). */
void hub_begin(Hub *h, int own, int listening, int screen, double now);
/* Hears what has come, or comes within this time. */
void hub_listen(Hub *h, int ms);
/* Ends all ranks if one fails. */
void hub_look(Hub *h, double now);
bool hub_has_ended_all(const Hub *h);

#endif

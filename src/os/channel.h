/* channel.h - lines of text over a Unix socket, between processes of one user.
 *
 * The server never blocks on a client: it keeps up to CHANNEL_BACKLOG bytes for a slow client and
 * then drops it, as it drops one that sends a line longer than CHANNEL_LINE.  A line from the
 * server may be as long as the backlog.  Clients take turns, and time is linear in the bytes that
 * come and go, however long or short the lines are.  Clients of other users are refused.  The
 * socket's file has mode 0600.  A channel must not be used by two threads at once.
 */
#ifndef GRPO_OS_CHANNEL_H
#define GRPO_OS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { CHANNEL_CLIENTS = 8, CHANNEL_LINE = 1 << 20, CHANNEL_BACKLOG = 16 << 20 };

typedef struct ChannelServer ChannelServer;

/* Replaces a stale socket file.  EIO: the socket cannot be made. */
Status channel_listen(ChannelServer **out, const char *path);
void channel_close(ChannelServer *s); /* removes the file; NULL is fine */

typedef enum ChannelKind { CHANNEL_OPENED, CHANNEL_TEXT, CHANNEL_GONE } ChannelKind;
typedef struct ChannelEvent {
  ChannelKind kind;
  int client;       /* 0 .. CHANNEL_CLIENTS - 1; used again after CHANNEL_GONE */
  const char *line; /* CHANNEL_TEXT: without its end, valid until the next call */
  size_t len;
} ChannelEvent;

/* Fills in the next event; false: there are no more for now. */
bool channel_next(ChannelServer *s, ChannelEvent *event);
/* Waits until there may be an event, for at most `seconds`, or until a signal. */
void channel_wait(ChannelServer *s, double seconds);
/* Sends a line to a client; does nothing if the client has gone. */
void channel_send(ChannelServer *s, int client, const char *text, size_t len);

typedef struct ChannelClient ChannelClient;

Status channel_connect(ChannelClient **out, const char *path); /* ENOENT: nobody listens there */
void channel_disconnect(ChannelClient *c);                     /* NULL is fine */
Status channel_write(ChannelClient *c, const char *text, size_t len); /* adds the end of line */
/* Waits for a line.  *line is NULL if `seconds` have passed (negative: wait for ever) or a signal
 * came.  EIO: the server has gone. */
Status channel_read(ChannelClient *c, double seconds, const char **line, size_t *len);

#endif

/* channel.h - lines of text over a Unix socket, between processes of one user.
 *
 * The server never blocks on a client: what a slow one does not take is kept up to a limit, then the client
 * is dropped; so is one that sends a line without end.  Clients of other users are refused.  The socket's
 * file has mode 0600.  Not for several threads at once.
 */
#ifndef GRPO_OS_CHANNEL_H
#define GRPO_OS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { CHANNEL_CLIENTS = 8, CHANNEL_LINE = 1 << 20, CHANNEL_BACKLOG = 16 << 20 };

typedef struct ChannelServer ChannelServer;

/* A stale socket file is replaced.  EIO with the reason otherwise. */
Status channel_listen(ChannelServer **out, const char *path);
void channel_close(ChannelServer *s); /* removes the file; NULL is fine */

typedef enum ChannelKind { CHANNEL_OPENED, CHANNEL_TEXT, CHANNEL_GONE } ChannelKind;
typedef struct ChannelEvent {
  ChannelKind kind;
  int client;       /* 0 .. CHANNEL_CLIENTS - 1; used again after CHANNEL_GONE */
  const char *line; /* CHANNEL_TEXT: without its end, valid until the next call */
  size_t len;
} ChannelEvent;

/* The next thing that has happened; false: nothing more for now. */
bool channel_next(ChannelServer *s, ChannelEvent *event);
/* Until something may have happened, or for this many seconds, or a signal. */
void channel_wait(ChannelServer *s, double seconds);
/* A line for a client, which need not be there any more. */
void channel_send(ChannelServer *s, int client, const char *text, size_t len);

typedef struct ChannelClient ChannelClient;

Status channel_connect(ChannelClient **out, const char *path); /* ENOENT: nobody listens there */
void channel_disconnect(ChannelClient *c);                     /* NULL is fine */
Status channel_write(ChannelClient *c, const char *text, size_t len); /* adds the end of line */
/* Waits for a line.  *line NULL: `seconds` are over (negative: never), or a signal came.  EIO: the server has
 * gone. */
Status channel_read(ChannelClient *c, double seconds, const char **line, size_t *len);

#endif

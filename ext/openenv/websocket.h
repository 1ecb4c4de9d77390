/* websocket.h - clients of WebSocket servers, by libwebsockets, which is loaded when it is first
 * asked for.
 *
 * One thread of its own serves all connections, so that a server's pings are answered while nobody
 * waits.  The functions below are for one other thread.  Certificates are verified, no proxy is
 * used, and no call waits longer than it was allowed to.  What the network or the server does wrong
 * is the connection's problem; a Status says that this machine failed.
 */
#ifndef GRPO_EXT_OPENENV_WEBSOCKET_H
#define GRPO_EXT_OPENENV_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { WEBSOCKET_MESSAGE = 1 << 20 /* bytes of the largest message that is read */ };

typedef struct WebSocketPlace {
  const char *address; /* a name, or an address without brackets */
  const char *path;    /* begins with "/" */
  int port;
  bool tls;
  const char *authorization; /* the value of that header, or NULL */
} WebSocketPlace;

typedef struct WebSocket WebSocket;

/* "4.1.6" or NULL. */
const char *websocket_library(void);
/* Begins to connect.  EARG: there is no library, or a text is too long. */
Status websocket_open(WebSocket **out, const WebSocketPlace *place);
/* Queues a message of text, which goes out when the connection is there. */
Status websocket_send(WebSocket *w, const char *text, size_t n);
/* Waits for a message, or a problem, or for `seconds`, or until *stop is not 0. */
Status websocket_wait(WebSocket *w, double seconds, const volatile int *stop);
/* Takes the message that has come, valid until the next wait; false: none is there. */
bool websocket_message(WebSocket *w, const char **text, size_t *n);
/* NULL while a message may come; else why not: "it has closed the connection". */
const char *websocket_problem(WebSocket *w);
void websocket_close(WebSocket *w); /* NULL is fine */

#endif

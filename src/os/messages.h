/* messages.h - messages over TCP, between processes that may be on different machines.
 *
 * A message is a kind, 0 to 255, and bytes.  On the wire it is three 32-bit numbers, little-endian:
 * the length of the bytes, the kind, and the CRC-32C of these two and the bytes; then the bytes.
 * Only messages_connect and messages_wait block.  A peer that ends, or whose stream is wrong, has
 * failed: no further message comes, and none is sent.  Nothing here is encrypted.  One thread at a
 * time.
 */
#ifndef GRPO_OS_MESSAGES_H
#define GRPO_OS_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MESSAGES_HEADER = 12 };

typedef struct MessageListener MessageListener;
typedef struct MessagePeer MessagePeer;

/* Listens at an address of this machine; port 0: any that is free.  EIO: that cannot be. */
Status messages_listen(MessageListener **out, const char *host, int port);
int messages_port(const MessageListener *l);
void messages_stop(MessageListener *l); /* NULL is fine; its peers stay */
/* The next that has connected; *out is NULL: there is none for now. */
Status messages_accept(MessageListener *l, MessagePeer **out);
/* EIO after at most so many seconds. */
Status messages_connect(MessagePeer **out, const char *host, int port, double seconds);
void messages_close(MessagePeer *p); /* NULL is fine; what has not been sent is dropped */

/* "10.0.0.2:41234", of the other side */
const char *messages_address(const MessagePeer *p);
/* A longer message is refused: p fails.  4096 at first. */
void messages_limit(MessagePeer *p, size_t longest);

typedef struct Message {
  int kind;
  const char *data; /* valid until the next call */
  size_t len;
} Message;

/* Sends what waits, and takes what has come.  false: there is no message for now. */
bool messages_next(MessagePeer *p, Message *m);
/* Why p has failed, in a few words; NULL: it has not. */
const char *messages_failure(const MessagePeer *p);
/* The message is copied, and sent as the other side takes it.  ENOMEM: it is not sent. */
Status messages_send(MessagePeer *p, int kind, const void *data, size_t len);
size_t messages_waiting(const MessagePeer *p); /* bytes that have not been sent */
uint64_t messages_sent(const MessagePeer *p);  /* bytes that have gone, since the beginning */
uint64_t messages_came(const MessagePeer *p);  /* bytes that have come */
/* Waits until one of them may have something to do, for at most `seconds`, or until a signal.
 * l: NULL is fine. */
void messages_wait(MessageListener *l, MessagePeer *const *peers, int n, double seconds);

#endif

/* fuzz_messages.c - any bytes in any pieces into os/messages.h: a stream of messages gives each
 * message once, as it was sent, and any other stream ends the peer with a reason.
 *
 * The first byte of the input is even: the rest is the stream; odd: it is cut into messages at each
 * byte 0x1f, which have right lengths and checksums.  A piece ends after each byte 0x1e. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "fuzz.h"
#include "os/messages.h"

enum { MESSAGE_END = 0x1f, PIECE_END = 0x1e, LONGEST = 300 };

static MessageListener *listener(void) {
  static MessageListener *l;
  if (!l) FUZZ_CHECK(messages_listen(&l, "127.0.0.1", 0) == GRPO_OK);
  return l;
}

/* A socket that leaves nothing behind when it is closed.  It comes from one of many addresses,
 * because an address has few ports, and those of closed connections are not free at once. */
static int connect_raw(void) {
  const struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)messages_port(listener())),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  static uint32_t trials;
  const struct sockaddr_in own = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + trials++ % 200)};
  const struct linger none = {.l_onoff = 1};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  FUZZ_CHECK(!bind(fd, (const struct sockaddr *)&own, sizeof own));
  FUZZ_CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0);
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  return fd;
}

static MessagePeer *accept_one(void) {
  MessagePeer *p = NULL;
  while (!p) FUZZ_CHECK(messages_accept(listener(), &p) == GRPO_OK);
  messages_limit(p, LONGEST);
  return p;
}

static void put_message(Buf *b, uint32_t kind, const uint8_t *data, size_t n) {
  const uint32_t head[2] = {(uint32_t)n, kind};
  const uint32_t sum = crc32c(crc32c(0, head, sizeof head), data, n);
  buf_put(b, head, sizeof head);
  buf_put(b, &sum, sizeof sum);
  buf_put(b, data, n);
}

/* The messages that have come, as they would be sent. */
static void take(MessagePeer *p, Buf *got) {
  Message m;
  while (messages_next(p, &m)) put_message(got, (uint32_t)m.kind, (const uint8_t *)m.data, m.len);
}

/* Sends the stream piece by piece; the messages go to got, and *came is how much has arrived. */
static void pass(const Buf *stream, MessagePeer *p, int fd, Buf *got) {
  const char *at = stream->data, *end = at ? at + stream->len : at;
  while (at && at < end && !messages_failure(p)) {
    const char *stop = memchr(at, PIECE_END, (size_t)(end - at));
    const size_t n = (size_t)((stop ? stop + 1 : end) - at);
    const uint64_t want = messages_came(p) + n;
    FUZZ_CHECK(send(fd, at, n, MSG_NOSIGNAL) == (ssize_t)n);
    at += n;
    while (!messages_failure(p) && messages_came(p) < want) {
      messages_wait(NULL, &p, 1, 1);
      take(p, got);
    }
  }
  take(p, got);
}

/* The messages that were taken are the beginning of those that were sent. */
static void check(const Buf *stream, bool whole) {
  Buf got = {0};
  const int fd = connect_raw();
  MessagePeer *p = accept_one();
  pass(stream, p, fd, &got);
  FUZZ_CHECK(got.len <= stream->len && (!got.len || !memcmp(got.data, stream->data, got.len)));
  FUZZ_CHECK(!whole || (got.len == stream->len && !messages_failure(p)));
  FUZZ_CHECK(!messages_failure(p) || !strchr(messages_failure(p), '\n'));
  close(fd);
  messages_close(p);
  buf_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Buf stream = {0};
  if (!size) return 0;
  const bool whole = data[0] & 1;
  bool fits = true;
  data++, size--;
  if (!whole) buf_put(&stream, data, size);
  while (whole && size) {
    const uint8_t *end = memchr(data, MESSAGE_END, size);
    const size_t n = end ? (size_t)(end - data) : size;
    fits = fits && n <= LONGEST;
    put_message(&stream, (uint32_t)(n % 256), data, n);
    data += end ? n + 1 : n;
    size -= end ? n + 1 : n;
  }
  FUZZ_CHECK(buf_status(&stream) == GRPO_OK);
  check(&stream, whole && fits);
  buf_free(&stream);
  return 0;
}

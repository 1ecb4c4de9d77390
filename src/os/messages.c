#include "os/messages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"

enum { SHORT_LIMIT = 4096, CHUNK = 1 << 16, BACKLOG = 64, ADDRESS_BYTES = 80 };

/* Bytes that wait; the first `begin` of them are done with. */
typedef struct Queue {
  Buf bytes;
  size_t begin;
} Queue;

struct MessagePeer {
  int fd; /* -1: it has failed */
  char address[ADDRESS_BYTES], failure[128];
  size_t longest, taken; /* taken: bytes of `in` that are the message handed out last */
  Queue in, out;
  uint64_t sent, came;
};

struct MessageListener {
  int fd;
};

/* ---- queues ----------------------------------------------------------------------------- */

static size_t queue_len(const Queue *q) { return q->bytes.len - q->begin; }
static const char *queue_data(const Queue *q) {
  return q->bytes.data ? q->bytes.data + q->begin : "";
}

static void queue_drop(Queue *q, size_t n) {
  q->begin += n;
  if (q->begin <= queue_len(q)) return;
  if (queue_len(q)) memmove(q->bytes.data, queue_data(q), queue_len(q));
  q->bytes.len -= q->begin;
  q->begin = 0;
}

/* ---- addresses -------------------------------------------------------------------------- */

static Status find(const char *host, int port, bool listens, struct addrinfo **out) {
  char service[16];
  const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
  snprintf(service, sizeof service, "%d", port);
  const int failed = getaddrinfo(host, service, &hints, out);
  if (!failed) return GRPO_OK;
  return fail(GRPO_EIO, "%s:%d: %s", host, port,
              failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
}

static void describe(const struct sockaddr *a, socklen_t len, char *out) {
  char host[64] = "?", service[8] = "?";
  getnameinfo(a, len, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(out, ADDRESS_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, service);
}

/* A peer whose machine is gone without a word is noticed after about a minute. */
static void set_options(int fd) {
  const int yes = 1, idle = 30, interval = 10, count = 3;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* ---- listening -------------------------------------------------------------------------- */

static Status listen_at(MessageListener *l, const struct addrinfo *a, const char *host, int port) {
  const int yes = 1;
  l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (l->fd < 0) return fail(GRPO_EIO, "%s:%d: %s", host, port, strerror(errno));
  setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(l->fd, a->ai_addr, a->ai_addrlen) || listen(l->fd, BACKLOG))
    return fail(GRPO_EIO, "%s:%d: %s", host, port, strerror(errno));
  return GRPO_OK;
}

Status messages_listen(MessageListener **out, const char *host, int port) {
  struct addrinfo *found;
  try(find(host, port, true, &found));
  MessageListener *l = mem_zalloc(sizeof *l);
  if (l) l->fd = -1;
  Status s = l ? listen_at(l, found, host, port) : fail(GRPO_ENOMEM, "%s:%d", host, port);
  freeaddrinfo(found);
  if (s == GRPO_OK)
    *out = l;
  else
    messages_stop(l);
  return s;
}

int messages_port(const MessageListener *l) {
  struct sockaddr_storage a = {0};
  socklen_t len = sizeof a;
  if (getsockname(l->fd, (struct sockaddr *)&a, &len)) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                       : ((struct sockaddr_in *)&a)->sin_port);
}

void messages_stop(MessageListener *l) {
  if (!l) return;
  if (l->fd >= 0) close(l->fd);
  mem_free(l);
}

static Status new_peer(MessagePeer **out, int fd) {
  MessagePeer *p = mem_zalloc(sizeof *p);
  if (!p) {
    close(fd);
    return fail(GRPO_ENOMEM, "a connection");
  }
  p->fd = fd;
  p->longest = SHORT_LIMIT;
  set_options(fd);
  *out = p;
  return GRPO_OK;
}

Status messages_accept(MessageListener *l, MessagePeer **out) {
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  *out = NULL;
  const int fd = accept4(l->fd, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return GRPO_OK;
  try(new_peer(out, fd));
  describe((struct sockaddr *)&a, len, (*out)->address);
  return GRPO_OK;
}

/* ---- connecting ------------------------------------------------------------------------- */

/* Connects a socket that does not block; 0, or errno. */
static int connect_until(int fd, const struct addrinfo *a, double end) {
  if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  const double left = end - clock_seconds();
  const int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int error = 0;
  socklen_t len = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

Status messages_connect(MessagePeer **out, const char *host, int port, double seconds) {
  struct addrinfo *found;
  const double end = clock_seconds() + seconds;
  int error = 0;
  try(find(host, port, false, &found));
  Status s = GRPO_EIO;
  for (struct addrinfo *a = found; a && s != GRPO_OK; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    error = fd < 0 ? errno : connect_until(fd, a, end);
    if (error) {
      if (fd >= 0) close(fd);
      continue;
    }
    s = new_peer(out, fd);
    if (s != GRPO_OK) break;
    describe(a->ai_addr, a->ai_addrlen, (*out)->address);
  }
  freeaddrinfo(found);
  return s == GRPO_EIO ? fail(s, "%s:%d: %s", host, port, strerror(error)) : s;
}

/* ---- a peer ----------------------------------------------------------------------------- */

static void fail_peer(MessagePeer *p, const char *why) {
  if (p->fd >= 0) close(p->fd);
  p->fd = -1;
  snprintf(p->failure, sizeof p->failure, "%s", why);
  buf_free(&p->out.bytes);
  p->out.begin = 0;
}

void messages_close(MessagePeer *p) {
  if (!p) return;
  fail_peer(p, "closed");
  buf_free(&p->in.bytes);
  mem_free(p);
}

const char *messages_address(const MessagePeer *p) { return p->address; }
const char *messages_failure(const MessagePeer *p) { return p->fd < 0 ? p->failure : NULL; }
void messages_limit(MessagePeer *p, size_t longest) { p->longest = longest; }
size_t messages_waiting(const MessagePeer *p) { return queue_len(&p->out); }
uint64_t messages_sent(const MessagePeer *p) { return p->sent; }
uint64_t messages_came(const MessagePeer *p) { return p->came; }

static bool later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

static void flush_out(MessagePeer *p) {
  while (p->fd >= 0 && queue_len(&p->out)) {
    const ssize_t n =
        send(p->fd, queue_data(&p->out), queue_len(&p->out), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && later(errno)) return;
    if (n < 0) {
      fail_peer(p, "the connection has ended");
      return;
    }
    p->sent += (uint64_t)n;
    queue_drop(&p->out, (size_t)n);
  }
}

static uint32_t number_at(const char *from) {
  uint32_t x;
  memcpy(&x, from, sizeof x);
  return x;
}

static uint32_t sum_of(const char *header, const void *data, size_t len) {
  return crc32c(crc32c(0, header, 8), data, len);
}

/* The first message of what has come; false: it is not whole yet, or p has failed. */
static bool take(MessagePeer *p, Message *m) {
  char why[sizeof p->failure];
  const char *data = queue_data(&p->in);
  if (queue_len(&p->in) < MESSAGES_HEADER) return false;
  const uint32_t len = number_at(data), kind = number_at(data + 4);
  if (kind > 255 || len > p->longest) {
    snprintf(why, sizeof why, "it has sent a message of another program, or one of %u bytes", len);
    fail_peer(p, why);
    return false;
  }
  if (queue_len(&p->in) - MESSAGES_HEADER < len) return false;
  *m = (Message){(int)kind, data + MESSAGES_HEADER, len};
  if (sum_of(data, m->data, len) != number_at(data + 8)) {
    fail_peer(p, "a message has the wrong checksum");
    return false;
  }
  p->taken = MESSAGES_HEADER + len;
  return true;
}

/* Reads some bytes that have come.  Returns false if there are none. */
static bool receive(MessagePeer *p) {
  static _Thread_local char chunk[CHUNK];
  const ssize_t n = recv(p->fd, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && later(errno)) return false;
  if (n <= 0) {
    fail_peer(p, "the connection has ended");
    return false;
  }
  p->came += (uint64_t)n;
  buf_put(&p->in.bytes, chunk, (size_t)n);
  if (p->in.bytes.oom) fail_peer(p, "there is no memory for its message");
  return p->fd >= 0;
}

bool messages_next(MessagePeer *p, Message *m) {
  if (p->taken) queue_drop(&p->in, p->taken);
  p->taken = 0;
  flush_out(p);
  while (p->fd >= 0) {
    if (take(p, m)) return true;
    if (p->fd < 0 || !receive(p)) return false;
  }
  return false;
}

Status messages_send(MessagePeer *p, int kind, const void *data, size_t len) {
  char header[MESSAGES_HEADER];
  if (p->fd < 0) return GRPO_OK;
  if (len > UINT32_MAX) return fail(GRPO_EARG, "a message of %zu bytes is too long", len);
  const uint32_t numbers[2] = {(uint32_t)len, (uint32_t)kind};
  memcpy(header, numbers, sizeof numbers);
  const uint32_t sum = sum_of(header, data, len);
  memcpy(header + sizeof numbers, &sum, sizeof sum);
  buf_put(&p->out.bytes, header, sizeof header);
  if (len) buf_put(&p->out.bytes, data, len);
  if (p->out.bytes.oom) {
    fail_peer(p, "there is no memory for what it is to get");
    return fail(GRPO_ENOMEM, "no memory for a message of %zu bytes", len);
  }
  flush_out(p);
  return GRPO_OK;
}

enum { MOST_WAITS = 256 };

void messages_wait(MessageListener *l, MessagePeer *const *peers, int n, double seconds) {
  struct pollfd fds[MOST_WAITS];
  int count = 0;
  if (l) fds[count++] = (struct pollfd){.fd = l->fd, .events = POLLIN};
  for (int i = 0; i < n && count < MOST_WAITS; i++) {
    if (peers[i]->fd < 0) return; /* its failure is to be noticed */
    const int out = queue_len(&peers[i]->out) ? POLLOUT : 0;
    fds[count++] = (struct pollfd){.fd = peers[i]->fd, .events = (short)(POLLIN | out)};
  }
  poll(fds, (nfds_t)count, (int)(seconds * 1000));
}

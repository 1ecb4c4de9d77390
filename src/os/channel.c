#include "os/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/* Bytes that wait; the first `begin` of them are done with.  They leave memory when they are more
 * than what waits, so that every byte is moved once at most. */
typedef struct Queue {
  Buf bytes;
  size_t begin;
} Queue;

typedef struct Peer {
  int fd; /* -1: none */
  bool announced, failed;
  size_t longest; /* a line that it may send */
  size_t taken;   /* bytes of `in` that are the line handed out last */
  size_t seen;    /* bytes of `in` that have no end of line */
  Queue in, out;
} Peer;

struct ChannelServer {
  int fd;
  char *path;
  dev_t device; /* of the socket at the path */
  ino_t inode;
  int turn; /* the peer that is looked at first */
  Peer peer[CHANNEL_CLIENTS];
};

struct ChannelClient {
  Peer peer;
};

/* ---- addresses ------------------------------------------------------------------------- */

/* A path that is too long for an address is reached through a descriptor of its directory, *dir
 * (-1: none). */
static Status address(const char *path, struct sockaddr_un *a, int *dir) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  *dir = -1;
  if (strlen(path) < sizeof a->sun_path) {
    memcpy(a->sun_path, path, strlen(path) + 1);
    return GRPO_OK;
  }
  const char *name = strrchr(path, '/');
  if (!name || strlen(name) > 40)
    return fail(GRPO_EIO, "%s: the path is too long for a socket", path);
  char *parent = mem_alloc((size_t)(name - path) + 1);
  if (!parent) return fail(GRPO_ENOMEM, "%s", path);
  memcpy(parent, path, (size_t)(name - path));
  parent[name - path] = 0;
  *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  mem_free(parent);
  if (*dir < 0) return fail(GRPO_EIO, "%s: %s", path, strerror(errno));
  snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d%s", *dir, name);
  return GRPO_OK;
}

static Status open_socket(const char *path, int *fd) {
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return *fd < 0 ? fail(GRPO_EIO, "%s: %s", path, strerror(errno)) : GRPO_OK;
}

/* ---- queues ----------------------------------------------------------------------------- */

static size_t queue_len(const Queue *q) { return q->bytes.len - q->begin; }
static const char *queue_data(const Queue *q) { return q->bytes.data + q->begin; }

static void queue_drop(Queue *q, size_t n) {
  q->begin += n;
  if (q->begin <= queue_len(q)) return;
  memmove(q->bytes.data, queue_data(q), queue_len(q));
  q->bytes.len -= q->begin;
  q->begin = 0;
}

/* ---- a peer ---------------------------------------------------------------------------- */

static void peer_close(Peer *p) {
  if (p->fd >= 0) close(p->fd);
  buf_free(&p->in.bytes);
  buf_free(&p->out.bytes);
  *p = (Peer){.fd = -1};
}

/* Drops the line that was handed out. */
static void forget_line(Peer *p) {
  if (!p->taken) return;
  queue_drop(&p->in, p->taken);
  p->taken = p->seen = 0;
}

static bool take_line(Peer *p, const char **line, size_t *len) {
  const size_t n = queue_len(&p->in);
  const char *data = n ? queue_data(&p->in) : NULL;
  const char *end = n > p->seen ? memchr(data + p->seen, '\n', n - p->seen) : NULL;
  p->seen = n;
  if (!end) return false;
  *line = data;
  *len = (size_t)(end - data);
  p->taken = *len + 1;
  return true;
}

/* Reads the bytes that have arrived.  Returns false if there are none. */
static bool receive(Peer *p, int flags) {
  char chunk[1 << 14];
  const ssize_t n = recv(p->fd, chunk, sizeof chunk, flags);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (n > 0) buf_put(&p->in.bytes, chunk, (size_t)n);
  p->failed = n <= 0 || queue_len(&p->in) > p->longest || p->in.bytes.oom;
  return !p->failed;
}

static void flush_out(Peer *p) {
  while (queue_len(&p->out)) {
    const ssize_t n =
        send(p->fd, queue_data(&p->out), queue_len(&p->out), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) p->failed = true;
      return;
    }
    queue_drop(&p->out, (size_t)n);
  }
}

/* ---- the server ------------------------------------------------------------------------ */

static Status start_listening(ChannelServer *s, const char *path) {
  struct sockaddr_un a;
  int dir;
  try(address(path, &a, &dir));
  Status status = open_socket(path, &s->fd);
  if (status == GRPO_OK) {
    unlink(path);
    const mode_t before = umask(0177);
    if (bind(s->fd, (struct sockaddr *)&a, sizeof a) || listen(s->fd, CHANNEL_CLIENTS) ||
        fcntl(s->fd, F_SETFL, O_NONBLOCK))
      status = fail(GRPO_EIO, "%s: %s", path, strerror(errno));
    umask(before);
    struct stat st;
    if (status == GRPO_OK && lstat(path, &st) == 0) s->device = st.st_dev, s->inode = st.st_ino;
  }
  if (dir >= 0) close(dir);
  return status;
}

Status channel_listen(ChannelServer **out, const char *path) {
  ChannelServer *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "%s", path);
  s->fd = -1;
  for (int i = 0; i < CHANNEL_CLIENTS; i++) s->peer[i].fd = -1;
  s->path = mem_alloc(strlen(path) + 1);
  Status status = s->path ? GRPO_OK : fail(GRPO_ENOMEM, "%s", path);
  if (s->path) {
    memcpy(s->path, path, strlen(path) + 1);
    status = start_listening(s, path);
  }
  if (status == GRPO_OK)
    *out = s;
  else
    channel_close(s);
  return status;
}

/* The directory may have been moved, and another process may listen at its place. */
static bool is_own_socket(const ChannelServer *s) {
  struct stat st;
  return lstat(s->path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

void channel_close(ChannelServer *s) {
  if (!s) return;
  for (int i = 0; i < CHANNEL_CLIENTS; i++) peer_close(&s->peer[i]);
  if (s->fd >= 0) {
    close(s->fd);
    if (is_own_socket(s)) unlink(s->path);
  }
  mem_free(s->path);
  mem_free(s);
}

static bool same_user(int fd) {
  struct ucred who;
  socklen_t len = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

static void accept_some(ChannelServer *s) {
  for (;;) {
    const int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    int i = 0;
    while (i < CHANNEL_CLIENTS && s->peer[i].fd >= 0) i++;
    if (i == CHANNEL_CLIENTS || !same_user(fd))
      close(fd);
    else
      s->peer[i] = (Peer){.fd = fd, .longest = CHANNEL_LINE};
  }
}

/* Fills in the next event of one client; false: there is none. */
static bool peer_next(Peer *p, ChannelEvent *event) {
  forget_line(p);
  if (queue_len(&p->out)) flush_out(p);
  if (!p->announced) {
    p->announced = true;
    event->kind = CHANNEL_OPENED;
    return true;
  }
  event->kind = CHANNEL_TEXT;
  do {
    if (take_line(p, &event->line, &event->len)) return true;
  } while (!p->failed && receive(p, MSG_DONTWAIT));
  if (!p->failed) return false;
  peer_close(p);
  event->kind = CHANNEL_GONE;
  return true;
}

bool channel_next(ChannelServer *s, ChannelEvent *event) {
  accept_some(s);
  for (int k = 0; k < CHANNEL_CLIENTS; k++) {
    const int i = (s->turn + k) % CHANNEL_CLIENTS;
    *event = (ChannelEvent){.client = i};
    if (s->peer[i].fd < 0 || !peer_next(&s->peer[i], event)) continue;
    s->turn = i + 1;
    return true;
  }
  return false;
}

void channel_wait(ChannelServer *s, double seconds) {
  struct pollfd fds[CHANNEL_CLIENTS + 1] = {{.fd = s->fd, .events = POLLIN}};
  int n = 1;
  for (int i = 0; i < CHANNEL_CLIENTS; i++)
    if (s->peer[i].fd >= 0)
      fds[n++] =
          (struct pollfd){.fd = s->peer[i].fd,
                          .events = (short)(POLLIN | (queue_len(&s->peer[i].out) ? POLLOUT : 0))};
  poll(fds, (nfds_t)n, (int)(seconds * 1000));
}

void channel_send(ChannelServer *s, int client, const char *text, size_t len) {
  if (client < 0 || client >= CHANNEL_CLIENTS) return;
  Peer *p = &s->peer[client];
  if (p->fd < 0 || p->failed) return;
  buf_put(&p->out.bytes, text, len);
  buf_putc(&p->out.bytes, '\n');
  p->failed = queue_len(&p->out) > CHANNEL_BACKLOG || p->out.bytes.oom;
  if (!p->failed) flush_out(p);
}

/* ---- the client ------------------------------------------------------------------------ */

static Status reach(ChannelClient *c, const char *path) {
  struct sockaddr_un a;
  int dir;
  try(address(path, &a, &dir));
  Status status = open_socket(path, &c->peer.fd);
  if (status == GRPO_OK && connect(c->peer.fd, (struct sockaddr *)&a, sizeof a))
    status = fail(errno == ENOENT || errno == ECONNREFUSED ? GRPO_ENOENT : GRPO_EIO, "%s: %s", path,
                  strerror(errno));
  if (dir >= 0) close(dir);
  return status;
}

Status channel_connect(ChannelClient **out, const char *path) {
  ChannelClient *c = mem_zalloc(sizeof *c);
  if (!c) return fail(GRPO_ENOMEM, "%s", path);
  c->peer = (Peer){.fd = -1, .longest = CHANNEL_BACKLOG};
  const Status status = reach(c, path);
  if (status == GRPO_OK)
    *out = c;
  else
    channel_disconnect(c);
  return status;
}

void channel_disconnect(ChannelClient *c) {
  if (!c) return;
  peer_close(&c->peer);
  mem_free(c);
}

static Status send_all(ChannelClient *c, const char *text, size_t len) {
  while (len) {
    const ssize_t n = send(c->peer.fd, text, len, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(GRPO_EIO, "the other side has gone: %s", strerror(errno));
    text += n;
    len -= (size_t)n;
  }
  return GRPO_OK;
}

Status channel_write(ChannelClient *c, const char *text, size_t len) {
  try(send_all(c, text, len));
  return send_all(c, "\n", 1);
}

Status channel_read(ChannelClient *c, double seconds, const char **line, size_t *len) {
  Peer *p = &c->peer;
  *line = NULL;
  forget_line(p);
  while (!take_line(p, line, len)) {
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};
    if (poll(&fd, 1, seconds < 0 ? -1 : (int)(seconds * 1000)) <= 0) return GRPO_OK;
    if (!receive(p, 0) && p->failed) return fail(GRPO_EIO, "the other side has gone");
  }
  return GRPO_OK;
}

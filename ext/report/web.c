#include "report/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

typedef enum PeerState {
  FREE,
  READING,   /* the request has not come yet */
  ASKING,    /* web_next has given it, or will */
  ANSWERING, /* the answer is on its way */
  ENDING     /* all is sent; what the client still says is dropped */
} PeerState;

typedef struct Peer {
  PeerState state;
  int fd;
  bool given; /* ASKING: web_next has given it */
  double until;
  char in[HTTP_LONGEST];
  size_t len;
  HttpRequest request;
  Buf out;
  size_t sent;
} Peer;

struct WebServer {
  int fd, port;
  Peer peer[WEB_CLIENTS];
};

/* ---- opening and closing ------------------------------------------------------------------ */

static Status start_listening(WebServer *s, int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  socklen_t len = sizeof a;
  const int yes = 1;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s->fd < 0) return fail(GRPO_EIO, "port %d: %s", port, strerror(errno));
  setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(s->fd, (struct sockaddr *)&a, sizeof a) || listen(s->fd, WEB_CLIENTS) ||
      getsockname(s->fd, (struct sockaddr *)&a, &len))
    return fail(GRPO_EIO, "port %d: %s", port, strerror(errno));
  s->port = ntohs(a.sin_port);
  return GRPO_OK;
}

Status web_listen(WebServer **out, int port) {
  WebServer *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "port %d", port);
  const Status status = start_listening(s, port);
  if (status == GRPO_OK)
    *out = s;
  else
    web_close(s);
  return status;
}

static void peer_close(Peer *p) {
  if (p->state != FREE) close(p->fd);
  buf_free(&p->out);
  p->state = FREE;
  p->len = p->sent = 0;
  p->given = false;
}

void web_close(WebServer *s) {
  if (!s) return;
  for (int i = 0; i < WEB_CLIENTS; i++) peer_close(&s->peer[i]);
  if (s->fd >= 0) close(s->fd);
  mem_free(s);
}

int web_port(const WebServer *s) { return s->port; }

/* ---- answering ---------------------------------------------------------------------------- */

static const char *reason_of(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 413:
    return "Content Too Large";
  case 414:
    return "URI Too Long";
  case 421:
    return "Misdirected Request";
  case 431:
    return "Request Header Fields Too Large";
  case 500:
    return "Internal Server Error";
  case 505:
    return "HTTP Version Not Supported";
  default:
    return "Bad Request";
  }
}

/* A page may load style, script and data from us and nothing from anywhere else, no other page may
 * hold it in a frame, and nothing is kept. */
static const char headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n";

static void peer_flush(Peer *p) {
  while (p->sent < p->out.len) {
    const ssize_t n =
        send(p->fd, p->out.data + p->sent, p->out.len - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) {
      peer_close(p);
      return;
    }
    p->sent += (size_t)n;
  }
  /* If we closed now and the client had more to say, it would not get all of the answer. */
  shutdown(p->fd, SHUT_WR);
  buf_free(&p->out);
  p->state = ENDING;
  p->until = clock_seconds() + 1;
}

static void peer_answer(Peer *p, int status, const char *type, const char *body, size_t len) {
  buf_printf(&p->out,
             "HTTP/1.1 %d %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n", status,
             reason_of(status), type, len);
  if (status == 405) buf_puts(&p->out, "Allow: GET\r\n");
  buf_puts(&p->out, headers);
  buf_puts(&p->out, "\r\n");
  buf_put(&p->out, body, len);
  if (p->out.oom) {
    peer_close(p);
    return;
  }
  p->sent = 0;
  p->state = ANSWERING;
  p->until = clock_seconds() + WEB_ANSWER_SECONDS;
  peer_flush(p);
}

void web_send(WebServer *s, int client, int status, const char *type, const char *body,
              size_t len) {
  if (client < 0 || client >= WEB_CLIENTS || !s->peer[client].given) return;
  s->peer[client].given = false;
  peer_answer(&s->peer[client], status, type, body, len);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void peer_refuse(Peer *p, int status) {
  const char *reason = reason_of(status);
  peer_answer(p, status, "text/plain", reason, strlen(reason));
}

/* Takes what has arrived. */
static void peer_read(WebServer *s, Peer *p) {
  char dropped[4096];
  for (;;) {
    const bool reading = p->state == READING;
    const ssize_t n = recv(p->fd, reading ? p->in + p->len : dropped,
                           reading ? sizeof p->in - p->len : sizeof dropped, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      if (p->state != ANSWERING || n < 0) peer_close(p); /* one side may have ended */
      return;
    }
    if (!reading) return; /* a flood takes turns with the others */
    p->len += (size_t)n;
    const int status = http_request_read(p->in, p->len, s->port, &p->request);
    if (status == 200) p->state = ASKING;
    if (status > 200) peer_refuse(p, status);
    if (status) return;
  }
}

/* A place for a connection: a free one, or that of the oldest whose request has not come, or else
 * of the oldest that takes its answer. */
static Peer *place_of(WebServer *s) {
  Peer *oldest = NULL;
  for (int i = 0; i < WEB_CLIENTS; i++) {
    Peer *p = &s->peer[i];
    if (p->state == FREE) return p;
    if (p->state == ASKING) continue;
    const bool answering = p->state == ANSWERING;
    const bool other = oldest && (oldest->state == ANSWERING) != answering;
    if (!oldest || (other ? !answering : p->until < oldest->until)) oldest = p;
  }
  if (oldest) peer_close(oldest);
  return oldest;
}

static void accept_some(WebServer *s) {
  for (int i = 0; i < WEB_CLIENTS; i++) {
    const int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    Peer *p = place_of(s);
    if (!p) {
      close(fd);
      return;
    }
    p->state = READING;
    p->fd = fd;
    p->until = clock_seconds() + WEB_REQUEST_SECONDS;
  }
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void serve_some(WebServer *s) {
  const double now = clock_seconds();
  accept_some(s);
  for (int i = 0; i < WEB_CLIENTS; i++) {
    Peer *p = &s->peer[i];
    if (p->state == READING || p->state == ENDING) peer_read(s, p);
    if (p->state == ANSWERING) peer_flush(p);
    if (p->state != FREE && p->state != ASKING && now > p->until) peer_close(p);
  }
}

bool web_next(WebServer *s, int *client, HttpRequest *request) {
  serve_some(s);
  for (int i = 0; i < WEB_CLIENTS; i++) {
    if (s->peer[i].state != ASKING || s->peer[i].given) continue;
    s->peer[i].given = true;
    *client = i;
    *request = s->peer[i].request;
    return true;
  }
  return false;
}

void web_wait(WebServer *s, double seconds) {
  struct pollfd fds[WEB_CLIENTS + 1] = {{.fd = s->fd, .events = POLLIN}};
  int n = 1;
  for (int i = 0; i < WEB_CLIENTS; i++) {
    const PeerState state = s->peer[i].state;
    if (state == FREE || state == ASKING) continue;
    fds[n++] =
        (struct pollfd){.fd = s->peer[i].fd, .events = state == ANSWERING ? POLLOUT : POLLIN};
  }
  poll(fds, (nfds_t)n, (int)(seconds * 1000));
}

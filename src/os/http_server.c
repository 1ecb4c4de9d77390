#include "os/http_server.h"

#ifdef GRPO_HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "os/library.h"

enum {
  MOST_CLIENTS = 256,
  HEADER_BYTES = 16 << 10, /* of a request */
  HEADER_VALUE = 64,       /* of HttpListen.header, with its end */
  UNREAD_BYTES = 8 << 20,  /* of an answer that its client does not take */
  QUIET_SECONDS = 1,       /* that a client may say nothing when there are too many */
  LONG_SECONDS = 2         /* between two calls of http_server_wait: the caller was away */
};

/* ---- the library -------------------------------------------------------------------------- */

static struct {
  const char *(*version)(void);
  struct MHD_Daemon *(*start)(unsigned, uint16_t, MHD_AcceptPolicyCallback, void *,
                              MHD_AccessHandlerCallback, void *, ...);
  void (*stop)(struct MHD_Daemon *);
  enum MHD_Result (*run_wait)(struct MHD_Daemon *, int32_t);
  const union MHD_DaemonInfo *(*info)(struct MHD_Daemon *, enum MHD_DaemonInfoType, ...);
  const union MHD_ConnectionInfo *(*connection_info)(struct MHD_Connection *,
                                                     enum MHD_ConnectionInfoType, ...);
  void (*suspend)(struct MHD_Connection *);
  void (*resume)(struct MHD_Connection *);
  struct MHD_Response *(*from_buffer)(size_t, void *, enum MHD_ResponseMemoryMode);
  struct MHD_Response *(*from_callback)(uint64_t, size_t, MHD_ContentReaderCallback, void *,
                                        MHD_ContentReaderFreeCallback);
  enum MHD_Result (*add_header)(struct MHD_Response *, const char *, const char *);
  enum MHD_Result (*queue)(struct MHD_Connection *, unsigned, struct MHD_Response *);
  void (*destroy)(struct MHD_Response *);
  int (*values)(struct MHD_Connection *, enum MHD_ValueKind, MHD_KeyValueIterator, void *);
} lib;

static const LibrarySymbol symbols[] = {{"MHD_get_version", &lib.version},
                                        {"MHD_start_daemon", &lib.start},
                                        {"MHD_stop_daemon", &lib.stop},
                                        {"MHD_run_wait", &lib.run_wait},
                                        {"MHD_get_daemon_info", &lib.info},
                                        {"MHD_get_connection_info", &lib.connection_info},
                                        {"MHD_suspend_connection", &lib.suspend},
                                        {"MHD_resume_connection", &lib.resume},
                                        {"MHD_create_response_from_buffer", &lib.from_buffer},
                                        {"MHD_create_response_from_callback", &lib.from_callback},
                                        {"MHD_add_response_header", &lib.add_header},
                                        {"MHD_queue_response", &lib.queue},
                                        {"MHD_destroy_response", &lib.destroy},
                                        {"MHD_get_connection_values", &lib.values}};
static Library library = {.package = "libmicrohttpd12",
                          .sonames = {"libmicrohttpd.so.12"},
                          .symbols = symbols,
                          .count = sizeof symbols / sizeof symbols[0]};

const char *http_server_library(void) {
  static char name[64];
  if (!library_available(&library)) return NULL;
  snprintf(name, sizeof name, "libmicrohttpd %s", lib.version());
  return name;
}

/* ---- clients ------------------------------------------------------------------------------ */

typedef enum ClientState {
  READING,   /* the request has not come yet */
  ASKING,    /* http_server_next returns it */
  GIVEN,     /* http_server_next has returned it */
  STREAMING, /* the answer comes in pieces */
  ANSWERED   /* all of the answer is there, and on its way */
} ClientState;

typedef struct Client {
  struct MHD_Connection *connection; /* NULL: it is closed */
  ClientState state;
  bool begun;     /* its headers have been looked at */
  bool suspended; /* the library does not look at it */
  bool queued;    /* the library has the answer */
  bool ended;     /* the answer is complete */
  int refused;    /* 0, or the status of the answer to a request that cannot be read */
  int fd;
  long number;
  double until; /* READING, ANSWERED: when it is late */
  char method[8], target[HTTP_TARGET], header[HEADER_VALUE];
  char *query;
  Buf body;
  int status; /* of the answer */
  char type[64];
  Buf out;
  size_t sent; /* of out */
} Client;

struct HttpServer {
  struct MHD_Daemon *daemon;
  int port, connections;
  size_t body;
  char *token, *header;
  long numbers; /* given so far */
  double left;  /* when http_server_wait returned; 0: it has not */
  Client *client[MOST_CLIENTS];
};

static void client_free(HttpServer *s, Client *c) {
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i] == c) s->client[i] = NULL;
  buf_free(&c->body);
  buf_free(&c->out);
  mem_free(c);
}

static Client *client_numbered(const HttpServer *s, long number) {
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i] && s->client[i]->number == number) return s->client[i];
  return NULL;
}

static Client *client_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      lib.connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static void client_suspend(Client *c) {
  if (!c->suspended) lib.suspend(c->connection);
  c->suspended = true;
}

static void client_resume(Client *c) {
  if (c->suspended && c->connection) lib.resume(c->connection);
  c->suspended = false;
}

/* The library finds the end of the connection and closes it. */
static void client_hang_up(Client *c) {
  shutdown(c->fd, SHUT_RDWR);
  c->ended = true;
  client_resume(c);
}

/* While more connections are open than have places, the oldest whose request has not come has to
 * go.  One that has just come is not one of those: its request is on its way. */
static void make_room(HttpServer *s) {
  const double quiet = clock_seconds() + HTTP_REQUEST_SECONDS - QUIET_SECONDS;
  int open = 0;
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i] && s->client[i]->connection && s->client[i]->until > 0) open++;
  for (; open > s->connections; open--) {
    Client *oldest = NULL;
    for (int i = 0; i < MOST_CLIENTS; i++) {
      Client *c = s->client[i];
      if (!c || !c->connection || c->until == 0 || c->state != READING) continue;
      if (c->until < quiet && (!oldest || c->until < oldest->until)) oldest = c;
    }
    if (!oldest) return;
    oldest->until = 0;
    client_hang_up(oldest);
  }
}

static Client *client_new(HttpServer *s, struct MHD_Connection *connection) {
  int at = 0;
  while (at < MOST_CLIENTS && s->client[at]) at++;
  Client *c = at < MOST_CLIENTS ? mem_zalloc(sizeof *c) : NULL;
  if (!c) return NULL;
  s->client[at] = c;
  c->connection = connection;
  c->fd = lib.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  c->until = clock_seconds() + HTTP_REQUEST_SECONDS;
  c->query = c->target;
  return c;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
  HttpServer *s = user;
  Client *c = *context;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    *context = client_new(s, connection);
    return;
  }
  if (!c) return;
  *context = NULL;
  c->connection = NULL;
  /* One that was given is freed when it has been answered. */
  if ((c->state != GIVEN && c->state != STREAMING) || c->number == 0) client_free(s, c);
}

/* ---- reading a request -------------------------------------------------------------------- */

static void *on_target(void *user, const char *target, struct MHD_Connection *connection) {
  Client *c = client_of(connection);
  (void)user;
  if (!c) return NULL;
  const size_t n = strlen(target);
  if (n >= sizeof c->target) {
    c->refused = 414;
    return NULL;
  }
  memcpy(c->target, target, n + 1);
  c->query = strchr(c->target, '?');
  if (c->query)
    *c->query++ = '\0';
  else
    c->query = c->target + n;
  return NULL;
}

typedef struct Headers {
  const char *host, *origin, *authorization, *length;
  const char *name, *value; /* of HttpListen.header */
  int hosts;
} Headers;

static enum MHD_Result on_header(void *user, enum MHD_ValueKind kind, const char *name,
                                 const char *value) {
  Headers *h = user;
  (void)kind;
  if (!value) value = "";
  if (strcasecmp(name, "Host") == 0) h->host = value, h->hosts++;
  if (strcasecmp(name, "Origin") == 0) h->origin = value;
  if (strcasecmp(name, "Authorization") == 0) h->authorization = value;
  if (strcasecmp(name, "Content-Length") == 0) h->length = value;
  if (h->name && strcasecmp(name, h->name) == 0) h->value = value;
  return MHD_YES;
}

/* Is it an address of this machine, with our port? */
static bool names_us(const char *host, int port) {
  static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
  char with_port[64];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(with_port, sizeof with_port, "%s:%d", names[i], port);
    if (strcasecmp(host, with_port) == 0) return true;
    if (port == 80 && strcasecmp(host, names[i]) == 0) return true;
  }
  return false;
}

/* The time that it takes says nothing about the token. */
static bool shows_token(const HttpServer *s, const char *authorization) {
  static const char bearer[] = "Bearer ";
  if (!authorization || strncasecmp(authorization, bearer, sizeof bearer - 1) != 0) return false;
  const char *given = authorization + sizeof bearer - 1;
  const size_t n = strlen(given), want = strlen(s->token);
  unsigned differs = n != want;
  for (size_t i = 0; i < n; i++) differs |= (unsigned)(given[i] ^ s->token[want ? i % want : 0]);
  return !differs;
}

static int check_sender(const HttpServer *s, const Headers *h) {
  if (h->hosts != 1) return 400;
  if (s->token) return shows_token(s, h->authorization) ? 0 : 401;
  if (!names_us(h->host, s->port)) return 421;
  const char *origin = h->origin ? strstr(h->origin, "://") : NULL;
  if (h->origin && (!origin || strcasecmp(origin + 3, h->host) != 0)) return 403;
  return 0;
}

static int check_request(const HttpServer *s, Client *c, const char *method) {
  Headers h = {.name = s->header};
  const bool get = strcmp(method, "GET") == 0;
  if (c->refused) return c->refused;
  lib.values(c->connection, MHD_HEADER_KIND, on_header, &h);
  if (!get && (s->body == 0 || strcmp(method, "POST") != 0)) return 405;
  snprintf(c->method, sizeof c->method, "%s", method);
  snprintf(c->header, sizeof c->header, "%s", h.value ? h.value : "");
  const int status = check_sender(s, &h);
  if (status) return status;
  if (c->target[0] != '/') return 400;
  char *end;
  const unsigned long long length = h.length ? strtoull(h.length, &end, 10) : 0;
  return length > (get ? 0 : s->body) ? 413 : 0;
}

static void take_body(const HttpServer *s, Client *c, const char *data, size_t size) {
  if (c->refused) return;
  if (c->body.len + size > s->body) c->refused = 413;
  if (!c->refused) buf_put(&c->body, data, size);
  if (c->body.oom) c->refused = 503;
}

/* ---- answering ---------------------------------------------------------------------------- */

/* A page may load style, script and data from us and nothing from anywhere else, no other page may
 * hold it in a frame, and nothing is kept. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri "
     "'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cache-Control", "no-store"},
    {"Connection", "close"}};

static ssize_t read_stream(void *user, uint64_t at, char *to, size_t most) {
  Client *c = user;
  (void)at;
  size_t n = c->out.len - c->sent;
  if (n == 0 && c->ended) return MHD_CONTENT_READER_END_OF_STREAM;
  if (n == 0) {
    client_suspend(c);
    return 0;
  }
  if (n > most) n = most;
  memcpy(to, c->out.data + c->sent, n);
  c->sent += n;
  if (c->sent == c->out.len) buf_clear(&c->out), c->sent = 0;
  return (ssize_t)n;
}

static enum MHD_Result queue_answer(const HttpServer *s, Client *c) {
  struct MHD_Response *r =
      c->state == STREAMING ? lib.from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, c, NULL)
                            : lib.from_buffer(c->out.len, c->out.data ? c->out.data : (char[]){0},
                                              MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  lib.add_header(r, "Content-Type", c->type);
  if (c->status == 405) lib.add_header(r, "Allow", s->body ? "GET, POST" : "GET");
  if (c->status == 401) lib.add_header(r, "WWW-Authenticate", "Bearer");
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
    lib.add_header(r, headers[i][0], headers[i][1]);
  const enum MHD_Result ok = lib.queue(c->connection, (unsigned)c->status, r);
  lib.destroy(r);
  c->queued = true;
  return ok;
}

static const char *reason_of(int status) {
  switch (status) {
  case 401:
    return "this server wants its token as 'Authorization: Bearer TOKEN'";
  case 403:
    return "pages from elsewhere may not use this server";
  case 405:
    return "this server does not know that method";
  case 413:
    return "the body is too large";
  case 414:
    return "the address is too long";
  case 421:
    return "this server is not the one that the header Host names";
  case 503:
    return "there is no memory for the request";
  default:
    return "this is not a request that can be read";
  }
}

static void set_answer(Client *c, ClientState state, int status, const char *type) {
  c->state = state;
  c->status = status;
  c->until = clock_seconds() + HTTP_ANSWER_SECONDS;
  snprintf(c->type, sizeof c->type, "%s; charset=utf-8", type);
}

static enum MHD_Result refuse(const HttpServer *s, Client *c, int status) {
  set_answer(c, ANSWERED, status, "application/json");
  buf_printf(&c->out,
             "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\",\"param\":null,"
             "\"code\":%s}}\n",
             reason_of(status), status == 401 ? "\"invalid_api_key\"" : "null");
  return queue_answer(s, c);
}

/* Is called when the headers have come, for each piece of the body, at the end of the request, and
 * when a suspended connection resumes. */
static enum MHD_Result on_access(void *user, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context) {
  HttpServer *s = user;
  Client *c = client_of(connection);
  (void)url, (void)version, (void)context;
  if (!c || (c->ended && c->state != ANSWERED && c->state != STREAMING)) return MHD_NO;
  if (c->queued) return MHD_YES;
  if (!c->begun) {
    c->begun = true;
    const int status = check_request(s, c, method);
    return status ? refuse(s, c, status) : MHD_YES;
  }
  if (*size) {
    take_body(s, c, data, *size);
    *size = 0;
    return MHD_YES;
  }
  if (c->state >= STREAMING) return queue_answer(s, c);
  if (c->refused) return refuse(s, c, c->refused);
  c->state = ASKING;
  client_suspend(c);
  return MHD_YES;
}

/* ---- what the caller does ----------------------------------------------------------------- */

long http_server_next(HttpServer *s, HttpAsk *ask) {
  Client *c = NULL;
  for (int i = 0; i < MOST_CLIENTS; i++) {
    Client *other = s->client[i];
    if (other && other->state == ASKING && (!c || other->until < c->until)) c = other;
  }
  if (!c) return 0;
  c->state = GIVEN;
  c->number = ++s->numbers;
  *ask = (HttpAsk){c->method,  c->target, c->query, c->header, c->body.data ? c->body.data : "",
                   c->body.len};
  return c->number;
}

bool http_server_gone(HttpServer *s, long request) {
  const Client *c = client_numbered(s, request);
  return !c || !c->connection || c->ended;
}

/* The client of a request that has not been answered; NULL, and it is forgotten: it is gone. */
static Client *client_to_answer(HttpServer *s, long request, ClientState state, bool last) {
  Client *c = client_numbered(s, request);
  if (!c || c->state != state) return NULL;
  if (c->connection) return c;
  if (last) client_free(s, c);
  return NULL;
}

void http_server_send(HttpServer *s, long request, int status, const char *type, const char *body,
                      size_t size) {
  Client *c = client_to_answer(s, request, GIVEN, true);
  if (!c) return;
  set_answer(c, ANSWERED, status, type);
  buf_put(&c->out, body, size);
  if (c->out.oom) client_hang_up(c);
  client_resume(c);
}

void http_server_begin(HttpServer *s, long request, int status, const char *type) {
  Client *c = client_numbered(s, request);
  if (!c || c->state != GIVEN) return;
  set_answer(c, STREAMING, status, type);
  if (c->connection) client_resume(c);
}

void http_server_write(HttpServer *s, long request, const char *data, size_t size) {
  Client *c = client_to_answer(s, request, STREAMING, false);
  if (!c || c->ended) return;
  buf_put(&c->out, data, size);
  if (c->out.oom || c->out.len - c->sent > UNREAD_BYTES)
    client_hang_up(c);
  else
    client_resume(c);
}

void http_server_end(HttpServer *s, long request) {
  Client *c = client_to_answer(s, request, STREAMING, true);
  if (!c) return;
  c->ended = true;
  c->until = clock_seconds() + HTTP_ANSWER_SECONDS;
  c->number = 0; /* it is freed when the connection closes */
  client_resume(c);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* The library does not look at suspended connections. */
static bool has_hung_up(const Client *c) {
  char byte;
  const ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void look_at_clients(HttpServer *s) {
  const double now = clock_seconds();
  for (int i = 0; i < MOST_CLIENTS; i++) {
    Client *c = s->client[i];
    if (!c || !c->connection) continue;
    const bool waits = c->state == ASKING || c->state == GIVEN || (c->suspended && !c->ended);
    const bool late = c->state == READING || c->state == ANSWERED || c->ended;
    if (waits ? has_hung_up(c) : late && now > c->until) client_hang_up(c);
  }
}

/* Clients are not late for the time in which the caller was away. */
static void forgive_absence(HttpServer *s) {
  const double away = s->left > 0 ? clock_seconds() - s->left : 0;
  if (away < LONG_SECONDS) return;
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i] && s->client[i]->until > 0) s->client[i]->until += away;
}

void http_server_wait(HttpServer *s, double seconds) {
  forgive_absence(s);
  look_at_clients(s);
  make_room(s);
  lib.run_wait(s->daemon, (int32_t)(seconds * 1000));
  s->left = clock_seconds();
}

/* ---- opening and closing ------------------------------------------------------------------ */

typedef union Address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} Address;

static Status read_address(const HttpListen *how, Address *out, bool *loopback) {
  const char *text = strcmp(how->address, "localhost") == 0 ? "127.0.0.1" : how->address;
  *out = (Address){0};
  if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons((uint16_t)how->port);
    *loopback = ntohl(out->v4.sin_addr.s_addr) >> 24 == 127;
    return GRPO_OK;
  }
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) != 1)
    return fail(GRPO_EARG, "'%s' is not an IPv4 or IPv6 address, nor localhost", how->address);
  out->v6.sin6_family = AF_INET6;
  out->v6.sin6_port = htons((uint16_t)how->port);
  *loopback = IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr);
  return GRPO_OK;
}

static Status start(HttpServer *s, const HttpListen *how) {
  Address address;
  bool loopback;
  try(read_address(how, &address, &loopback));
  if (!loopback && !how->token)
    return fail(GRPO_EARG,
                "%s can be reached from other machines, so a server there wants a token; give one",
                how->address);
  errno = 0;
  s->daemon = lib.start(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                            (address.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0),
                        0, NULL, NULL, on_access, s, MHD_OPTION_SOCK_ADDR, &address.any,
                        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_URI_LOG_CALLBACK,
                        on_target, s, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(2 * s->connections),
                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_END);
  if (!s->daemon)
    return fail(GRPO_EIO, "port %d of %s: %s", how->port, how->address,
                errno ? strerror(errno) : "libmicrohttpd cannot listen there");
  s->port = lib.info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  return GRPO_OK;
}

Status http_server_listen(HttpServer **out, const HttpListen *how) {
  try(library_need(&library, how->purpose));
  HttpServer *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "a server");
  s->connections = how->connections;
  s->body = how->body;
  Status status = how->connections < 1 || how->connections > MOST_CLIENTS / 2
                      ? fail(GRPO_EARG, "a server has 1 to %d connections", MOST_CLIENTS / 2)
                      : GRPO_OK;
  if ((how->token && !(s->token = mem_strdup(how->token))) ||
      (how->header && !(s->header = mem_strdup(how->header))))
    status = fail(GRPO_ENOMEM, "a server");
  if (status == GRPO_OK) status = start(s, how);
  if (status == GRPO_OK)
    *out = s;
  else
    http_server_close(s);
  return status;
}

void http_server_close(HttpServer *s) {
  if (!s) return;
  /* A daemon must not be stopped while connections are suspended. */
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i] && s->client[i]->connection) client_hang_up(s->client[i]);
  if (s->daemon) {
    lib.run_wait(s->daemon, 0);
    lib.stop(s->daemon);
  }
  for (int i = 0; i < MOST_CLIENTS; i++)
    if (s->client[i]) client_free(s, s->client[i]);
  mem_free(s->token);
  mem_free(s->header);
  mem_free(s);
}

int http_server_port(const HttpServer *s) { return s->port; }

#else

#include "base/err.h"

const char *http_server_library(void) { return NULL; }

Status http_server_listen(HttpServer **out, const HttpListen *how) {
  (void)out;
  return fail(GRPO_EARG,
              "this program was built without libmicrohttpd, so %s; install libmicrohttpd-dev and "
              "build it again",
              how->purpose);
}

void http_server_close(HttpServer *s) { (void)s; }
int http_server_port(const HttpServer *s) { return (void)s, 0; }
void http_server_wait(HttpServer *s, double seconds) { (void)s, (void)seconds; }
long http_server_next(HttpServer *s, HttpAsk *ask) { return (void)s, (void)ask, 0; }
bool http_server_gone(HttpServer *s, long request) { return (void)s, (void)request, true; }
void http_server_send(HttpServer *s, long request, int status, const char *type, const char *body,
                      size_t size) {
  (void)s, (void)request, (void)status, (void)type, (void)body, (void)size;
}
void http_server_begin(HttpServer *s, long request, int status, const char *type) {
  (void)s, (void)request, (void)status, (void)type;
}
void http_server_write(HttpServer *s, long request, const char *data, size_t size) {
  (void)s, (void)request, (void)data, (void)size;
}
void http_server_end(HttpServer *s, long request) { (void)s, (void)request; }

#endif

#include "openenv/websocket.h"

#define PURPOSE "environments behind an address cannot be asked"

#ifdef GRPO_HAVE_WEBSOCKETS

#include <errno.h>
#include <libwebsockets.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "os/library.h"

/* ---- the library ---------------------------------------------------------------------------- */

/* Its structs change from version to version, so only the one of the header fits. */
#if LWS_LIBRARY_VERSION_MAJOR != 4 || LWS_LIBRARY_VERSION_MINOR == 0
#error "libwebsockets 4.1 or a later 4 is needed"
#elif LWS_LIBRARY_VERSION_MINOR == 1
#define SONAME "libwebsockets.so.17"
#elif LWS_LIBRARY_VERSION_MINOR == 2
#define SONAME "libwebsockets.so.18"
#elif LWS_LIBRARY_VERSION_MINOR == 3
#define SONAME "libwebsockets.so.19"
#else
#define SONAME "libwebsockets.so.20"
#endif

enum { CONNECTIONS = 4096, TEXT = 512, PROBLEM = 160, HANDSHAKE_SECONDS = 20 };

static struct {
  struct lws_context *(*create)(const struct lws_context_creation_info *);
  struct lws *(*connect)(const struct lws_client_connect_info *);
  int (*service)(struct lws_context *, int);
  void (*wake)(struct lws_context *);
  int (*ask_to_write)(struct lws *);
  int (*write)(struct lws *, unsigned char *, size_t, enum lws_write_protocol);
  int (*is_final)(struct lws *);
  size_t (*remaining)(struct lws *);
  void *(*user)(const struct lws *);
  int (*add_header)(struct lws *, const unsigned char *, const unsigned char *, int,
                    unsigned char **, unsigned char *);
  void (*set_timeout)(struct lws *, enum pending_timeout, int);
  void (*log_level)(int, void (*)(int, const char *));
  const char *(*version)(void);
} lib;

static const LibrarySymbol symbols[] = {
    {"lws_create_context", &lib.create},
    {"lws_client_connect_via_info", &lib.connect},
    {"lws_service", &lib.service},
    {"lws_cancel_service", &lib.wake},
    {"lws_callback_on_writable", &lib.ask_to_write},
    {"lws_write", &lib.write},
    {"lws_is_final_fragment", &lib.is_final},
    {"lws_remaining_packet_payload", &lib.remaining},
    {"lws_get_opaque_user_data", &lib.user},
    {"lws_add_http_header_by_name", &lib.add_header},
    {"lws_set_timeout", &lib.set_timeout},
    {"lws_set_log_level", &lib.log_level},
    {"lws_get_library_version", &lib.version},
};
static Library websockets = {.package = "libwebsockets",
                             .sonames = {SONAME},
                             .symbols = symbols,
                             .count = sizeof symbols / sizeof symbols[0]};

const char *websocket_library(void) {
  return library_available(&websockets) ? lib.version() : NULL;
}

/* ---- connections ---------------------------------------------------------------------------- */

struct WebSocket {
  WebSocket *next;
  struct lws *wsi; /* the thread's, until the library destroys it; NULL: there is none */
  enum { ASKED, OPENING, OPEN, GONE } state;
  bool left;  /* by its owner: the thread frees it once it is gone */
  bool due;   /* there is something to write */
  bool whole; /* `from` is a message that nobody has taken yet */
  Buf to;     /* LWS_PRE bytes of room for the frame, the message */
  Buf from, taken;
  char address[TEXT], path[TEXT], authorization[TEXT], host[TEXT + 16], problem[PROBLEM];
  int port;
  bool tls;
};

/* The lock guards all connections; libwebsockets is called by its thread alone, and without the
 * lock, because it calls back. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static WebSocket *first;
static struct lws_context *context;
static bool ending, ended; /* the thread is to end, has ended */

static void end(WebSocket *w, const char *problem) {
  if (!w->problem[0]) snprintf(w->problem, sizeof w->problem, "%s", problem);
  w->state = GONE;
  pthread_cond_broadcast(&changed);
}

/* The library's words for a certificate that it does not accept say nothing of one. */
static void fail_to_connect(WebSocket *w, const char *why, size_t n) {
  char problem[PROBLEM];
  const char *more = w->tls ? ", perhaps because its certificate is not valid" : "";
  snprintf(problem, sizeof problem, "no connection (%.*s)%s", (int)(n < 64 ? n : 64), why, more);
  end(w, problem);
}

/* A tenth of a second at most, so that a signal is seen soon. */
static void rest(double left) {
  struct timespec till;
  if (left > 0.1) left = 0.1;
  clock_gettime(CLOCK_MONOTONIC, &till);
  till.tv_nsec += (long)(left * 1e9);
  if (till.tv_nsec >= 1000000000) till.tv_nsec -= 1000000000, till.tv_sec++;
  pthread_cond_timedwait(&changed, &lock, &till);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* Returns what a callback does: not 0 ends the connection. */
static int receive(WebSocket *w, struct lws *wsi, const char *data, size_t n) {
  if (w->whole) return end(w, "it says more than it was asked"), -1;
  if (w->from.len + n > WEBSOCKET_MESSAGE) return end(w, "it sent more than a mebibyte"), -1;
  buf_put(&w->from, data, n);
  if (buf_status(&w->from)) return end(w, "there is no memory for its message"), -1;
  if (!lib.is_final(wsi) || lib.remaining(wsi)) return 0;
  w->whole = true;
  pthread_cond_broadcast(&changed);
  return 0;
}

/* The last message goes out before the connection is closed. */
static int write_message(WebSocket *w, struct lws *wsi) {
  if (!w->due) return w->left ? -1 : 0;
  w->due = false;
  if (w->left) lib.ask_to_write(wsi);
  const size_t n = w->to.len - LWS_PRE;
  return lib.write(wsi, (unsigned char *)w->to.data + LWS_PRE, n, LWS_WRITE_TEXT) < (int)n ? -1 : 0;
}

static int add_authorization(const WebSocket *w, struct lws *wsi, unsigned char **at, size_t n) {
  static const char name[] = "authorization:";
  if (!w->authorization[0]) return 0;
  return lib.add_header(wsi, (const unsigned char *)name, (const unsigned char *)w->authorization,
                        (int)strlen(w->authorization), at, *at + n);
}

static int take_event(WebSocket *w, struct lws *wsi, enum lws_callback_reasons reason, void *in,
                      size_t n) {
  switch (reason) {
  case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
    return add_authorization(w, wsi, in, n);
  case LWS_CALLBACK_CLIENT_ESTABLISHED:
    w->state = OPEN;
    if (w->due || w->left) lib.ask_to_write(wsi);
    return 0;
  case LWS_CALLBACK_CLIENT_RECEIVE:
    return w->left ? 0 : receive(w, wsi, in, n);
  case LWS_CALLBACK_CLIENT_WRITEABLE:
    return write_message(w, wsi);
  case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    fail_to_connect(w, in ? in : "", in ? n : 0);
    return 0;
  case LWS_CALLBACK_WSI_DESTROY: /* always comes; the others do not for one that is left early */
    w->wsi = NULL;
    end(w, "no connection can be made");
    return 0;
  default: /* CLIENT_CLOSED */
    end(w, "it has closed the connection");
    return 0;
  }
}

static bool is_ours(enum lws_callback_reasons reason) {
  return reason == LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER ||
         reason == LWS_CALLBACK_CLIENT_ESTABLISHED || reason == LWS_CALLBACK_CLIENT_RECEIVE ||
         reason == LWS_CALLBACK_CLIENT_WRITEABLE ||
         reason == LWS_CALLBACK_CLIENT_CONNECTION_ERROR || reason == LWS_CALLBACK_CLIENT_CLOSED ||
         reason == LWS_CALLBACK_WSI_DESTROY;
}

/* Other events come also while we call the library under the lock. */
static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t n) {
  (void)user;
  WebSocket *w = wsi && is_ours(reason) ? lib.user(wsi) : NULL;
  if (!w) return 0;
  pthread_mutex_lock(&lock);
  const int end_it = take_event(w, wsi, reason, in, n);
  pthread_mutex_unlock(&lock);
  return end_it;
}

static void free_socket(WebSocket *w) {
  buf_free(&w->to);
  buf_free(&w->from);
  buf_free(&w->taken);
  mem_free(w);
}

/* Called without the lock. */
static void begin(WebSocket *w) {
  struct lws_client_connect_info info = {0};
  info.context = context;
  info.address = w->address;
  info.port = w->port;
  info.path = w->path;
  info.host = w->host;
  info.local_protocol_name = "grpo";
  info.pwsi = &w->wsi;
  info.opaque_user_data = w;
  info.ssl_connection = LCCSCF_HTTP_NO_FOLLOW_REDIRECT | (w->tls ? LCCSCF_USE_SSL : 0);
  if (lib.connect(&info)) return;
  pthread_mutex_lock(&lock);
  w->wsi = NULL;
  end(w, "no connection can be made");
  pthread_mutex_unlock(&lock);
}

/* Takes what is gone and left out of the list. */
static void sweep(void) {
  for (WebSocket **at = &first; *at;) {
    WebSocket *w = *at;
    if (w->left && (w->state == ASKED || w->state == GONE) && !w->wsi) {
      *at = w->next;
      free_socket(w);
    } else {
      at = &w->next;
    }
  }
}

/* The first connection that is to be begun, or NULL; asks for what is to be written or closed. */
static WebSocket *look(void) {
  WebSocket *asked = NULL;
  pthread_mutex_lock(&lock);
  sweep();
  for (WebSocket *w = first; w; w = w->next) {
    if (w->state == ASKED && !asked) asked = w;
    if (w->state == OPEN && w->wsi && (w->due || w->left)) lib.ask_to_write(w->wsi);
    if (w->state == OPENING && w->wsi && w->left)
      lib.set_timeout(w->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
  }
  if (asked) asked->state = OPENING;
  pthread_mutex_unlock(&lock);
  return asked;
}

static bool is_ending(void) {
  pthread_mutex_lock(&lock);
  const bool is = ending;
  pthread_mutex_unlock(&lock);
  return is;
}

static void *serve(void *unused) {
  (void)unused;
  while (!is_ending()) {
    for (WebSocket *w; (w = look()) != NULL;) begin(w);
    lib.service(context, 0);
  }
  pthread_mutex_lock(&lock);
  ended = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static const char *certificates(void) {
  static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
                                       "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
  const char *own = getenv("SSL_CERT_FILE");
  if (own && own[0]) return own;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (access(places[i], R_OK) == 0) return places[i];
  return NULL;
}

/* Before the libraries below clean up: the thread may not use them any more. */
static void end_thread(void) {
  const double till = clock_seconds() + 1;
  pthread_mutex_lock(&lock);
  ending = true;
  lib.wake(context);
  while (!ended && clock_seconds() < till) rest(0.1);
  pthread_mutex_unlock(&lock);
}

static Status start_thread(void) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const int failed = pthread_create(&thread, NULL, serve, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return fail(GRPO_EIO, "no thread for WebSockets: %s", strerror(failed));
  pthread_detach(thread);
  atexit(end_thread);
  return GRPO_OK;
}

static Status start(void) {
  static const struct lws_protocols protocols[] = {{.name = "grpo", .callback = on_event}, {0}};
  struct lws_context_creation_info info = {0};
  pthread_condattr_t attributes;
  if (context) return GRPO_OK;
  try(library_need(&websockets, PURPOSE));
  lib.log_level(0, NULL);
  info.port = CONTEXT_PORT_NO_LISTEN;
  info.protocols = protocols;
  info.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
  info.fd_limit_per_thread = CONNECTIONS;
  info.http_proxy_address = "";
  info.timeout_secs = HANDSHAKE_SECONDS;
  info.client_ssl_ca_filepath = certificates();
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &attributes);
  context = lib.create(&info);
  if (!context) return fail(GRPO_EIO, "libwebsockets cannot be started");
  return start_thread();
}

/* ---- for its owner -------------------------------------------------------------------------- */

static bool copied(char *to, const char *text) {
  if (strlen(text) >= TEXT || strpbrk(text, "\r\n")) return false;
  strcpy(to, text);
  return true;
}

Status websocket_open(WebSocket **out, const WebSocketPlace *place) {
  try(start());
  WebSocket *w = mem_zalloc(sizeof *w);
  if (!w) return fail(GRPO_ENOMEM, "a connection");
  const char *secret = place->authorization ? place->authorization : "";
  if (!copied(w->address, place->address) || !copied(w->path, place->path) ||
      !copied(w->authorization, secret)) {
    mem_free(w);
    return fail(GRPO_EARG, "the address of a WebSocket, and its key, have at most %d bytes each",
                TEXT - 1);
  }
  const bool brackets = strchr(w->address, ':') != NULL;
  snprintf(w->host, sizeof w->host, brackets ? "[%s]:%d" : "%s:%d", w->address, place->port);
  w->port = place->port;
  w->tls = place->tls;
  pthread_mutex_lock(&lock);
  w->next = first;
  first = w;
  pthread_mutex_unlock(&lock);
  lib.wake(context);
  *out = w;
  return GRPO_OK;
}

Status websocket_send(WebSocket *w, const char *text, size_t n) {
  static const char room[LWS_PRE];
  pthread_mutex_lock(&lock);
  buf_clear(&w->to);
  buf_put(&w->to, room, sizeof room);
  buf_put(&w->to, text, n);
  const Status s = buf_status(&w->to);
  w->due = s == GRPO_OK;
  pthread_mutex_unlock(&lock);
  lib.wake(context);
  return s;
}

Status websocket_wait(WebSocket *w, double seconds, const volatile int *stop) {
  const double till = clock_seconds() + seconds;
  pthread_mutex_lock(&lock);
  while (!w->whole && w->state != GONE && !(stop && *stop)) {
    const double left = till - clock_seconds();
    if (left <= 0) break;
    rest(left);
  }
  pthread_mutex_unlock(&lock);
  return GRPO_OK;
}

bool websocket_message(WebSocket *w, const char **text, size_t *n) {
  pthread_mutex_lock(&lock);
  const bool there = w->whole;
  if (there) {
    const Buf spare = w->taken;
    w->taken = w->from;
    w->from = spare;
    buf_clear(&w->from);
    w->whole = false;
  }
  pthread_mutex_unlock(&lock);
  *text = w->taken.data ? w->taken.data : "";
  *n = w->taken.len;
  return there;
}

const char *websocket_problem(WebSocket *w) {
  pthread_mutex_lock(&lock);
  const bool gone = w->state == GONE && !w->whole;
  pthread_mutex_unlock(&lock);
  return gone ? w->problem : NULL;
}

void websocket_close(WebSocket *w) {
  if (!w) return;
  pthread_mutex_lock(&lock);
  w->left = true;
  pthread_mutex_unlock(&lock);
  lib.wake(context);
}

#else

const char *websocket_library(void) { return NULL; }

Status websocket_open(WebSocket **out, const WebSocketPlace *place) {
  (void)out, (void)place;
  return fail(GRPO_EARG, "this program was built without libwebsockets, so " PURPOSE
                         "; install libwebsockets-dev and build it again");
}

Status websocket_send(WebSocket *w, const char *text, size_t n) {
  (void)w, (void)text, (void)n;
  return fail(GRPO_EINTERNAL, "no connections");
}

Status websocket_wait(WebSocket *w, double seconds, const volatile int *stop) {
  (void)w, (void)seconds, (void)stop;
  return fail(GRPO_EINTERNAL, "no connections");
}

bool websocket_message(WebSocket *w, const char **text, size_t *n) {
  (void)w, (void)text, (void)n;
  return false;
}

const char *websocket_problem(WebSocket *w) {
  (void)w;
  return "no connections";
}

void websocket_close(WebSocket *w) { (void)w; }

#endif

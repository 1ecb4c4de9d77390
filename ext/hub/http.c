#include "hub/http.h"

#ifdef GRPO_HAVE_CURL

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/library.h"

enum { ERROR_BODY_MAX = 4096, CONNECT_SECONDS = 20 };

/* ---- the library -------------------------------------------------------------------- */

static struct {
  CURLcode (*global_init)(long);
  char *(*version)(void);
  CURL *(*init)(void);
  CURLcode (*setopt)(CURL *, CURLoption, ...);
  CURLcode (*getinfo)(CURL *, CURLINFO, ...);
  void (*cleanup)(CURL *);
  const char *(*strerror)(CURLcode);
  struct curl_slist *(*append)(struct curl_slist *, const char *);
  void (*free_all)(struct curl_slist *);
  CURLM *(*multi_init)(void);
  CURLMcode (*multi_add)(CURLM *, CURL *);
  CURLMcode (*multi_remove)(CURLM *, CURL *);
  CURLMcode (*multi_perform)(CURLM *, int *);
  CURLMcode (*multi_wait)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
  CURLMsg *(*multi_info)(CURLM *, int *);
  CURLMcode (*multi_cleanup)(CURLM *);
} lib;

static const LibrarySymbol symbols[] = {{"curl_global_init", &lib.global_init},
                                        {"curl_version", &lib.version},
                                        {"curl_easy_init", &lib.init},
                                        {"curl_easy_setopt", &lib.setopt},
                                        {"curl_easy_getinfo", &lib.getinfo},
                                        {"curl_easy_cleanup", &lib.cleanup},
                                        {"curl_easy_strerror", &lib.strerror},
                                        {"curl_slist_append", &lib.append},
                                        {"curl_slist_free_all", &lib.free_all},
                                        {"curl_multi_init", &lib.multi_init},
                                        {"curl_multi_add_handle", &lib.multi_add},
                                        {"curl_multi_remove_handle", &lib.multi_remove},
                                        {"curl_multi_perform", &lib.multi_perform},
                                        {"curl_multi_wait", &lib.multi_wait},
                                        {"curl_multi_info_read", &lib.multi_info},
                                        {"curl_multi_cleanup", &lib.multi_cleanup}};
static Library libcurl = {.package = "libcurl4",
                          .sonames = {"libcurl.so.4", "libcurl-gnutls.so.4"},
                          .symbols = symbols,
                          .count = sizeof symbols / sizeof symbols[0]};

const char *http_library(void) { return library_available(&libcurl) ? lib.version() : NULL; }

/* ---- transfers ---------------------------------------------------------------------- */

struct HttpTransfer {
  CURLM *multi;
  CURL *easy;
  struct curl_slist *headers;
  HttpResponse r;
  char *path;
  int fd; /* -1: none */
  uint64_t offset, max, bytes;
  bool begun; /* the body */
  Status failed;
  char error[CURL_ERROR_SIZE];
};

static Status disk_failure(const char *verb, const char *path) {
  return fail(GRPO_EIO, "cannot %s %s: %s", verb, path, strerror(errno));
}

static size_t stop(HttpTransfer *t, const char *problem) {
  buf_puts(&t->r.problem, problem);
  return 0;
}

/* Reads a line of the headers.  A status line starts a new response, so it drops the headers of an
 * earlier one ("100 Continue"). */
static size_t take_header(char *line, size_t one, size_t n, void *user) {
  HttpTransfer *t = user;
  size_t end = n, colon = 0;
  (void)one;
  while (end && isspace((unsigned char)line[end - 1])) end--;
  if (end >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
    buf_clear(&t->r.headers);
    return n;
  }
  while (colon < end && line[colon] != ':') colon++;
  if (colon == end) return n;
  if (t->r.headers.len + n > HTTP_HEADERS_MAX) {
    t->r.hopeless = true;
    return stop(t, "the headers of its answer are too long");
  }
  for (size_t i = 0; i < colon; i++) buf_putc(&t->r.headers, (char)tolower((unsigned char)line[i]));
  while (colon + 1 < end && line[colon + 1] == ' ') colon++;
  buf_puts(&t->r.headers, ": ");
  buf_put(&t->r.headers, line + colon + 1, end - colon - 1);
  buf_putc(&t->r.headers, '\n');
  return n;
}

/* The value of a header, which ends with its line; NULL: there is none. */
static const char *header(const HttpTransfer *t, const char *name) {
  const size_t n = strlen(name);
  for (const char *line = t->r.headers.data; line && *line;) {
    if (strncmp(line, name, n) == 0 && line[n] == ':') return line + n + 2;
    const char *end = strchr(line, '\n');
    line = end ? end + 1 : NULL;
  }
  return NULL;
}

/* Before the first bytes of the body: where they belong in the file. */
static bool begin_body(HttpTransfer *t) {
  long status = 0;
  lib.getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  t->r.status = (int)status;
  t->begun = true;
  if (t->fd < 0 || (status != 200 && status != 206)) return true;
  if (status == 200) { /* the server sends the whole file, whatever was asked for */
    t->offset = 0;
    if (ftruncate(t->fd, 0) == 0 && lseek(t->fd, 0, SEEK_SET) == 0) return true;
    t->failed = disk_failure("write", t->path);
    return false;
  }
  const char *range = header(t, "content-range");
  if (range && strncmp(range, "bytes ", 6) == 0 && strtoull(range + 6, NULL, 10) == t->offset)
    return true;
  stop(t, "the server sent another part of the file than was asked for");
  return false;
}

static bool write_all(HttpTransfer *t, const char *data, size_t n) {
  while (n) {
    const ssize_t k = write(t->fd, data, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) {
      t->failed = disk_failure("write", t->path);
      return false;
    }
    data += k, n -= (size_t)k;
    t->bytes += (uint64_t)k;
  }
  return true;
}

static size_t take_body(char *data, size_t one, size_t n, void *user) {
  HttpTransfer *t = user;
  (void)one;
  if (!t->begun && !begin_body(t)) return 0;
  const bool good = t->r.status == 200 || t->r.status == 206;
  if (!good) {
    const size_t room = ERROR_BODY_MAX - t->r.body.len;
    buf_put(&t->r.body, data, n < room ? n : room);
    return n;
  }
  if (t->offset + t->bytes + n > t->max) {
    t->r.hopeless = true;
    return stop(t, "the server sent more bytes than it had announced, or than are allowed");
  }
  if (t->fd >= 0) return write_all(t, data, n) ? n : 0;
  buf_put(&t->r.body, data, n);
  t->bytes += n;
  return n;
}

static Status open_file(HttpTransfer *t, const HttpRequest *r) {
  if (!r->path) return GRPO_OK;
  t->path = mem_strdup(r->path);
  if (!t->path) return fail(GRPO_ENOMEM, "%s", r->path);
  t->fd = file_open(r->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (t->fd < 0) return disk_failure("open", r->path);
  if (lseek(t->fd, (off_t)r->offset, SEEK_SET) < 0) return disk_failure("write", r->path);
  return GRPO_OK;
}

static Status add_header(HttpTransfer *t, const char *line) {
  struct curl_slist *list = lib.append(t->headers, line);
  if (!list) return fail(GRPO_ENOMEM, "HTTP headers");
  t->headers = list;
  return GRPO_OK;
}

static Status add_headers(HttpTransfer *t, const HttpRequest *r) {
  char range[48];
  for (const char *const *h = r->headers; h && *h; h++) {
    if (strpbrk(*h, "\r\n")) return fail(GRPO_EARG, "a header of HTTP has one line");
    try(add_header(t, *h));
  }
  if (!r->offset) return GRPO_OK;
  snprintf(range, sizeof range, "Range: bytes=%llu-", (unsigned long long)r->offset);
  return add_header(t, range);
}

static bool shows_secret(const HttpRequest *r) {
  static const char name[] = "authorization:";
  for (const char *const *h = r->headers; h && *h; h++)
    if (strncasecmp(*h, name, sizeof name - 1) == 0) return true;
  return false;
}

/* A proxy reads what is not encrypted, so a secret goes to the server itself, or through a tunnel
 * whose own request does not hold it. */
static void set_proxy(CURL *e, const HttpRequest *r) {
  lib.setopt(e, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
  if (strncmp(r->url, "http:", 5) == 0 && shows_secret(r)) lib.setopt(e, CURLOPT_PROXY, "");
}

static Status set_options(HttpTransfer *t, const HttpRequest *r) {
  CURL *e = t->easy;
  set_proxy(e, r);
  lib.setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  lib.setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
  lib.setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
  lib.setopt(e, CURLOPT_NOSIGNAL, 1L);
  lib.setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  lib.setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
  lib.setopt(e, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_SECONDS);
  lib.setopt(e, CURLOPT_ERRORBUFFER, t->error);
  lib.setopt(e, CURLOPT_HTTPHEADER, t->headers);
  lib.setopt(e, CURLOPT_HEADERFUNCTION, take_header);
  lib.setopt(e, CURLOPT_HEADERDATA, t);
  lib.setopt(e, CURLOPT_WRITEFUNCTION, take_body);
  lib.setopt(e, CURLOPT_WRITEDATA, t);
  if (lib.setopt(e, CURLOPT_URL, r->url) != CURLE_OK) return fail(GRPO_ENOMEM, "%s", r->url);
  if (lib.multi_add(t->multi, e) != CURLM_OK) return fail(GRPO_EINTERNAL, "libcurl: no transfer");
  return GRPO_OK;
}

static Status start(HttpTransfer *t, const HttpRequest *r) {
  t->fd = -1;
  t->offset = r->path ? r->offset : 0;
  t->max = r->max;
  try(open_file(t, r));
  t->multi = lib.multi_init();
  t->easy = t->multi ? lib.init() : NULL;
  if (!t->easy) return fail(GRPO_ENOMEM, "libcurl: a transfer");
  try(add_headers(t, r));
  return set_options(t, r);
}

static bool is_http(const char *url) {
  return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

Status http_begin(HttpTransfer **out, const HttpRequest *r) {
  static bool ready;
  try(library_need(&libcurl, "nothing can be downloaded"));
  if (!is_http(r->url)) return fail(GRPO_EARG, "%s: want an http:// or https:// address", r->url);
  if (!ready) lib.global_init(CURL_GLOBAL_DEFAULT);
  ready = true;
  HttpTransfer *t = mem_zalloc(sizeof *t);
  if (!t) return fail(GRPO_ENOMEM, "a transfer");
  const Status s = start(t, r);
  if (s) http_end(t);
  *out = s ? NULL : t;
  return s;
}

/* The transfer is over. */
static void take_result(HttpTransfer *t, CURLcode code) {
  long status = 0;
  lib.getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  t->r.status = (int)status;
  if (code == CURLE_OK || t->failed || t->r.problem.len) return;
  t->r.hopeless = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                  code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
  buf_puts(&t->r.problem, t->error[0] ? t->error : lib.strerror(code));
}

Status http_step(HttpTransfer *t, double seconds, bool *done) {
  int running = 0, left = 0;
  lib.multi_perform(t->multi, &running);
  if (running) {
    lib.multi_wait(t->multi, NULL, 0, (int)(seconds * 1000), NULL);
    lib.multi_perform(t->multi, &running);
  }
  *done = running == 0;
  for (CURLMsg *m; (m = lib.multi_info(t->multi, &left)) != NULL;)
    if (m->msg == CURLMSG_DONE) take_result(t, m->data.result);
  try(t->failed);
  try(buf_status(&t->r.headers));
  return buf_status(&t->r.body);
}

uint64_t http_bytes(const HttpTransfer *t) { return t->offset + t->bytes; }

const HttpResponse *http_response(const HttpTransfer *t) { return &t->r; }

Status http_sync(HttpTransfer *t) {
  return t->fd < 0 || file_sync(t->fd) == 0 ? GRPO_OK : disk_failure("sync", t->path);
}

void http_end(HttpTransfer *t) {
  if (!t) return;
  if (t->easy) {
    lib.multi_remove(t->multi, t->easy);
    lib.cleanup(t->easy);
  }
  if (t->multi) lib.multi_cleanup(t->multi);
  lib.free_all(t->headers);
  if (t->fd >= 0) close(t->fd);
  mem_free(t->path);
  buf_free(&t->r.headers);
  buf_free(&t->r.body);
  buf_free(&t->r.problem);
  mem_free(t);
}

#else

const char *http_library(void) { return NULL; }

Status http_begin(HttpTransfer **out, const HttpRequest *r) {
  (void)out;
  return fail(GRPO_EARG,
              "%s: this program was built without libcurl, so nothing can be downloaded; install "
              "libcurl4-openssl-dev and build it again",
              r->url);
}

Status http_step(HttpTransfer *t, double seconds, bool *done) {
  (void)t, (void)seconds, (void)done;
  return fail(GRPO_EINTERNAL, "no transfer");
}

uint64_t http_bytes(const HttpTransfer *t) {
  (void)t;
  return 0;
}

const HttpResponse *http_response(const HttpTransfer *t) {
  (void)t;
  return NULL;
}

Status http_sync(HttpTransfer *t) {
  (void)t;
  return GRPO_OK;
}

void http_end(HttpTransfer *t) { (void)t; }

#endif

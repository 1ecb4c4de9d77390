#include "hub/http.h"

#define PURPOSE "nothing can be downloaded"

#ifdef GRPO_HAVE_CURL

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/libcurl.h"

enum { ERROR_BODY_MAX = 4096 };

static const Libcurl *lib;

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
  lib->getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
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

static Status add_headers(HttpTransfer *t, const HttpRequest *r) {
  char range[48];
  for (const char *const *h = r->headers; h && *h; h++) try(libcurl_add_header(&t->headers, *h));
  if (!r->offset) return GRPO_OK;
  snprintf(range, sizeof range, "Range: bytes=%llu-", (unsigned long long)r->offset);
  return libcurl_add_header(&t->headers, range);
}

static Status set_options(HttpTransfer *t, const HttpRequest *r) {
  CURL *e = t->easy;
  try(libcurl_prepare(e, r->url, t->headers, t->error));
  lib->setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
  lib->setopt(e, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_SECONDS);
  lib->setopt(e, CURLOPT_HEADERFUNCTION, take_header);
  lib->setopt(e, CURLOPT_HEADERDATA, t);
  lib->setopt(e, CURLOPT_WRITEFUNCTION, take_body);
  lib->setopt(e, CURLOPT_WRITEDATA, t);
  return GRPO_OK;
}

static Status start(HttpTransfer *t, const HttpRequest *r) {
  t->fd = -1;
  t->offset = r->path ? r->offset : 0;
  t->max = r->max;
  t->multi = lib->multi_init();
  t->easy = t->multi ? lib->init() : NULL;
  if (!t->easy) return fail(GRPO_ENOMEM, "libcurl: a transfer");
  try(add_headers(t, r));
  try(set_options(t, r));
  try(open_file(t, r));
  if (lib->multi_add(t->multi, t->easy) != CURLM_OK)
    return fail(GRPO_EINTERNAL, "libcurl: no transfer");
  return GRPO_OK;
}

Status http_begin(HttpTransfer **out, const HttpRequest *r) {
  try(libcurl_open(&lib, PURPOSE));
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
  lib->getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  t->r.status = (int)status;
  if (code == CURLE_OK || t->failed || t->r.problem.len) return;
  t->r.hopeless = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                  code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
  buf_puts(&t->r.problem, t->error[0] ? t->error : lib->strerror(code));
}

Status http_step(HttpTransfer *t, double seconds, bool *done) {
  int running = 0, left = 0;
  lib->multi_perform(t->multi, &running);
  if (running) {
    lib->multi_wait(t->multi, NULL, 0, (int)(seconds * 1000), NULL);
    lib->multi_perform(t->multi, &running);
  }
  *done = running == 0;
  for (CURLMsg *m; (m = lib->multi_info(t->multi, &left)) != NULL;)
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
    lib->multi_remove(t->multi, t->easy);
    lib->cleanup(t->easy);
  }
  if (t->multi) lib->multi_cleanup(t->multi);
  lib->free_all(t->headers);
  if (t->fd >= 0) close(t->fd);
  mem_free(t->path);
  buf_free(&t->r.headers);
  buf_free(&t->r.body);
  buf_free(&t->r.problem);
  mem_free(t);
}

#else

#include "os/libcurl.h"

Status http_begin(HttpTransfer **out, const HttpRequest *r) {
  (void)out, (void)r;
  return libcurl_missing(PURPOSE);
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

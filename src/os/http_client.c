#include "os/http_client.h"

#ifdef GRPO_HAVE_CURL

#include "base/clock.h"
#include "base/mem.h"
#include "os/libcurl.h"

static const Libcurl *lib;

typedef struct Place {
  CURL *easy; /* NULL: it was never used */
  struct curl_slist *headers;
  HttpAnswer answer;
  bool running, done;
  char error[CURL_ERROR_SIZE];
} Place;

struct HttpClient {
  CURLM *multi;
  Place place[HTTP_PLACES];
};

Status http_client_open(HttpClient **out, const char *purpose) {
  try(libcurl_open(&lib, purpose));
  HttpClient *h = mem_zalloc(sizeof *h);
  if (!h) return fail(GRPO_ENOMEM, "requests");
  h->multi = lib->multi_init();
  if (!h->multi) return mem_free(h), fail(GRPO_ENOMEM, "libcurl: requests");
  *out = h;
  return GRPO_OK;
}

static size_t take_body(char *data, size_t one, size_t n, void *user) {
  Place *p = user;
  (void)one;
  if (p->answer.body.len + n > HTTP_CLIENT_BODY) {
    buf_puts(&p->answer.problem, "its answer is larger than a mebibyte");
    return 0;
  }
  buf_put(&p->answer.body, data, n);
  return n;
}

/* Lines of the header that are too many are left out: nobody needs them. */
static size_t take_header(char *data, size_t one, size_t n, void *user) {
  Place *p = user;
  (void)one;
  if (p->answer.header.len + n <= HTTP_CLIENT_HEADER) buf_put(&p->answer.header, data, n);
  return n;
}

static Status set_options(Place *p, const HttpPost *post) {
  CURL *e = p->easy;
  try(libcurl_prepare(e, post->url, p->headers, p->error));
  lib->setopt(e, CURLOPT_POST, 1L);
  lib->setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->size);
  if (lib->setopt(e, CURLOPT_COPYPOSTFIELDS, post->body) != CURLE_OK)
    return fail(GRPO_ENOMEM, "a request");
  lib->setopt(e, CURLOPT_TIMEOUT_MS, (long)(post->seconds * 1e3) + 1);
  lib->setopt(e, CURLOPT_WRITEFUNCTION, take_body);
  lib->setopt(e, CURLOPT_WRITEDATA, p);
  lib->setopt(e, CURLOPT_HEADERFUNCTION, take_header);
  lib->setopt(e, CURLOPT_HEADERDATA, p);
  lib->setopt(e, CURLOPT_PRIVATE, p);
  return GRPO_OK;
}

Status http_client_post(HttpClient *h, int place, const HttpPost *post) {
  Place *p = &h->place[place];
  if (!p->easy && !(p->easy = lib->init())) return fail(GRPO_ENOMEM, "libcurl: a request");
  lib->free_all(p->headers);
  p->headers = NULL;
  buf_clear(&p->answer.header);
  buf_clear(&p->answer.body);
  buf_clear(&p->answer.problem);
  p->answer.status = 0;
  p->done = false;
  p->error[0] = 0;
  for (const char *const *line = post->headers; *line; line++)
    try(libcurl_add_header(&p->headers, *line));
  try(libcurl_add_header(&p->headers, "Expect:")); /* the body follows at once */
  try(set_options(p, post));
  if (lib->multi_add(h->multi, p->easy) != CURLM_OK)
    return fail(GRPO_EINTERNAL, "libcurl: no request");
  p->running = true;
  return GRPO_OK;
}

static void take_result(HttpClient *h, CURL *easy, CURLcode code) {
  char *user = NULL;
  long status = 0;
  lib->getinfo(easy, CURLINFO_PRIVATE, &user);
  lib->getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  lib->multi_remove(h->multi, easy);
  Place *p = (Place *)(void *)user;
  p->answer.status = (int)status;
  p->running = false;
  p->done = true;
  if (code != CURLE_OK && !p->answer.problem.len)
    buf_puts(&p->answer.problem, p->error[0] ? p->error : lib->strerror(code));
}

/* Returns whether a request has been done. */
static bool take_results(HttpClient *h) {
  bool any = false;
  int left = 0;
  for (CURLMsg *m; (m = lib->multi_info(h->multi, &left)) != NULL;) {
    if (m->msg != CURLMSG_DONE) continue;
    take_result(h, m->easy_handle, m->data.result);
    any = true;
  }
  return any;
}

Status http_client_step(HttpClient *h, double seconds, const volatile int *stop) {
  const double end = clock_seconds() + seconds;
  int running = 0;
  lib->multi_perform(h->multi, &running);
  while (!take_results(h) && running && !(stop && *stop)) {
    const double left = end - clock_seconds();
    if (left <= 0) break;
    lib->multi_wait(h->multi, NULL, 0, (int)(left < 0.1 ? left * 1e3 : 100) + 1, NULL);
    lib->multi_perform(h->multi, &running);
  }
  return GRPO_OK;
}

const HttpAnswer *http_client_answer(HttpClient *h, int place) {
  const Place *p = &h->place[place];
  return p->done ? &p->answer : NULL;
}

void http_client_close(HttpClient *h) {
  if (!h) return;
  for (int i = 0; i < HTTP_PLACES; i++) {
    Place *p = &h->place[i];
    if (p->running) lib->multi_remove(h->multi, p->easy);
    if (p->easy) lib->cleanup(p->easy);
    lib->free_all(p->headers);
    buf_free(&p->answer.header);
    buf_free(&p->answer.body);
    buf_free(&p->answer.problem);
  }
  lib->multi_cleanup(h->multi);
  mem_free(h);
}

#else

#include "os/libcurl.h"

Status http_client_open(HttpClient **out, const char *purpose) {
  (void)out;
  return libcurl_missing(purpose);
}

Status http_client_post(HttpClient *h, int place, const HttpPost *post) {
  (void)h, (void)place, (void)post;
  return fail(GRPO_EINTERNAL, "no requests");
}

Status http_client_step(HttpClient *h, double seconds, const volatile int *stop) {
  (void)h, (void)seconds, (void)stop;
  return fail(GRPO_EINTERNAL, "no requests");
}

const HttpAnswer *http_client_answer(HttpClient *h, int place) {
  (void)h, (void)place;
  return NULL;
}

void http_client_close(HttpClient *h) { (void)h; }

#endif

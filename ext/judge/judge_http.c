#include "judge/judge_http.h"

#ifdef GRPO_HAVE_CURL

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "os/library.h"

enum { CONNECT_SECONDS = 20 };

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

const char *judge_http_library(void) { return library_available(&libcurl) ? lib.version() : NULL; }

/* ---- requests ----------------------------------------------------------------------- */

typedef struct Place {
  CURL *easy; /* NULL: it was never used */
  struct curl_slist *headers;
  JudgeAnswer answer;
  bool running, done;
  char error[CURL_ERROR_SIZE];
} Place;

struct JudgeHttp {
  CURLM *multi;
  Place place[JUDGE_PLACES];
};

Status judge_http_open(JudgeHttp **out) {
  static bool ready;
  try(library_need(&libcurl, "a judge behind an address cannot be asked"));
  if (!ready) lib.global_init(CURL_GLOBAL_DEFAULT);
  ready = true;
  JudgeHttp *h = mem_zalloc(sizeof *h);
  if (!h) return fail(GRPO_ENOMEM, "requests to a judge");
  h->multi = lib.multi_init();
  if (!h->multi) return mem_free(h), fail(GRPO_ENOMEM, "libcurl: requests");
  *out = h;
  return GRPO_OK;
}

static size_t take_body(char *data, size_t one, size_t n, void *user) {
  Place *p = user;
  (void)one;
  if (p->answer.body.len + n > JUDGE_BODY) {
    buf_puts(&p->answer.problem, "its answer is larger than a mebibyte");
    return 0;
  }
  buf_put(&p->answer.body, data, n);
  return n;
}

static Status add_header(Place *p, const char *line) {
  if (strpbrk(line, "\r\n")) return fail(GRPO_EARG, "a header of HTTP has one line");
  struct curl_slist *list = lib.append(p->headers, line);
  if (!list) return fail(GRPO_ENOMEM, "HTTP headers");
  p->headers = list;
  return GRPO_OK;
}

/* A proxy reads what is not encrypted, so a secret goes past it. */
static void set_proxy(Place *p, const JudgePost *post) {
  static const char name[] = "authorization:";
  bool secret = false;
  for (const char *const *h = post->headers; *h; h++)
    secret |= strncasecmp(*h, name, sizeof name - 1) == 0;
  if (secret && strncmp(post->url, "http:", 5) == 0) lib.setopt(p->easy, CURLOPT_PROXY, "");
}

static Status set_options(Place *p, const JudgePost *post) {
  CURL *e = p->easy;
  lib.setopt(e, CURLOPT_POST, 1L);
  lib.setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->size);
  if (lib.setopt(e, CURLOPT_COPYPOSTFIELDS, post->body) != CURLE_OK ||
      lib.setopt(e, CURLOPT_URL, post->url) != CURLE_OK)
    return fail(GRPO_ENOMEM, "a request to a judge");
  set_proxy(p, post);
  lib.setopt(e, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
  lib.setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  lib.setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
  lib.setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
  lib.setopt(e, CURLOPT_NOSIGNAL, 1L);
  lib.setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  lib.setopt(e, CURLOPT_TIMEOUT_MS, (long)(post->seconds * 1e3) + 1);
  lib.setopt(e, CURLOPT_ERRORBUFFER, p->error);
  lib.setopt(e, CURLOPT_HTTPHEADER, p->headers);
  lib.setopt(e, CURLOPT_WRITEFUNCTION, take_body);
  lib.setopt(e, CURLOPT_WRITEDATA, p);
  lib.setopt(e, CURLOPT_PRIVATE, p);
  return GRPO_OK;
}

static bool is_http(const char *url) {
  return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

Status judge_http_post(JudgeHttp *h, int place, const JudgePost *post) {
  Place *p = &h->place[place];
  if (!is_http(post->url))
    return fail(GRPO_EARG, "%s: want an http:// or https:// address", post->url);
  if (!p->easy && !(p->easy = lib.init())) return fail(GRPO_ENOMEM, "libcurl: a request");
  lib.free_all(p->headers);
  p->headers = NULL;
  buf_clear(&p->answer.body);
  buf_clear(&p->answer.problem);
  p->answer.status = 0;
  p->done = false;
  p->error[0] = 0;
  for (const char *const *line = post->headers; *line; line++) try(add_header(p, *line));
  try(add_header(p, "Expect:")); /* the body follows at once */
  try(set_options(p, post));
  if (lib.multi_add(h->multi, p->easy) != CURLM_OK)
    return fail(GRPO_EINTERNAL, "libcurl: no request");
  p->running = true;
  return GRPO_OK;
}

static void take_result(JudgeHttp *h, CURL *easy, CURLcode code) {
  char *user = NULL;
  long status = 0;
  lib.getinfo(easy, CURLINFO_PRIVATE, &user);
  lib.getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  lib.multi_remove(h->multi, easy);
  Place *p = (Place *)(void *)user;
  p->answer.status = (int)status;
  p->running = false;
  p->done = true;
  if (code != CURLE_OK && !p->answer.problem.len)
    buf_puts(&p->answer.problem, p->error[0] ? p->error : lib.strerror(code));
}

/* Returns whether a request has been done. */
static bool take_results(JudgeHttp *h) {
  bool any = false;
  int left = 0;
  for (CURLMsg *m; (m = lib.multi_info(h->multi, &left)) != NULL;) {
    if (m->msg != CURLMSG_DONE) continue;
    take_result(h, m->easy_handle, m->data.result);
    any = true;
  }
  return any;
}

Status judge_http_step(JudgeHttp *h, double seconds, const volatile int *stop) {
  const double end = clock_seconds() + seconds;
  int running = 0;
  lib.multi_perform(h->multi, &running);
  while (!take_results(h) && running && !(stop && *stop)) {
    const double left = end - clock_seconds();
    if (left <= 0) break;
    lib.multi_wait(h->multi, NULL, 0, (int)(left < 0.1 ? left * 1e3 : 100) + 1, NULL);
    lib.multi_perform(h->multi, &running);
  }
  return GRPO_OK;
}

const JudgeAnswer *judge_http_answer(JudgeHttp *h, int place) {
  const Place *p = &h->place[place];
  return p->done ? &p->answer : NULL;
}

void judge_http_close(JudgeHttp *h) {
  if (!h) return;
  for (int i = 0; i < JUDGE_PLACES; i++) {
    Place *p = &h->place[i];
    if (p->running) lib.multi_remove(h->multi, p->easy);
    if (p->easy) lib.cleanup(p->easy);
    lib.free_all(p->headers);
    buf_free(&p->answer.body);
    buf_free(&p->answer.problem);
  }
  lib.multi_cleanup(h->multi);
  mem_free(h);
}

#else

const char *judge_http_library(void) { return NULL; }

Status judge_http_open(JudgeHttp **out) {
  (void)out;
  return fail(GRPO_EARG,
              "this program was built without libcurl, so a judge behind an address cannot be "
              "asked; install libcurl4-openssl-dev and build it again");
}

Status judge_http_post(JudgeHttp *h, int place, const JudgePost *post) {
  (void)h, (void)place, (void)post;
  return fail(GRPO_EINTERNAL, "no requests");
}

Status judge_http_step(JudgeHttp *h, double seconds, const volatile int *stop) {
  (void)h, (void)seconds, (void)stop;
  return fail(GRPO_EINTERNAL, "no requests");
}

const JudgeAnswer *judge_http_answer(JudgeHttp *h, int place) {
  (void)h, (void)place;
  return NULL;
}

void judge_http_close(JudgeHttp *h) { (void)h; }

#endif

#include "os/libcurl.h"

#ifdef GRPO_HAVE_CURL

#include <string.h>
#include <strings.h>

#include "os/library.h"

enum { CONNECT_SECONDS = 20 };

static Libcurl lib;

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

const char *libcurl_version(void) { return library_available(&libcurl) ? lib.version() : NULL; }

Status libcurl_open(const Libcurl **out, const char *purpose) {
  static bool ready;
  try(library_need(&libcurl, purpose));
  if (!ready) lib.global_init(CURL_GLOBAL_DEFAULT);
  ready = true;
  *out = &lib;
  return GRPO_OK;
}

Status libcurl_add_header(struct curl_slist **list, const char *line) {
  if (strpbrk(line, "\r\n")) return fail(GRPO_EARG, "a header of HTTP has one line");
  struct curl_slist *longer = lib.append(*list, line);
  if (!longer) return fail(GRPO_ENOMEM, "HTTP headers");
  *list = longer;
  return GRPO_OK;
}

static bool shows_secret(const struct curl_slist *list) {
  static const char name[] = "authorization:";
  for (; list; list = list->next)
    if (strncasecmp(list->data, name, sizeof name - 1) == 0) return true;
  return false;
}

/* A proxy reads what is not encrypted, so a secret goes to the server itself, or through a tunnel
 * whose own request does not hold it. */
static void set_proxy(CURL *e, const char *url, const struct curl_slist *list) {
  lib.setopt(e, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
  if (strncmp(url, "http:", 5) == 0 && shows_secret(list)) lib.setopt(e, CURLOPT_PROXY, "");
}

Status libcurl_prepare(CURL *e, const char *url, struct curl_slist *list, char *error) {
  if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
    return fail(GRPO_EARG, "%s: want an http:// or https:// address", url);
  set_proxy(e, url, list);
  lib.setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  lib.setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
  lib.setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
  lib.setopt(e, CURLOPT_NOSIGNAL, 1L);
  lib.setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  lib.setopt(e, CURLOPT_ERRORBUFFER, error);
  lib.setopt(e, CURLOPT_HTTPHEADER, list);
  if (lib.setopt(e, CURLOPT_URL, url) != CURLE_OK) return fail(GRPO_ENOMEM, "%s", url);
  return GRPO_OK;
}

#else

#include <stddef.h>

const char *libcurl_version(void) { return NULL; }

Status libcurl_missing(const char *purpose) {
  return fail(GRPO_EARG,
              "this program was built without libcurl, so %s; install libcurl4-openssl-dev and "
              "build it again",
              purpose);
}

#endif

/* libcurl.h - libcurl, which is loaded when it is first asked for, and what every request has.
 *
 * The core makes no request: extensions do, and share this file.  Certificates are always verified,
 * and no redirect is followed. */
#ifndef GRPO_OS_LIBCURL_H
#define GRPO_OS_LIBCURL_H

#include "base/err.h"

/* "libcurl/8.1 ..." or NULL. */
const char *libcurl_version(void);

#ifdef GRPO_HAVE_CURL

#include <curl/curl.h>

typedef struct Libcurl {
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
} Libcurl;

/* Loads it.  EARG: there is none, so PURPOSE, which is a sentence without a full stop. */
Status libcurl_open(const Libcurl **out, const char *purpose);
/* Appends "Name: value" to the list.  EARG: it has more than one line. */
Status libcurl_add_header(struct curl_slist **list, const char *line);
/* Sets the options that every request has; url, list and error (CURL_ERROR_SIZE bytes) outlive it.
 * A request with an Authorization header that is not encrypted goes past a proxy.  EARG: the url is
 * not one of http or https. */
Status libcurl_prepare(CURL *e, const char *url, struct curl_slist *list, char *error);

#else

/* EARG: there is none, so PURPOSE. */
Status libcurl_missing(const char *purpose);

#endif

#endif

/* http_client.h - several POST requests at once, by libcurl, which is loaded when it is first asked
 * for.
 *
 * Each request has a place, from 0 on.  Certificates are verified, and no redirect is followed.
 * What the network or the server does wrong is in the answer (`problem`); a Status says that this
 * machine failed.  An answer has a time and a size that it must not pass.
 */
#ifndef GRPO_OS_HTTP_CLIENT_H
#define GRPO_OS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
  HTTP_PLACES = 256,
  HTTP_CLIENT_BODY = 1 << 20, /* bytes of the largest answer */
  HTTP_CLIENT_HEADER = 1 << 14
};

typedef struct HttpPost {
  const char *url;            /* http:// or https:// */
  const char *const *headers; /* "Name: value"; NULL after the last */
  const char *body;
  size_t size;
  double seconds; /* for all of it */
} HttpPost;

typedef struct HttpAnswer {
  int status;  /* 0: there was no answer */
  Buf header;  /* its lines, at most HTTP_CLIENT_HEADER bytes of them */
  Buf body;    /* at most HTTP_CLIENT_BODY bytes */
  Buf problem; /* why the answer is not complete; empty: it is */
} HttpAnswer;

typedef struct HttpClient HttpClient;

/* EARG: there is no libcurl, so PURPOSE (libcurl.h). */
Status http_client_open(HttpClient **out, const char *purpose);
/* Begins a request at a place that has none.  EARG: the url or a header cannot be used. */
Status http_client_post(HttpClient *h, int place, const HttpPost *post);
/* Works until a request is done, or `seconds` are over, or *stop is not 0. */
Status http_client_step(HttpClient *h, double seconds, const volatile int *stop);
/* The answer at a place whose request is done, valid until the next post there; NULL: it is not. */
const HttpAnswer *http_client_answer(HttpClient *h, int place);
void http_client_close(HttpClient *h); /* NULL is fine */

#endif

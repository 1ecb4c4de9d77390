/* http.h - one GET request at a time, by libcurl, which is loaded when it is first asked for.
 *
 * A transfer is made, stepped until it is done, and ended.  Certificates are always verified, and
 * no redirect is followed: the caller decides which headers another host may see.  A request that
 * is not encrypted goes past a proxy if it has an Authorization header.  What the network
 * or the server does wrong is in the response (`problem`); a Status says that this machine
 * failed.
 */
#ifndef GRPO_HUB_HTTP_H
#define GRPO_HUB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { HTTP_HEADERS_MAX = 1 << 16, HTTP_STALL_SECONDS = 30 };

typedef struct HttpRequest {
  const char *url;            /* http:// or https:// */
  const char *const *headers; /* "Name: value"; NULL after the last, or none */
  const char *path;           /* the body of 200 and 206 is written here; NULL: it is kept */
  uint64_t offset;            /* with path: bytes that it has already, which are not asked for */
  uint64_t max;               /* the most bytes of the body, or of the file when it is complete */
} HttpRequest;

typedef struct HttpResponse {
  int status;    /* 0: there was no answer */
  Buf headers;   /* "name: value\n", the names in small letters */
  Buf body;      /* what was not written to the path; of an error its beginning */
  Buf problem;   /* why the transfer was not complete; empty: it was */
  bool hopeless; /* and a repetition would not help: a certificate, too many bytes */
} HttpResponse;

typedef struct HttpTransfer HttpTransfer;

/* EARG: there is no libcurl, or the url is of another kind.  EIO: the path cannot be written. */
Status http_begin(HttpTransfer **out, const HttpRequest *r);
/* Works until the transfer is done, or for about `seconds`.  EIO: the disk failed. */
Status http_step(HttpTransfer *t, double seconds, bool *done);
uint64_t http_bytes(const HttpTransfer *t); /* in the file, or of the body, so far */
/* The response, valid until http_end(). */
const HttpResponse *http_response(const HttpTransfer *t);
/* Makes what was written durable.  EIO: the disk failed. */
Status http_sync(HttpTransfer *t);
void http_end(HttpTransfer *t); /* NULL is fine */

#endif

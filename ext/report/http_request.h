/* http_request.h - reads the requests that a page served on this machine makes: GET without a body.
 *
 * Everything else is refused with a status of HTTP.  A request names this server in its header
 * Host, because otherwise a page from elsewhere whose name has been made to mean 127.0.0.1 could
 * read what we serve.  The target is not decoded: it has no %, no "..", and is compared with
 * known paths.
 */
#ifndef GRPO_REPORT_HTTP_REQUEST_H
#define GRPO_REPORT_HTTP_REQUEST_H

#include <stddef.h>

enum { HTTP_LONGEST = 8192, HTTP_TARGET = 256, HTTP_HEADERS = 64 };

typedef struct HttpRequest {
  char path[HTTP_TARGET];  /* begins with "/" */
  char query[HTTP_TARGET]; /* what is behind "?", or "" */
} HttpRequest;

/* Reads a request from the bytes that have arrived at a port of 127.0.0.1.  Returns 200 and fills
 * in *out; 0 if more bytes have to come, which is never so from HTTP_LONGEST bytes on; or the
 * status with which the request is refused. */
int http_request_read(const char *data, size_t len, int port, HttpRequest *out);

#endif

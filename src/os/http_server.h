/* http_server.h - a small HTTP server on libmicrohttpd, which is loaded when it is first asked for.
 *
 * It has no thread of its own: it works within http_server_wait(), and what it has received waits
 * for http_server_next().  A connection has one request, which comes whole or is refused: headers
 * and body have limits, and http_server_wait() ends connections that are late.  Twice as many as
 * the limit are open, and more wait; beyond the limit the oldest that says nothing have to go.
 *
 * A server without a token serves programs of this machine alone: a request names it by an address
 * of this machine in its header Host, because otherwise a page from elsewhere whose name has been
 * made to mean 127.0.0.1 could read what is served; and it has no Origin, or the server's own.  A
 * server with a token serves those who show it as "Authorization: Bearer TOKEN".  A server must not
 * be used by two threads at once.
 */
#ifndef GRPO_OS_HTTP_SERVER_H
#define GRPO_OS_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HTTP_TARGET = 512, HTTP_REQUEST_SECONDS = 10, HTTP_ANSWER_SECONDS = 30 };

typedef struct HttpListen {
  const char *address; /* an IPv4 or IPv6 address, or "localhost" */
  int port;            /* 0: any that is free */
  const char *token;   /* NULL: none, which a loopback address alone may have */
  int connections;     /* at once; as many again while each has sent its request */
  size_t body;         /* bytes of the largest body; 0: GET is the only method */
  const char *header;  /* comes with each request; NULL: none */
  const char *purpose; /* of library_need: "runs are not served" */
} HttpListen;

typedef struct HttpAsk {
  const char *method; /* "GET" or "POST" */
  const char *path;   /* begins with "/"; nothing is decoded */
  const char *query;  /* what is behind "?", or "" */
  const char *header; /* the value of HttpListen.header, or ""; the beginning of a long one */
  const char *body;
  size_t size;
} HttpAsk;

typedef struct HttpServer HttpServer;

/* "libmicrohttpd 0.9.75" or NULL. */
const char *http_server_library(void);
/* EARG: there is no library, or no token where one is demanded.  EIO: the port is taken. */
Status http_server_listen(HttpServer **out, const HttpListen *how);
void http_server_close(HttpServer *s); /* NULL is fine */
int http_server_port(const HttpServer *s);

/* Works until a request has come, or for `seconds`, or until a signal. */
void http_server_wait(HttpServer *s, double seconds);
/* The number of a request that has come and was not returned yet, and *ask, which is valid until
 * the request is answered; 0: there is none. */
long http_server_next(HttpServer *s, HttpAsk *ask);
/* Has the client of a request hung up?  Then answers are dropped. */
bool http_server_gone(HttpServer *s, long request);

/* Answers with a status of HTTP and a type such as "text/html".  Every request that
 * http_server_next has returned has to be answered, also when its client is gone. */
void http_server_send(HttpServer *s, long request, int status, const char *type, const char *body,
                      size_t size);
/* Answers in pieces: begin, any number of writes, end. */
void http_server_begin(HttpServer *s, long request, int status, const char *type);
void http_server_write(HttpServer *s, long request, const char *data, size_t size);
void http_server_end(HttpServer *s, long request);

#endif

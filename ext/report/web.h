/* web.h - serves pages to browsers on this machine: HTTP over 127.0.0.1, read only.
 *
 * One request for each connection, GET without a body (http_request.h); others are answered
 * with its status here.  The server never blocks.  It holds WEB_CLIENTS connections: a further one
 * replaces the oldest whose request has not come, or else the oldest that takes its answer.  A
 * request has WEB_REQUEST_SECONDS to come, an answer WEB_ANSWER_SECONDS to be taken.  A server
 * must not be used by two threads at once.
 */
#ifndef GRPO_REPORT_WEB_H
#define GRPO_REPORT_WEB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "report/http_request.h"

enum { WEB_CLIENTS = 32, WEB_REQUEST_SECONDS = 10, WEB_ANSWER_SECONDS = 30 };

typedef struct WebServer WebServer;

/* port 0: any that is free.  EIO: the port is taken. */
Status web_listen(WebServer **out, int port);
void web_close(WebServer *s); /* NULL is fine */
int web_port(const WebServer *s);

/* Fills in the next request that is to be answered; false: there is none for now.  The client is
 * valid until it is answered or the next call of web_wait. */
bool web_next(WebServer *s, int *client, HttpRequest *request);
/* Waits until there may be a request, for at most `seconds`, or until a signal. */
void web_wait(WebServer *s, double seconds);
/* Answers with a status of HTTP, such as 200 and 404; type: of the body, such as "text/html". */
void web_send(WebServer *s, int client, int status, const char *type, const char *body, size_t len);

#endif

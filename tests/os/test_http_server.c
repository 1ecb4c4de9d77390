/* The server: answers, refusals, slow and silent clients, more clients than places, streams. */
#include "os/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "testing.h"

enum { CLIENTS = 8, BODY = 1000 };

/* NULL: there is no library, and the test is skipped. */
static HttpServer *server_with(const char *token, size_t body) {
  HttpServer *s = NULL;
  if (!http_server_library()) {
    test_skip("libmicrohttpd is not there");
    return NULL;
  }
  const HttpListen how = {.address = "127.0.0.1",
                          .token = token,
                          .connections = CLIENTS,
                          .body = body,
                          .purpose = "nothing is served"};
  CHECK(http_server_listen(&s, &how) == GRPO_OK);
  CHECK(http_server_port(s) > 0);
  return s;
}

static HttpServer *server(void) { return server_with(NULL, BODY); }

static int connect_to(const HttpServer *s) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_server_port(s))};
  const struct timeval patience = {.tv_sec = 5};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

static void say(int fd, const char *text) {
  CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* `more`: further headers, each with its end of line. */
static int ask_with(const HttpServer *s, const char *method, const char *path, const char *more) {
  char text[4096];
  const int fd = connect_to(s);
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n", method, path,
           http_server_port(s), more);
  say(fd, text);
  return fd;
}

static int ask(const HttpServer *s, const char *path) { return ask_with(s, "GET", path, ""); }

/* The next request, waiting for it; 0 if none comes. */
static long next(HttpServer *s, HttpAsk *r) {
  for (int i = 0; i < 100; i++) {
    const long request = http_server_next(s, r);
    if (request) return request;
    http_server_wait(s, 0.01);
  }
  return 0;
}

/* Reads to the end while the server works. */
static char *answer(HttpServer *s, int fd) {
  static char text[4 << 20];
  size_t len = 0;
  HttpAsk r;
  for (int i = 0; i < 4000; i++) {
    CHECK(!http_server_next(s, &r));
    const ssize_t n = recv(fd, text + len, sizeof text - 1 - len, MSG_DONTWAIT);
    if (n == 0) break;
    if (n < 0) http_server_wait(s, 0.005);
    if (n > 0) len += (size_t)n;
  }
  text[len] = '\0';
  close(fd);
  return text;
}

static bool is_refused(HttpServer *s, int fd, int status) {
  char first[32];
  snprintf(first, sizeof first, "HTTP/1.1 %d ", status);
  const char *text = answer(s, fd);
  if (strncmp(text, first, strlen(first)) == 0) return true;
  printf("# want %d, got %.300s\n", status, text);
  return false;
}

TEST(a_page_is_served_with_headers_that_protect_it) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  const int fd = ask(s, "/page?x=1");
  const long request = next(s, &r);
  CHECK(request);
  CHECK_STR(r.method, "GET");
  CHECK_STR(r.path, "/page");
  CHECK_STR(r.query, "x=1");
  http_server_send(s, request, 200, "text/html", "hello", 5);
  const char *text = answer(s, fd);
  CHECK(strncmp(text, "HTTP/1.1 200 OK\r\n", 17) == 0 && strstr(text, "\r\n\r\nhello"));
  CHECK(strstr(text, "Content-Length: 5\r\n") && strstr(text, "text/html; charset=utf-8\r\n"));
  CHECK(strstr(text, "Content-Security-Policy: default-src 'none'; script-src 'self'; "));
  CHECK(strstr(text, "X-Content-Type-Options: nosniff\r\n") && strstr(text, "frame-ancestors"));
  CHECK(!strstr(text, "Access-Control")); /* no other page may read it */
  http_server_close(s);
}

TEST(a_body_comes_whole_or_is_refused) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  int fd = ask_with(s, "POST", "/v1", "Content-Length: 6\r\n");
  CHECK(!next(s, &r)); /* it has not come */
  say(fd, "a\nb");
  http_server_wait(s, 0.01);
  CHECK(!http_server_next(s, &r));
  say(fd, "\ncd");
  const long request = next(s, &r);
  CHECK(request && r.size == 6 && memcmp(r.body, "a\nb\ncd", 6) == 0);
  http_server_send(s, request, 400, "application/json", "{}", 2);
  CHECK(is_refused(s, fd, 400));
  CHECK(is_refused(s, ask_with(s, "POST", "/v1", "Content-Length: 1001\r\n"), 413));
  fd = ask_with(s, "POST", "/v1", "Transfer-Encoding: chunked\r\n");
  char chunk[1200];
  for (int i = 0; i < 2; i++) {
    snprintf(chunk, sizeof chunk, "%x\r\n%0*d\r\n", 800, 800, 0);
    say(fd, chunk);
  }
  say(fd, "0\r\n\r\n");
  CHECK(is_refused(s, fd, 413));
  http_server_close(s);
}

TEST(what_is_not_served_is_refused_without_the_caller) {
  HttpServer *s = server_with(NULL, 0);
  if (!s) return;
  int fd = ask_with(s, "POST", "/", "Content-Length: 0\r\n");
  const char *text = answer(s, fd);
  CHECK(strncmp(text, "HTTP/1.1 405 ", 13) == 0 && strstr(text, "Allow: GET\r\n"));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Content-Length: 5\r\n"), 413));
  fd = connect_to(s);
  say(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(is_refused(s, fd, 421));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Host: evil.example\r\n"), 400));
  fd = connect_to(s);
  say(fd, "GET / HTTP/1.0\r\n\r\n");
  CHECK(is_refused(s, fd, 400));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Origin: http://evil.example\r\n"), 403));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Origin: null\r\n"), 403));
  CHECK(is_refused(s, ask(s, "x"), 400));
  char longest[600];
  memset(longest, 'a', sizeof longest - 1);
  longest[0] = '/', longest[sizeof longest - 1] = '\0';
  CHECK(is_refused(s, ask(s, longest), 414));
  http_server_close(s);
}

TEST(bytes_that_are_not_a_request_change_nothing) {
  static const char *const texts[] = {"\x16\x03\x01\x02",       "\r\n\r\n\r\n", "GET\r\n\r\n",
                                      "GET / HTTP/9.9\r\n\r\n", " / \r\n\r\n",  "\n: \n:\n\n"};
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const int fd = connect_to(s);
    say(fd, texts[i]);
    CHECK(!http_server_next(s, &r));
    http_server_wait(s, 0.01);
    close(fd);
  }
  char *large = malloc(40000);
  memset(large, 'h', 40000);
  memcpy(large, "GET / HTTP/1.1\r\nX: ", 19);
  large[39999] = '\0';
  const int fd = connect_to(s);
  say(fd, large);
  CHECK(is_refused(s, fd, 431));
  free(large);
  http_server_close(s);
}

TEST(only_this_machine_can_connect) {
  HttpServer *s = server();
  if (!s) return;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_server_port(s))};
  CHECK(inet_pton(AF_INET, "127.0.0.2", &a.sin_addr) == 1); /* another address of this machine */
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) != 0);
  close(fd);
  http_server_close(s);
}

TEST(other_machines_need_a_token) {
  HttpServer *s = NULL;
  HttpListen how = {.address = "0.0.0.0", .connections = 2, .purpose = "nothing is served"};
  if (!http_server_library()) {
    test_skip("libmicrohttpd is not there");
    return;
  }
  CHECK(http_server_listen(&s, &how) == GRPO_EARG && strstr(err_message(), "wants a token"));
  how.address = "example.com";
  CHECK(http_server_listen(&s, &how) == GRPO_EARG && strstr(err_message(), "not an IPv4"));
  s = server_with("secret", BODY);
  HttpAsk r;
  CHECK(is_refused(s, ask(s, "/"), 401));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Authorization: Bearer secre\r\n"), 401));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Authorization: Bearer secretsecret\r\n"), 401));
  CHECK(is_refused(s, ask_with(s, "GET", "/", "Authorization: Basic secret\r\n"), 401));
  const int fd = ask_with(s, "GET", "/", "Authorization: Bearer secret\r\n");
  const long request = next(s, &r);
  http_server_send(s, request, 200, "text/plain", "in", 2);
  CHECK(is_refused(s, fd, 200));
  http_server_close(s);
}

TEST(a_large_answer_to_a_slow_client_does_not_stop_the_others) {
  enum { LARGE = 3 << 20 };
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  const int slow = ask(s, "/slow");
  char *large = calloc(1, LARGE);
  memset(large, 'x', LARGE);
  http_server_send(s, next(s, &r), 200, "text/plain", large, LARGE);
  const int quick = ask(s, "/quick");
  const long request = next(s, &r);
  CHECK_STR(r.path, "/quick");
  http_server_send(s, request, 200, "text/plain", "quick", 5);
  CHECK(strstr(answer(s, quick), "\r\n\r\nquick"));
  const char *text = answer(s, slow);
  CHECK(strlen(strstr(text, "\r\n\r\n") + 4) == LARGE);
  free(large);
  http_server_close(s);
}

TEST(an_answer_may_come_in_pieces) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  const int fd = ask(s, "/");
  const long request = next(s, &r);
  http_server_begin(s, request, 200, "text/event-stream");
  for (int i = 0; i < 3; i++) {
    http_server_write(s, request, "data: x\n\n", 9);
    http_server_wait(s, 0.01);
    CHECK(!http_server_gone(s, request));
  }
  char text[4096];
  const ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
  CHECK(n > 0 && memmem(text, (size_t)n, "data: x\n\n", 9)); /* the pieces come as they are made */
  http_server_end(s, request);
  http_server_end(s, request); /* does nothing */
  answer(s, fd);
  http_server_close(s);
}

TEST(a_client_that_hangs_up_is_noticed) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  for (int streaming = 0; streaming < 2; streaming++) {
    const int fd = ask(s, "/");
    const long request = next(s, &r);
    if (streaming) {
      http_server_begin(s, request, 200, "text/plain");
      http_server_write(s, request, "x", 1);
      http_server_wait(s, 0.01);
    }
    CHECK(!http_server_gone(s, request));
    close(fd);
    for (int i = 0; i < 100 && !http_server_gone(s, request); i++) http_server_wait(s, 0.01);
    CHECK(http_server_gone(s, request));
    http_server_write(s, request, "x", 1);
    streaming ? http_server_end(s, request)
              : http_server_send(s, request, 200, "text/plain", "x", 1);
  }
  http_server_close(s);
}

TEST(silent_clients_make_room_for_one_that_asks) {
  enum { SILENT = 2 * CLIENTS }; /* all that may be open */
  HttpServer *s = server();
  int silent[SILENT];
  HttpAsk r;
  if (!s) return;
  for (int i = 0; i < SILENT; i++) {
    silent[i] = connect_to(s);
    say(silent[i], "GET / HT");
    http_server_wait(s, 0.01);
    CHECK(!http_server_next(s, &r));
  }
  const int fd = ask(s, "/");
  long request = 0;
  for (int i = 0; i < 10 && !request; i++) request = next(s, &r);
  http_server_send(s, request, 200, "text/plain", "here", 4);
  CHECK(strstr(answer(s, fd), "\r\n\r\nhere"));
  char c;
  const ssize_t n = recv(silent[0], &c, 1, 0);
  CHECK(n == 0 || (n < 0 && errno == ECONNRESET)); /* the oldest had to go */
  for (int i = 0; i < SILENT; i++) close(silent[i]);
  CHECK(!http_server_next(s, &r));
  http_server_close(s);
}

TEST(clients_that_speak_a_little_later_are_answered) {
  enum { MANY = 2 * CLIENTS };
  HttpServer *s = server();
  int fd[MANY], answered = 0;
  char text[64];
  HttpAsk r;
  if (!s) return;
  for (int i = 0; i < MANY; i++) fd[i] = connect_to(s);
  for (int i = 0; i < 20; i++) http_server_wait(s, 0);
  snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", http_server_port(s));
  for (int i = 0; i < MANY; i++) say(fd[i], text);
  for (long request; (request = next(s, &r)) != 0; answered++)
    http_server_send(s, request, 200, "text/plain", "here", 4);
  CHECK(answered == MANY);
  for (int i = 0; i < MANY; i++) close(fd[i]);
  http_server_close(s);
}

TEST(many_clients_at_once_are_all_answered) {
  enum { MANY = 3 * CLIENTS };
  HttpServer *s = server();
  int fd[MANY], answered = 0;
  char text[4096];
  HttpAsk r;
  if (!s) return;
  for (int i = 0; i < MANY; i++) fd[i] = ask(s, "/");
  for (long request; (request = next(s, &r)) != 0; answered++)
    http_server_send(s, request, 200, "text/plain", "here", 4);
  CHECK(answered == MANY);
  for (int i = 0; i < MANY; i++) {
    CHECK(recv(fd[i], text, sizeof text, MSG_DONTWAIT) > 0);
    close(fd[i]);
  }
  http_server_close(s);
}

TEST(a_header_comes_with_the_request) {
  HttpServer *s = NULL;
  HttpAsk r;
  const HttpListen how = {.address = "127.0.0.1",
                          .connections = CLIENTS,
                          .header = "X-Version",
                          .purpose = "nothing is served"};
  if (!http_server_library()) {
    test_skip("libmicrohttpd is not there");
    return;
  }
  CHECK(http_server_listen(&s, &how) == GRPO_OK);
  const int with = ask_with(s, "GET", "/", "x-version: 7\r\n");
  long request = next(s, &r);
  CHECK_STR(r.header, "7");
  http_server_send(s, request, 200, "text/plain", "", 0);
  answer(s, with);
  const int without = ask(s, "/");
  request = next(s, &r);
  CHECK_STR(r.header, "");
  http_server_send(s, request, 200, "text/plain", "", 0);
  answer(s, without);
  http_server_close(s);
}

TEST(a_client_that_is_gone_changes_nothing) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  for (int i = 0; i < 3 * CLIENTS; i++) {
    const int fd = ask(s, "/");
    const long request = next(s, &r);
    CHECK(request);
    close(fd);
    http_server_send(s, request, 200, "text/plain", "nobody", 6);
    http_server_send(s, request, 200, "text/plain", "twice", 5); /* does nothing */
  }
  http_server_close(s);
}

TEST(a_port_that_is_taken_is_an_error) {
  HttpServer *s = server(), *other = NULL;
  if (!s) return;
  const HttpListen how = {.address = "127.0.0.1",
                          .port = http_server_port(s),
                          .connections = 2,
                          .purpose = "nothing is served"};
  CHECK(http_server_listen(&other, &how) == GRPO_EIO);
  CHECK(strstr(err_message(), "port ") && strstr(err_message(), "in use"));
  http_server_close(s);
  http_server_close(NULL);
}

TEST(a_server_gives_its_memory_back) {
  HttpServer *s = server();
  HttpAsk r;
  if (!s) return;
  http_server_close(s);
  const size_t before = mem_live_bytes();
  s = server();
  const int fd = ask_with(s, "POST", "/", "Content-Length: 3\r\n"), other = ask(s, "/");
  say(fd, "abc");
  CHECK(next(s, &r) && next(s, &r));
  http_server_close(s); /* with two requests that nobody has answered */
  close(fd);
  close(other);
  CHECK(mem_live_bytes() == before);
}

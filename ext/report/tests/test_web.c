/* The server of pages: answers, refusals, slow and silent clients, more clients than places. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/web.h"
#include "testing.h"

static WebServer *server(void) {
  WebServer *s = NULL;
  CHECK(web_listen(&s, 0) == GRPO_OK);
  CHECK(web_port(s) > 0);
  return s;
}

static int connect_to(const WebServer *s) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)web_port(s))};
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

static void ask(const WebServer *s, int fd, const char *method, const char *path) {
  char text[400];
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", method, path,
           web_port(s));
  say(fd, text);
}

/* The next request, waiting for it; false if none comes. */
static bool next(WebServer *s, int *client, HttpRequest *r) {
  for (int i = 0; i < 50; i++) {
    if (web_next(s, client, r)) return true;
    web_wait(s, 0.01);
  }
  return false;
}

/* Reads to the end while the server works. */
static char *answer(WebServer *s, int fd) {
  static char text[4 << 20];
  size_t len = 0;
  int client;
  HttpRequest r;
  for (int i = 0; i < 2000; i++) {
    CHECK(!web_next(s, &client, &r));
    const ssize_t n = recv(fd, text + len, sizeof text - 1 - len, MSG_DONTWAIT);
    if (n == 0) break;
    if (n < 0) web_wait(s, 0.005);
    if (n > 0) len += (size_t)n;
  }
  text[len] = '\0';
  close(fd);
  return text;
}

TEST(a_page_is_served_with_headers_that_protect_it) {
  WebServer *s = server();
  const int fd = connect_to(s);
  int client;
  HttpRequest r;
  ask(s, fd, "GET", "/page?x=1");
  CHECK(next(s, &client, &r));
  CHECK_STR(r.path, "/page");
  CHECK_STR(r.query, "x=1");
  web_send(s, client, 200, "text/html", "hello", 5);
  const char *text = answer(s, fd);
  CHECK(strncmp(text, "HTTP/1.1 200 OK\r\n", 17) == 0 && strstr(text, "\r\n\r\nhello"));
  CHECK(strstr(text, "Content-Length: 5\r\n") && strstr(text, "text/html; charset=utf-8\r\n"));
  CHECK(strstr(text, "Content-Security-Policy: default-src 'none'; script-src 'self'; "));
  CHECK(strstr(text, "X-Content-Type-Options: nosniff\r\n") && strstr(text, "frame-ancestors"));
  CHECK(!strstr(text, "Access-Control")); /* no other page may read it */
  web_close(s);
}

TEST(what_is_not_served_is_refused_without_the_caller) {
  WebServer *s = server();
  int fd = connect_to(s);
  ask(s, fd, "POST", "/");
  char *text = answer(s, fd);
  CHECK(strncmp(text, "HTTP/1.1 405 ", 13) == 0 && strstr(text, "Allow: GET\r\n"));
  fd = connect_to(s);
  say(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(strncmp(answer(s, fd), "HTTP/1.1 421 ", 13) == 0);
  fd = connect_to(s);
  say(fd, "\x16\x03\x01");
  CHECK(strncmp(answer(s, fd), "HTTP/1.1 400 ", 13) == 0);
  web_close(s);
}

TEST(only_this_machine_can_connect) {
  WebServer *s = server();
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)web_port(s))};
  CHECK(inet_pton(AF_INET, "127.0.0.2", &a.sin_addr) == 1); /* another address of this machine */
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) != 0);
  close(fd);
  web_close(s);
}

TEST(a_large_answer_to_a_slow_client_does_not_stop_the_others) {
  enum { LARGE = 3 << 20 };
  WebServer *s = server();
  const int slow = connect_to(s), quick = connect_to(s);
  int client;
  HttpRequest r;
  char *large = calloc(1, LARGE);
  memset(large, 'x', LARGE);
  ask(s, slow, "GET", "/slow");
  CHECK(next(s, &client, &r));
  web_send(s, client, 200, "text/plain", large, LARGE);
  ask(s, quick, "GET", "/quick");
  CHECK(next(s, &client, &r));
  CHECK_STR(r.path, "/quick");
  web_send(s, client, 200, "text/plain", "quick", 5);
  CHECK(strstr(answer(s, quick), "\r\n\r\nquick"));
  const char *text = answer(s, slow);
  CHECK(strlen(strstr(text, "\r\n\r\n") + 4) == LARGE);
  free(large);
  web_close(s);
}

TEST(silent_clients_make_room_for_one_that_asks) {
  WebServer *s = server();
  int silent[WEB_CLIENTS], client;
  HttpRequest r;
  for (int i = 0; i < WEB_CLIENTS; i++) {
    silent[i] = connect_to(s);
    say(silent[i], "GET / HT");
    CHECK(!web_next(s, &client, &r));
  }
  const int fd = connect_to(s);
  ask(s, fd, "GET", "/");
  CHECK(next(s, &client, &r));
  web_send(s, client, 200, "text/plain", "here", 4);
  CHECK(strstr(answer(s, fd), "\r\n\r\nhere"));
  char c;
  CHECK(recv(silent[0], &c, 1, 0) <= 0); /* the oldest had to go */
  for (int i = 0; i < WEB_CLIENTS; i++) close(silent[i]);
  CHECK(!web_next(s, &client, &r));
  web_close(s);
}

TEST(a_client_that_is_gone_is_no_harm) {
  WebServer *s = server();
  int client;
  HttpRequest r;
  for (int i = 0; i < 3 * WEB_CLIENTS; i++) {
    const int fd = connect_to(s);
    ask(s, fd, "GET", "/");
    CHECK(next(s, &client, &r));
    close(fd);
    web_send(s, client, 200, "text/plain", "nobody", 6);
    web_send(s, client, 200, "text/plain", "twice", 5); /* does nothing */
  }
  web_close(s);
}

TEST(a_port_that_is_taken_is_an_error) {
  WebServer *s = server(), *other = NULL;
  CHECK(web_listen(&other, web_port(s)) == GRPO_EIO);
  CHECK(strstr(err_message(), "port ") && strstr(err_message(), "in use"));
  web_close(s);
  web_close(NULL);
}

TEST(a_server_gives_its_memory_back) {
  const size_t before = mem_live_bytes();
  WebServer *s = server();
  const int fd = connect_to(s);
  int client;
  HttpRequest r;
  ask(s, fd, "GET", "/");
  CHECK(next(s, &client, &r));
  web_close(s);
  close(fd);
  CHECK(mem_live_bytes() == before);
}

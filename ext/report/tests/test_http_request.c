/* Requests as they arrive: what is served, what is refused with which status, and pieces. */
#include <stdio.h>
#include <string.h>

#include "report/http_request.h"
#include "testing.h"

#define HOST "Host: 127.0.0.1:8000\r\n"
#define END  "\r\n"

static int status_of(const char *text) {
  HttpRequest r;
  return http_request_read(text, strlen(text), 8000, &r);
}

TEST(a_request_of_a_browser_is_read) {
  const char *text = "GET /data?since=12 HTTP/1.1\r\n" HOST
                     "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n"
                     "Accept-Language: de,en;q=0.5\r\nCookie: a=\"b\"\r\n\r\n";
  HttpRequest r;
  CHECK(http_request_read(text, strlen(text), 8000, &r) == 200);
  CHECK_STR(r.path, "/data");
  CHECK_STR(r.query, "since=12");
  /* no prefix of it is taken for a whole one, or refused */
  for (size_t n = 0; n < strlen(text); n++) CHECK(http_request_read(text, n, 8000, &r) == 0);
}

TEST(a_request_names_this_server) {
  CHECK(status_of("GET / HTTP/1.1\r\nhost:  LocalHost:8000 \r\n\r\n") == 200);
  CHECK(status_of("GET / HTTP/1.0\r\n" HOST END) == 200);
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST HOST END) == 400);
  static const char *const others[] = {
      "evil.example:8000", "127.0.0.1",           "127.0.0.1:8001",
      "127.0.0.1:80000",   "127.0.0.1.evil:8000", "evil@127.0.0.1:8000",
      "0.0.0.0:8000",      "[::1]:8000",          "",
      "localhost.:8000"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char text[200];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", others[i]);
    CHECK(status_of(text) == 421);
  }
  HttpRequest r;
  const char *plain = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CHECK(http_request_read(plain, strlen(plain), 80, &r) == 200);
}

TEST(only_get_without_a_body_is_served) {
  CHECK(status_of("POST / HTTP/1.1\r\n" HOST END) == 405);
  CHECK(status_of("HEAD / HTTP/1.1\r\n" HOST END) == 405);
  CHECK(status_of("get / HTTP/1.1\r\n" HOST END) == 405);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello") == 413);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n") == 200);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/2.0\r\n" HOST END) == 505);
  CHECK(status_of("GET /\r\n\r\n") == 400);
}

TEST(a_path_cannot_leave_what_is_served) {
  static const char *const paths[] = {"/../etc/passwd", "/a/../b", "/%2e%2e/x", "/a\\b", "//x",
                                      "/a%00b",         "/a\x01",  "/\xc3\xa4"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char text[200];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST END, paths[i]);
    CHECK(status_of(text) == 404);
  }
  CHECK(status_of("GET http://127.0.0.1:8000/ HTTP/1.1\r\n" HOST END) == 400);
  CHECK(status_of("GET * HTTP/1.1\r\n" HOST END) == 400);
  CHECK(status_of("GET /?a=<b> HTTP/1.1\r\n" HOST END) == 400);
}

TEST(headers_that_could_be_read_in_two_ways_are_refused) {
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST " folded: 1\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\nHost : 127.0.0.1:8000\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "a: b\nHost: evil\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "a: b\rc\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n" HOST ": empty\r\n\r\n") == 400);
  HttpRequest r;
  static const char zero[] = "GET / HTTP/1.1\r\n" HOST "a: b\0c\r\n\r\n";
  CHECK(http_request_read(zero, sizeof zero - 1, 8000, &r) == 400);
}

TEST(a_request_is_bounded) {
  char text[HTTP_LONGEST + 1], *at = text;
  HttpRequest r;
  memset(text, 'a', sizeof text);
  CHECK(http_request_read(text, HTTP_LONGEST - 1, 8000, &r) == 0);
  CHECK(http_request_read(text, HTTP_LONGEST, 8000, &r) == 431);
  at += snprintf(at, 100, "GET / HTTP/1.1\r\n" HOST);
  for (int i = 0; i < HTTP_HEADERS; i++) at += snprintf(at, 100, "a: b\r\n");
  snprintf(at, 100, "\r\n");
  CHECK(status_of(text) == 431);
  snprintf(text, sizeof text, "GET /%0300d HTTP/1.1\r\n" HOST END, 0);
  CHECK(status_of(text) == 414);
  CHECK(http_request_read("\x16\x03\x01", 3, 8000, &r) == 400); /* TLS */
}

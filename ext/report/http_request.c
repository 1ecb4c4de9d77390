#include "report/http_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct Span {
  const char *at;
  size_t len;
} Span;

static bool is_text(Span s, const char *text) {
  return s.len == strlen(text) && strncasecmp(s.at, text, s.len) == 0;
}

static bool is_exactly(Span s, const char *text) {
  return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

/* RFC 9110, 5.6.2 */
static bool is_token(Span s) {
  for (size_t i = 0; i < s.len; i++) {
    const char c = s.at[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && (!c || !strchr("!#$%&'*+-.^_`|~", c))) return false;
  }
  return s.len > 0;
}

/* Splits the text at the first `end`; returns false if it does not occur. */
static bool take_until(Span *text, const char *end, Span *out) {
  const size_t n = strlen(end);
  const char *found = memmem(text->at, text->len, end, n);
  if (!found) return false;
  *out = (Span){text->at, (size_t)(found - text->at)};
  text->len -= out->len + n;
  text->at = found + n;
  return true;
}

/* ---- the first line ---------------------------------------------------------------------- */

/* Is it one of the characters that our own paths and queries are made of? */
static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c && strchr("/._-=&", c));
}

static void copy(char *to, Span from) {
  memcpy(to, from.at, from.len);
  to[from.len] = '\0';
}

static int read_target(Span target, HttpRequest *out) {
  Span path;
  if (target.len >= HTTP_TARGET) return 414;
  const bool has_query = take_until(&target, "?", &path);
  if (!has_query) path = target, target.len = 0;
  if (path.len == 0 || path.at[0] != '/') return 400;
  for (size_t i = 0; i < path.len; i++)
    if (!is_plain(path.at[i])) return 404; /* no such file of ours */
  for (size_t i = 0; i < target.len; i++)
    if (!is_plain(target.at[i])) return 400;
  if (memmem(path.at, path.len, "..", 2) || memmem(path.at, path.len, "//", 2)) return 404;
  copy(out->path, path);
  copy(out->query, target);
  return 200;
}

static int read_first_line(Span line, HttpRequest *out) {
  Span method, target;
  if (!take_until(&line, " ", &method) || !take_until(&line, " ", &target)) return 400;
  if (!is_token(method)) return 400;
  if (!is_exactly(line, "HTTP/1.1") && !is_exactly(line, "HTTP/1.0")) return 505;
  if (!is_exactly(method, "GET")) return 405;
  return read_target(target, out);
}

/* ---- the headers -------------------------------------------------------------------------- */

static Span trimmed(Span s) {
  while (s.len && (s.at[0] == ' ' || s.at[0] == '\t')) s.at++, s.len--;
  while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t')) s.len--;
  return s;
}

static bool names_us(Span host, int port) {
  char with_port[64];
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "localhost" : "127.0.0.1";
    snprintf(with_port, sizeof with_port, "%s:%d", name, port);
    if (is_text(host, with_port) || (port == 80 && is_text(host, name))) return true;
  }
  return false;
}

/* Looks at a header; *hosts counts those that name the server. */
static int read_header(Span line, int port, int *hosts) {
  Span name;
  if (!take_until(&line, ":", &name) || !is_token(name)) return 400;
  const Span value = trimmed(line);
  for (size_t i = 0; i < value.len; i++)
    if ((unsigned char)value.at[i] < 0x20 && value.at[i] != '\t') return 400;
  if (is_text(name, "Transfer-Encoding")) return 400;
  if (is_text(name, "Content-Length") && !is_exactly(value, "0")) return 413;
  if (!is_text(name, "Host")) return 200;
  if (++*hosts > 1) return 400;
  return names_us(value, port) ? 200 : 421;
}

int http_request_read(const char *data, size_t len, int port, HttpRequest *out) {
  Span all = {data, len < HTTP_LONGEST ? len : HTTP_LONGEST}, head, line;
  int hosts = 0, status;
  *out = (HttpRequest){0};
  if (len && !is_token((Span){data, 1})) return 400; /* it is not HTTP */
  if (!take_until(&all, "\r\n\r\n", &head)) return len < HTTP_LONGEST ? 0 : 431;
  const bool alone = !take_until(&head, "\r\n", &line);
  if (alone) line = head, head.len = 0;
  status = read_first_line(line, out);
  for (int count = 0; status == 200 && head.len; count++) {
    if (count == HTTP_HEADERS) return 431;
    if (!take_until(&head, "\r\n", &line)) line = head, head.len = 0;
    status = read_header(line, port, &hosts);
  }
  if (status != 200) return status;
  return hosts == 1 ? 200 : 400;
}

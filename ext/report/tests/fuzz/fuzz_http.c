/* fuzz_http.c - a request in any bytes: it is served, refused or not whole; each of these does not
 * depend on the pieces in which it comes, and what is served is a plain path. */
#include <string.h>

#include "fuzz.h"
#include "report/http_request.h"

enum { PORT = 8000 };

static void check_served(const uint8_t *data, size_t size, const HttpRequest *r) {
  FUZZ_CHECK(r->path[0] == '/' && !strstr(r->path, "..") && !strstr(r->path, "//"));
  FUZZ_CHECK(
      strspn(r->path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-=&") ==
      strlen(r->path));
  FUZZ_CHECK(size >= 4 && memcmp(data, "GET ", 4) == 0);
  FUZZ_CHECK(memmem(data, size, ":8000", 5));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HttpRequest r, again;
  const int whole = http_request_read((const char *)data, size, PORT, &r);
  FUZZ_CHECK(whole == 0 || whole == 200 || (whole >= 400 && whole <= 505));
  FUZZ_CHECK(whole || size < HTTP_LONGEST);
  if (whole == 200) check_served(data, size, &r);
  /* the first bytes that are answered have the answer of all of them */
  size_t n = 0;
  int first = 0;
  while (n < size && n < HTTP_LONGEST && !first)
    first = http_request_read((const char *)data, ++n, PORT, &again);
  FUZZ_CHECK(first == whole);
  if (whole == 200) FUZZ_CHECK(!strcmp(r.path, again.path) && !strcmp(r.query, again.query));
  return 0;
}

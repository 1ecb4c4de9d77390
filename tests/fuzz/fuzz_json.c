/* fuzz_json.c - whatever is accepted can be written and read again without a
 * change, and any bytes become a valid JSON string. */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "json_put.h"

static void check_document(const char *text, size_t n) {
  Json *j, *again;
  if (json_parse(text, n, "input", &j) != GRPO_OK) {
    FUZZ_CHECK(!j && strncmp(err_message(), "input:", 6) == 0);
    return;
  }
  Buf once = {0}, twice = {0};
  put_json(&once, j);
  FUZZ_CHECK(json_parse(once.data, once.len, "written", &again) == GRPO_OK);
  put_json(&twice, again);
  FUZZ_CHECK(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
  json_free(j);
  json_free(again);
  buf_free(&once);
  buf_free(&twice);
}

static void check_string(const char *text, size_t n) {
  if (memchr(text, 0, n)) return; /* the one byte that cannot be read back */
  Buf written = {0}, lossy = {0};
  Json *j;
  json_put_string(&written, text, n);
  utf8_put_lossy(&lossy, text, n);
  FUZZ_CHECK(json_parse(written.data, written.len, "string", &j) == GRPO_OK);
  FUZZ_CHECK(strcmp(json_string(j), lossy.len ? lossy.data : "") == 0);
  json_free(j);
  buf_free(&written);
  buf_free(&lossy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_document((const char *)data, size);
  check_string((const char *)data, size);
  return 0;
}

/* fuzz_yaml.c - an accepted text becomes JSON text that can be read; an error begins with the
 * name of the input. */
#include <string.h>

#include "formats/json.h"
#include "fuzz.h"
#include "yaml/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Buf json = {0};
  Json *j;
  const Status s = yaml_to_json((const char *)data, size, "input", &json);
  if (s) {
    FUZZ_CHECK(strncmp(err_message(), "input:", 6) == 0);
  } else {
    FUZZ_CHECK(json_parse_zeros(json.data, json.len, "written", &j) == GRPO_OK);
    json_free(j);
  }
  buf_free(&json);
  return 0;
}

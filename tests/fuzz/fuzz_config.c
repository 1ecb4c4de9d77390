/* fuzz_config.c - any config.json: refused with one line that names it, or a decoder whose sizes
 * can be computed, whose config.json written by us means the same, and which, when small, runs.
 * Behind a NUL may follow a generation_config.json. */
#include "checkpoint/weights.h"
#include "files.h"
#include "forward.h"
#include "model/config_check.h"
#include "model/config_read.h"
#include "model/config_write.h"
#include "model/model_memory.h"

static void check_written(const Config *c) {
  Buf once = {0}, twice = {0};
  Json *j = NULL;
  Config again;
  config_write(&once, c);
  FUZZ_CHECK(json_parse(once.data, once.len, "written", &j) == GRPO_OK);
  FUZZ_CHECK(config_read(&again, j, "written") == GRPO_OK);
  config_write(&twice, &again);
  FUZZ_CHECK(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
  json_free(j);
  buf_free(&once);
  buf_free(&twice);
}

static void check_config(const Config *c) {
  FUZZ_CHECK(config_check(c, "input") == GRPO_OK);
  check_written(c);
  size_t bytes = 0;
  if (c->num_hidden_layers > 64) return;
  const Status s = model_new_bytes(c, &bytes);
  FUZZ_CHECK(s == GRPO_OK ? bytes > 0 : s == GRPO_ENOMEM);
  if (s != GRPO_OK || bytes >= 1 << 19) return;
  Model *m = NULL;
  FUZZ_CHECK(model_new(&m, NULL, c, 1) == GRPO_OK);
  check_forward(m);
  model_release(m);
}

static void check_refused(const char *what) {
  FUZZ_CHECK(strncmp(err_message(), what, strlen(what)) == 0 && !strchr(err_message(), '\n'));
}

/* Both files, as they lie in a directory. */
static void check_directory(const uint8_t *config, size_t n, const uint8_t *more, size_t nmore) {
  Config c;
  fuzz_put_file("config.json", config, n);
  fuzz_put_file("generation_config.json", more, nmore);
  if (weights_config(&c, fuzz_dir) == GRPO_OK)
    check_written(&c);
  else
    check_refused(fuzz_dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  const size_t n = nul ? (size_t)(nul - data) : size;
  Json *j = NULL;
  Config c;
  Status s = json_parse_rows((const char *)data, n, "input", &j);
  if (s == GRPO_OK) s = config_read(&c, j, "input");
  if (s == GRPO_OK)
    check_config(&c);
  else
    check_refused("input");
  json_free(j);
  if (nul) check_directory(data, n, nul + 1, size - n - 1);
  return 0;
}

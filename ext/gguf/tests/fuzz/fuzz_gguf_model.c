/* fuzz_gguf_model.c - any bytes as a GGUF file with a model and its tokenizer: each is refused with
 * one line that names the file, or computes, and encodes to ids that exist.  What was read can be
 * written, or is refused, and what was written can be read. */
#include "checkpoint/weights.h"
#include "files.h"
#include "forward.h"
#include "gguf/gguf_save.h"
#include "text/tokenizer_files.h"

static void check_refused(const char *path) {
  FUZZ_CHECK(strstr(err_message(), path) && !strchr(err_message(), '\n'));
}

static void check_written(const Model *m) {
  char path[FUZZ_PATH];
  Model *again = NULL;
  snprintf(path, sizeof path, "%s", fuzz_path("again.gguf"));
  if (gguf_save(m, NULL, path, GGML_F32) != GRPO_OK) {
    FUZZ_CHECK(!strchr(err_message(), '\n'));
    return;
  }
  FUZZ_CHECK(weights_load(&again, NULL, path, STORE_F32) == GRPO_OK);
  FUZZ_CHECK(model_count(again) == model_count(m));
  model_release(again);
}

static void check_model(const char *path, Storage storage) {
  Model *m = NULL;
  if (weights_load(&m, NULL, path, storage) != GRPO_OK) {
    check_refused(path);
    return;
  }
  check_forward(m);
  if (storage == STORE_F32) check_written(m);
  model_release(m);
}

static void check_tokenizer(const char *path) {
  static const char text[] = "a b<s>\xC3\xA9 12  \xE6\x97\xA5\n";
  Tokenizer *t = NULL;
  IntBuf ids = {0};
  Buf back = {0};
  if (tokenizer_load(&t, path) != GRPO_OK) {
    check_refused(path);
    return;
  }
  if (tokenizer_encode(t, text, sizeof text - 1, TOK_ADD_SPECIAL, &ids) == GRPO_OK) {
    for (size_t i = 0; i < ids.len; i++) FUZZ_CHECK(tokenizer_token(t, ids.data[i]) != NULL);
    FUZZ_CHECK(tokenizer_decode(t, ids.data, ids.len, false, &back) == GRPO_OK);
  }
  intbuf_free(&ids);
  buf_free(&back);
  tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char head[8] = {'G', 'G', 'U', 'F', 3};
  char path[FUZZ_PATH];
  snprintf(path, sizeof path, "%s", fuzz_path("model.gguf"));
  if (size < sizeof head) return 0;
  fuzz_put_file("model.gguf", data, size);
  FILE *f = fopen(path, "r+b"); /* mutations get past the first check */
  FUZZ_CHECK(f && fwrite(head, 1, sizeof head, f) == sizeof head);
  fclose(f);
  check_model(path, STORE_F32);
  check_model(path, STORE_AUTO);
  check_tokenizer(path);
  return 0;
}

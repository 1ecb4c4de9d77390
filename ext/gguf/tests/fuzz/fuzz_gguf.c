/* fuzz_gguf.c - any bytes as a GGUF file: refused with one line that names the file, or read with
 * every key and tensor inside it; then as a model and as a tokenizer.  Each input is tried as it
 * is, and once more with a first line that fits, so that mutations get past the first check. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "gguf/gguf.h"
#include "gguf/gguf_config.h"
#include "gguf/gguf_source.h"
#include "gguf/gguf_tokenizer.h"

static uint64_t count_of(const SourceTensor *t) {
  uint64_t n = 1;
  for (int d = 0; d < t->ndim && d < SOURCE_DIMS; d++) n *= t->dim[d];
  return n;
}

static void touch_value(const Gguf *g, const GgufValue *v) {
  const char *end = v->data + v->bytes, *at = v->data, *s;
  size_t n;
  double sum = 0;
  FUZZ_CHECK(gguf_find(g, v->key) == v);
  FUZZ_CHECK(v->data >= g->header && (uint64_t)(end - g->header) <= file_input_size(g->file));
  for (uint64_t i = 0; i < v->count; i++) {
    if (v->type != GGUF_STRING) {
      sum += gguf_number_at(v, i);
      continue;
    }
    gguf_next_string(&at, &s, &n);
    FUZZ_CHECK(s + n <= end);
  }
  FUZZ_CHECK(v->type != GGUF_STRING || at == end);
  FUZZ_CHECK(sum == sum || sum != sum);
}

static void touch_tensor(const Gguf *g, const GgufTensor *t) {
  float x[300];
  const uint64_t n = t->n > 300 ? 300 : t->n;
  FUZZ_CHECK(gguf_tensor(g, t->name) == t);
  FUZZ_CHECK(t->file == g->file && t->at + t->bytes <= file_input_size(g->file));
  if (!ggml_is_read(t->type)) return;
  FUZZ_CHECK(!gguf_read(t, 0, n, x));
  FUZZ_CHECK(!gguf_read(t, t->n - n, n, x));
  if (n > 5) FUZZ_CHECK(!gguf_read(t, 5, n - 5, x));
}

static void one_line(const char *path) {
  FUZZ_CHECK(strncmp(err_message(), path, strlen(path)) == 0 && !strchr(err_message(), '\n'));
}

/* Reads the model and the tokenizer from the metadata. */
static void use(const Gguf *g, const char *path) {
  Config c;
  WeightSource source;
  Tokenizer *t = NULL;
  IntBuf ids = {0};
  if (gguf_config_read(&c, g) != GRPO_OK) one_line(path);
  if (gguf_source_open(&source, path) == GRPO_OK) {
    float x[40];
    for (size_t i = 0; i < source.count; i++) {
      const SourceTensor *w = &source.tensor[i];
      const uint64_t n = count_of(w) > 40 ? 40 : count_of(w);
      if (w->type != SOURCE_OTHER) FUZZ_CHECK(!source.read(&source, w, count_of(w) - n, n, x));
    }
    source_close(&source);
  }
  if (gguf_tokenizer_read(&t, g) == GRPO_OK)
    (void)tokenizer_encode(t, "ab  11 <s>\n\xff", 13, TOK_ADD_SPECIAL, &ids);
  else
    FUZZ_CHECK(!strchr(err_message(), '\n'));
  intbuf_free(&ids);
  tokenizer_free(t);
}

static void check_file(const char *path) {
  Gguf g;
  if (gguf_open(&g, path) == GRPO_OK) {
    for (size_t i = 0; i < g.nvalues; i++) touch_value(&g, &g.value[i]);
    for (size_t i = 0; i < g.ntensors; i++) touch_tensor(&g, &g.tensor[i]);
    use(&g, path);
  } else {
    one_line(path);
    FUZZ_CHECK(!g.value && !g.file);
  }
  gguf_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char head[8] = {'G', 'G', 'U', 'F', 3};
  char path[64];
  const int fd = memfd_create("gguf", 0);
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  check_file(path);
  FUZZ_CHECK(pwrite(fd, head, sizeof head, 0) == (ssize_t)sizeof head);
  check_file(path);
  close(fd);
  return 0;
}

/* fuzz_safetensors.c - any bytes as a safetensors file: refused with one line that names the file,
 * or read with every tensor inside it.  Each input is tried as it is, and once more with a header
 * length that fits, so that mutations get past the first check. */
#include <sys/mman.h>

#include "files.h"
#include "formats/safetensors.h"

static void touch(const Safetensors *s) {
  const uint64_t data = s->count ? s->tensor[0].at - s->tensor[0].begin : 0;
  uint64_t bytes = 0;
  float x[16];
  for (size_t i = 0; i < s->count; i++) {
    const StTensor *t = &s->tensor[i];
    FUZZ_CHECK(safetensors_find(s, t->name) == t);
    FUZZ_CHECK(t->at == data + t->begin && t->begin <= t->end && t->file == s->file);
    FUZZ_CHECK(data + t->end <= file_input_size(s->file));
    bytes += t->end - t->begin;
    if (st_type_is_float(t->type) && t->n)
      FUZZ_CHECK(!st_read(t, t->n > 16 ? t->n - 16 : 0, t->n > 16 ? 16 : t->n, x));
  }
  FUZZ_CHECK(!s->count || data + bytes == file_input_size(s->file));
  safetensors_metadata(s, "format");
}

static void check_file(const char *path) {
  Safetensors s;
  if (safetensors_open(&s, path) == GRPO_OK) {
    touch(&s);
  } else {
    FUZZ_CHECK(strncmp(err_message(), path, strlen(path)) == 0);
    FUZZ_CHECK(!strchr(err_message(), '\n') && !s.tensor && !s.file);
  }
  safetensors_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  uint8_t prefix[8];
  const int fd = memfd_create("safetensors", 0);
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  check_file(path);
  fuzz_fit_header(data, size, prefix);
  FUZZ_CHECK(pwrite(fd, prefix, sizeof prefix, 0) == (ssize_t)sizeof prefix);
  check_file(path);
  close(fd);
  return 0;
}

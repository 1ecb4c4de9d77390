/* files.h - what the targets whose inputs are files share. */
#ifndef GRPO_TESTS_FUZZ_FILES_H
#define GRPO_TESTS_FUZZ_FILES_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "os/file.h"

enum { FUZZ_PATH = 256 };
static char fuzz_dir[64]; /* an empty one of this process, in memory where the system has that */
static void fuzz_remove_dir(void) { file_remove_tree(fuzz_dir); }

/* The path of a file in it; valid until the next call. */
static inline const char *fuzz_path(const char *name) {
  static char path[FUZZ_PATH];
  if (!*fuzz_dir) {
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/grpo-fuzz-XXXXXX",
             file_is_dir("/dev/shm") ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(fuzz_dir));
    atexit(fuzz_remove_dir);
  }
  snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
  return path;
}

static inline void fuzz_put_file(const char *name, const void *data, size_t n) {
  FILE *f = fopen(fuzz_path(name), "wb");
  FUZZ_CHECK(f && fwrite(data, 1, n, f) == n);
  fclose(f);
}

/* The length of a safetensors header that ends at the last brace. */
static inline void fuzz_fit_header(const uint8_t *data, size_t size, uint8_t prefix[8]) {
  size_t end = size;
  while (end > 8 && data[end - 1] != '}') end--;
  for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)((uint64_t)(end > 8 ? end - 8 : 0) >> 8 * i);
}

/* The same file with such a length, when it has room for one. */
static inline void fuzz_refit_file(const char *name, const uint8_t *data, size_t n) {
  uint8_t prefix[8];
  if (n < sizeof prefix) return;
  fuzz_fit_header(data, n, prefix);
  FILE *f = fopen(fuzz_path(name), "r+b");
  FUZZ_CHECK(f && fwrite(prefix, 1, sizeof prefix, f) == sizeof prefix);
  fclose(f);
}

/* The bytes up to the next NUL; *data moves behind it. */
static inline size_t fuzz_part(const uint8_t **data, size_t *size, const uint8_t **part) {
  const uint8_t *nul = *size ? memchr(*data, 0, *size) : NULL;
  const size_t n = nul ? (size_t)(nul - *data) : *size;
  *part = *data;
  *data += nul ? n + 1 : n;
  *size -= nul ? n + 1 : n;
  return n;
}

#endif

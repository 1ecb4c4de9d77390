/* fuzz_safetensors.c - any bytes as a safetensors file: refused or read, nothing else.
 *
 * A libFuzzer target (-fsanitize=fuzzer).  Without it the program runs every file named on its
 * command line, or, with none, random damage to a valid file: fuzz_safetensors [rounds [seed]].
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_all(const Safetensors *s) {
  float x[16];
  for (size_t i = 0; i < s->count; i++) {
    const StTensor *t = &s->tensor[i];
    if (safetensors_find(s, t->name) != t) abort();
    if (t->end > t->begin && t->data[0] + t->data[t->end - t->begin - 1] == 1000) abort();
    if (st_type_is_float(t->type) && t->n)
      st_read(t, t->n > 16 ? t->n - 16 : 0, t->n > 16 ? 16 : t->n, x);
  }
  safetensors_metadata(s, "format");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[] = "/tmp/grpo-fuzz-XXXXXX";
  const int fd = mkstemp(path);
  Safetensors s;
  if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
  close(fd);
  if (safetensors_open(&s, path) == GRPO_OK) touch_all(&s);
  safetensors_close(&s);
  unlink(path);
  return 0;
}

#ifndef GRPO_LIBFUZZER
static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],"
    "\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
    "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[22,22]}}";

static size_t valid_file(uint8_t *out) {
  const size_t n = strlen(header);
  memset(out, 0, 8);
  out[0] = (uint8_t)n, out[1] = (uint8_t)(n >> 8);
  memcpy(out + 8, header, n);
  memset(out + 8 + n, 7, 22);
  return 8 + n + 22;
}

/* Bytes changed, digits changed to others, a piece doubled or cut. */
static size_t damage(uint8_t *b, size_t n, const RngKey *key) {
  uint64_t at = 0;
  const int changes = 1 + (int)(rng_u64(key, at++) % 4);
  for (int i = 0; i < changes; i++) {
    const size_t where = rng_u64(key, at++) % n;
    switch (rng_u64(key, at++) % 4) {
    case 0:
      b[where] = (uint8_t)rng_u64(key, at++);
      break;
    case 1:
      b[where] = (uint8_t)('0' + rng_u64(key, at++) % 10);
      break;
    case 2:
      n = where + 1;
      break;
    default:
      memmove(b + where + 8, b + where, n - where);
      n += 8;
    }
  }
  return n;
}

static int run_file(const char *path) {
  static uint8_t data[1 << 20];
  FILE *f = fopen(path, "rb");
  if (!f) return 1;
  const size_t n = fread(data, 1, sizeof data, f);
  fclose(f);
  return LLVMFuzzerTestOneInput(data, n);
}

int main(int argc, char **argv) {
  char *end = NULL;
  const long rounds = argc > 1 ? strtol(argv[1], &end, 10) : 20000;
  if (argc > 1 && *end) {
    for (int i = 1; i < argc; i++)
      if (run_file(argv[i])) return 1;
    return 0;
  }
  for (long i = 0; i < rounds; i++) {
    uint8_t b[1024];
    const RngKey key = {.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1,
                        .stream = RNG_USER,
                        .prompt = (uint32_t)i};
    const size_t n = valid_file(b);
    LLVMFuzzerTestOneInput(b, damage(b, n, &key));
  }
  printf("%ld damaged files\n", rounds);
  return 0;
}
#endif

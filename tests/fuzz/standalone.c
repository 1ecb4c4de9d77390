/* standalone.c - drives a fuzz target without libFuzzer.
 *
 *   fuzz_NAME ITERATIONS CRASH_FILE SEED_FILE...     mutated seeds, the same every time
 *   fuzz_NAME FILE                                   one input, to look at a crash
 *
 * An input that ends the process, or takes over ten seconds, is left in CRASH_FILE.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

enum { MAX_SEEDS = 256, MAX_SIZE = 1 << 16, TIME_LIMIT = 10 };

typedef struct Bytes {
  uint8_t *data;
  size_t size;
} Bytes;

static Bytes seeds[MAX_SEEDS];
static size_t nseeds;
static uint64_t state = 0x9e3779b97f4a7c15u;

static Bytes current; /* what the target is looking at */
static const char *crash_file;

static void keep_current(void) {
  const int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, current.data, current.size) < 0) return;
  close(fd);
}

static void on_signal(int number) {
  static const char text[] = "fuzz: aborted, crashed or out of time; the input is kept\n";
  keep_current();
  if (write(2, text, sizeof text - 1) < 0) _exit(2);
  signal(number, SIG_DFL);
  raise(number);
}

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void catch_deaths(void) {
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(keep_current);
#else
  signal(SIGSEGV, on_signal);
#endif
}

static uint64_t below(uint64_t n) { /* xorshift64*; n >= 1 */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return (state * 0x2545f4914f6cdd1du >> 11) % n;
}

static uint8_t interesting_byte(void) {
  static const uint8_t list[] = {0,   1,    0x7f, 0x80, 0xff, '"',  '\\', '{', '}',
                                 '[', ']',  ',',  ':',  '0',  '9',  '-',  '.', 'e',
                                 'u', '\n', ' ',  0xc3, 0xe2, 0xed, 0xf4, 0xbf};
  return below(3) ? list[below(sizeof list)] : (uint8_t)below(256);
}

/* Open a hole of n bytes at `at`, as far as there is room; returns its size. */
static size_t open_hole(Bytes *b, size_t at, size_t n) {
  if (n > MAX_SIZE - b->size) n = MAX_SIZE - b->size;
  memmove(b->data + at + n, b->data + at, b->size - at);
  b->size += n;
  return n;
}

static void insert_from(Bytes *b, const Bytes *other) {
  const size_t at = below(b->size + 1), from = below(other->size + 1);
  static uint8_t piece[MAX_SIZE];
  size_t n = below(other->size - from + 1);
  if (below(2) && n > 16) n = 16;
  memcpy(piece, other->data + from, n); /* `other` may be b itself */
  n = open_hole(b, at, n);
  memcpy(b->data + at, piece, n);
}

static void set_integer(Bytes *b) {
  static const uint64_t list[] = {0,
                                  1,
                                  0x7f,
                                  0xff,
                                  0x7fff,
                                  0xffff,
                                  0x7fffffff,
                                  0xffffffff,
                                  0x7fffffffffffffffu,
                                  0x8000000000000000u,
                                  0xffffffffffffffffu};
  const uint64_t v = list[below(sizeof list / sizeof *list)] + below(3) - 1;
  const size_t width = (size_t)1 << below(4);
  if (b->size >= width) memcpy(b->data + below(b->size - width + 1), &v, width);
}

static void mutate(Bytes *b) {
  const size_t at = b->size ? below(b->size) : 0;
  switch (b->size ? below(7) : 5) {
  case 0:
    b->data[at] ^= (uint8_t)(1u << below(8));
    break;
  case 1:
    b->data[at] = interesting_byte();
    break;
  case 2:
    set_integer(b);
    break;
  case 3: { /* remove a piece */
    const size_t n = below(below(2) ? b->size - at : 1) + 1;
    memmove(b->data + at, b->data + at + n, b->size - at - n);
    b->size -= n;
    break;
  }
  case 4:
    insert_from(b, b);
    break;
  case 5:
    insert_from(b, &seeds[below(nseeds)]);
    break;
  default:
    if (open_hole(b, at, 1)) b->data[at] = interesting_byte();
  }
}

static void run(const Bytes *input) {
  current = (Bytes){malloc(input->size ? input->size : 1), input->size};
  if (!current.data) return;
  memcpy(current.data, input->data, input->size);
  alarm(TIME_LIMIT);
  LLVMFuzzerTestOneInput(current.data, current.size);
  alarm(0);
  free(current.data);
}

static int load(const char *path) {
  Bytes b = {malloc(MAX_SIZE), 0};
  FILE *f = fopen(path, "rb");
  if (!f || !b.data || nseeds == MAX_SEEDS) {
    fprintf(stderr, "fuzz: cannot use %s\n", path);
    free(b.data);
    if (f) fclose(f);
    return 0;
  }
  b.size = fread(b.data, 1, MAX_SIZE, f);
  fclose(f);
  seeds[nseeds++] = b;
  return 1;
}

static int fuzz(long iterations) {
  Bytes b = {malloc(MAX_SIZE), 0};
  if (!b.data) return 1;
  for (size_t i = 0; i < nseeds; i++) run(&seeds[i]);
  for (long i = 0; i < iterations; i++) {
    const Bytes *seed = &seeds[below(nseeds)];
    memcpy(b.data, seed->data, b.size = seed->size);
    for (uint64_t k = (uint64_t)1 << below(6); k > 0; k--) mutate(&b);
    run(&b);
  }
  free(b.data);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2 && argc < 4) {
    fprintf(stderr, "usage: %s ITERATIONS CRASH_FILE SEED_FILE... | FILE\n", argv[0]);
    return 2;
  }
  for (int i = argc == 2 ? 1 : 3; i < argc; i++)
    if (!load(argv[i])) return 2;
  crash_file = argc == 2 ? "/dev/null" : argv[2];
  catch_deaths();
  if (argc == 2)
    run(&seeds[0]);
  else if (fuzz(strtol(argv[1], NULL, 10)))
    return 1;
  for (size_t i = 0; i < nseeds; i++) free(seeds[i].data);
  return 0;
}

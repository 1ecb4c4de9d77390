/* main.c - drives a fuzz target without libFuzzer.
 *
 *   fuzz_NAME (-n INPUTS | -t SECONDS) [-s SEED] [-d DICTIONARY] -o CRASH_FILE SEED_FILE...
 *   fuzz_NAME FILE                                   one input, to look at a crash
 *
 * Inputs are mutated seeds, the same ones for the same -s.  An input that ends the process, or
 * takes over ten seconds, is left in CRASH_FILE.  A dictionary is libFuzzer's: lines with "token",
 * where \xHH, \\ and \" stand for bytes.
 */
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum { MAX_SEEDS = 1024, MAX_WORDS = 512, MAX_SIZE = 1 << 16, TIME_LIMIT = 10 };

typedef struct Bytes {
  uint8_t *data;
  size_t size;
} Bytes;

static Bytes seeds[MAX_SEEDS], words[MAX_WORDS];
static size_t nseeds, nwords;
static uint64_t state = 0x9e3779b97f4a7c15u;

static Bytes current; /* what the target is looking at */
static const char *crash_file = "/dev/null";

/* ---- an input that must be kept ----------------------------------------------------------- */

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

/* ---- mutations ------------------------------------------------------------------------------ */

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

/* Put n bytes in the place of `old` bytes at `at`, as far as there is room. */
static void replace(Bytes *b, size_t at, size_t old, const void *with, size_t n) {
  static uint8_t piece[MAX_SIZE];
  if (n > MAX_SIZE - (b->size - old)) n = MAX_SIZE - (b->size - old);
  memcpy(piece, with, n); /* it may be part of b */
  memmove(b->data + at + n, b->data + at + old, b->size - at - old);
  memcpy(b->data + at, piece, n);
  b->size += n - old;
}

static void insert_from(Bytes *b, const Bytes *other) {
  const size_t at = below(b->size + 1), from = below(other->size + 1);
  size_t n = below(other->size - from + 1);
  if (below(2) && n > 16) n = 16;
  replace(b, at, 0, other->data + from, n);
}

static void put_tail(Bytes *b, const Bytes *other) { /* one's head, another's tail */
  const size_t at = below(b->size + 1), from = below(other->size + 1);
  replace(b, at, b->size - at, other->data + from, other->size - from);
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

/* Replaces a number that is written out by another one. */
static void set_number(Bytes *b) {
  static const char *const list[] = {"0",
                                     "1",
                                     "-1",
                                     "2",
                                     "3",
                                     "7",
                                     "255",
                                     "256",
                                     "65536",
                                     "2147483647",
                                     "2147483648",
                                     "1e9",
                                     "1e30",
                                     "0.5",
                                     "-0",
                                     "1e-9",
                                     "4096",
                                     "64",
                                     "1e400",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "4294967296",
                                     "999999999999999999999"};
  size_t at = below(b->size), end;
  while (at < b->size && !isdigit(b->data[at])) at++;
  for (end = at; end < b->size && isdigit(b->data[end]);) end++;
  const char *text = list[below(sizeof list / sizeof *list)];
  if (end > at) replace(b, at, end - at, text, strlen(text));
}

/* The end of the text in quotes, or of the brackets, that begin at `at`; at + 1 if none do. */
static size_t unit_end(const Bytes *b, size_t at) {
  size_t i = at + 1;
  int depth = 0;
  if (b->data[at] == '"') {
    while (i < b->size && b->data[i] != '"') i += b->data[i] == '\\' ? 2 : 1;
    return i < b->size ? i + 1 : b->size;
  }
  for (i = at; i < b->size; i++) {
    depth += strchr("{[(", b->data[i]) && b->data[i] ? 1 : 0;
    depth -= strchr("}])", b->data[i]) && b->data[i] ? 1 : 0;
    if (depth <= 0) return i + 1;
  }
  return b->size;
}

static size_t find_unit(const Bytes *b) {
  size_t at = below(b->size);
  while (at < b->size && !(b->data[at] && strchr("\"{[(", b->data[at]))) at++;
  return at;
}

/* Replaces a text in quotes or in brackets by another one, or removes it. */
static void swap_units(Bytes *b, const Bytes *other) {
  const size_t at = find_unit(b), from = other->size ? find_unit(other) : 0;
  if (at >= b->size || from >= other->size) return;
  const size_t n = below(8) ? unit_end(other, from) - from : 0;
  replace(b, at, unit_end(b, at) - at, other->data + from, n);
}

static void mutate_bytes(Bytes *b) {
  const size_t at = b->size ? below(b->size) : 0;
  const Bytes *other = &seeds[below(nseeds)];
  uint8_t byte = interesting_byte();
  switch (b->size ? below(14) : 5) {
  case 0:
    b->data[at] ^= (uint8_t)(1u << below(8));
    break;
  case 1:
    b->data[at] = byte;
    break;
  case 2:
    set_integer(b);
    break;
  case 3: /* remove a piece */
    replace(b, at, below(below(2) ? b->size - at : 1) + 1, "", 0);
    break;
  case 4:
    insert_from(b, b);
    break;
  case 5:
    insert_from(b, other);
    break;
  case 6:
    put_tail(b, other);
    break;
  case 7:
    set_number(b);
    break;
  case 8:
    swap_units(b, b);
    break;
  case 9:
    swap_units(b, other);
    break;
  case 10:
    if (!below(4)) b->size = at;
    break;
  case 11:
  case 12: /* a word, sometimes over what is there */
    if (nwords) {
      const Bytes *w = &words[below(nwords)];
      const size_t old = below(2) ? 0 : w->size < b->size - at ? w->size : b->size - at;
      replace(b, at, old, w->data, w->size);
      break;
    } /* fall through */
  default:
    replace(b, at, 0, &byte, 1);
  }
}

/* mutate.c calls it for inputs of formats that it does not know. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned seed); /* in mutate.c */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
  static uint8_t room[MAX_SIZE];
  Bytes b = {room, size};
  if (size) memcpy(room, data, size);
  mutate_bytes(&b);
  if (b.size > most) b.size = most;
  if (b.size) memcpy(data, room, b.size);
  return b.size;
}

static void mutate(Bytes *b) {
  b->size = LLVMFuzzerCustomMutator(b->data, b->size, MAX_SIZE, (unsigned)below(1u << 31));
}

/* ---- seeds and words ---------------------------------------------------------------------- */

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

/* The bytes of a line's "token", in its own memory; size 0: there is none. */
static Bytes word_of(char *line) {
  char *s = strchr(line, '"'), *out;
  if (*line == '#' || !s) return (Bytes){0};
  uint8_t *data = malloc(strlen(s) + 1);
  size_t n = 0;
  for (s++; data && *s && *s != '"'; s++) {
    if (*s != '\\') {
      data[n++] = (uint8_t)*s;
    } else if (s[1] == 'x' && isxdigit((unsigned char)s[2]) && isxdigit((unsigned char)s[3])) {
      char hex[3] = {s[2], s[3], 0};
      data[n++] = (uint8_t)strtol(hex, &out, 16);
      s += 3;
    } else if (s[1]) {
      data[n++] = (uint8_t) * ++s;
    }
  }
  return (Bytes){data, n};
}

static int load_words(const char *path) {
  char line[512];
  FILE *f = fopen(path, "r");
  if (!f) return fprintf(stderr, "fuzz: cannot use %s\n", path), 0;
  while (nwords < MAX_WORDS && fgets(line, sizeof line, f)) {
    Bytes w = word_of(line);
    if (w.size)
      words[nwords++] = w;
    else
      free(w.data);
  }
  fclose(f);
  return 1;
}

/* ---- running ------------------------------------------------------------------------------ */

static void run(const Bytes *input) {
  current = (Bytes){malloc(input->size ? input->size : 1), input->size};
  if (!current.data) return;
  memcpy(current.data, input->data, input->size);
  alarm(TIME_LIMIT);
  LLVMFuzzerTestOneInput(current.data, current.size);
  alarm(0);
  free(current.data);
}

static long fuzz(long inputs, long seconds) {
  const time_t end = time(NULL) + seconds;
  Bytes b = {malloc(MAX_SIZE), 0};
  long i = 0;
  if (!b.data) return 0;
  for (size_t k = 0; k < nseeds; k++) run(&seeds[k]);
  for (; inputs ? i < inputs : time(NULL) < end; i++) {
    const Bytes *seed = &seeds[below(nseeds)];
    memcpy(b.data, seed->data, b.size = seed->size);
    for (uint64_t k = (uint64_t)1 << below(6); k > 0; k--) mutate(&b);
    run(&b);
  }
  free(b.data);
  return i;
}

int main(int argc, char **argv) {
  long inputs = 0, seconds = 0;
  int option;
  while ((option = getopt(argc, argv, "n:t:s:d:o:")) != -1) {
    if (option == 'n') inputs = strtol(optarg, NULL, 10);
    if (option == 't') seconds = strtol(optarg, NULL, 10);
    if (option == 's') state ^= strtoull(optarg, NULL, 10) * 0xd1342543de82ef95u;
    if (option == 'o') crash_file = optarg;
    if (option == '?' || (option == 'd' && !load_words(optarg))) return 2;
  }
  for (int i = optind; i < argc; i++)
    if (!load(argv[i])) return 2;
  if (!nseeds) return fprintf(stderr, "fuzz: no seeds; main.c says how it is called\n"), 2;
  catch_deaths();
  if (inputs || seconds)
    printf("%ld inputs\n", fuzz(inputs, seconds));
  else
    for (size_t i = 0; i < nseeds; i++) run(&seeds[i]);
  for (size_t i = 0; i < nseeds; i++) free(seeds[i].data);
  for (size_t i = 0; i < nwords; i++) free(words[i].data);
  return 0;
}

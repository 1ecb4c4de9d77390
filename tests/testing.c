#include "testing.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_TESTS = 512, MAX_SHOWN = 8 };

static struct {
  const char *name;
  void (*fn)(void);
} tests[MAX_TESTS];
static int ntests, failures;
static const char *skipped;
static char tmp_dir[64];

void test_register(const char *name, void (*fn)(void)) {
  if (ntests == MAX_TESTS) {
    fprintf(stderr, "%s: more than %d tests in one program; raise MAX_TESTS\n", name, MAX_TESTS);
    exit(1);
  }
  tests[ntests].name = name, tests[ntests++].fn = fn;
}

void test_fail(const char *file, int line, const char *fmt, ...) {
  if (failures++ >= MAX_SHOWN) return;
  va_list ap;
  va_start(ap, fmt);
  printf("# %s:%d: ", file, line);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
}

void test_skip(const char *why) { skipped = why; }

const char *test_shared(void) {
  const char *dir = getenv("GRPO_SHARED");
  return dir && *dir ? dir : NULL;
}

const char *test_path(const char *fmt, ...) {
  static char ring[8][1024];
  static int next;
  char *s = ring[next++ % 8];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(s, sizeof ring[0], fmt, ap);
  va_end(ap);
  return s;
}

static bool readable(const char *path) { return access(path, R_OK) == 0; }

/* Some are kept beside the tests: tests/oracles/checkpoints.py makes them. */
static const char *kept_oracle(const char *name) {
  const char *dir = test_path("tests/cases/families/%s", name);
  return readable(test_path("%s/checkpoint", dir)) ? dir : NULL;
}

const char *test_oracle_path(const char *name, const char *file) {
  const char *kept = kept_oracle(name);
  if (kept) return test_path("%s/%s", kept, file);
  const char *older = test_path("%s/oracles/models/%s", test_shared(), name);
  const char *dir =
      readable(older) ? older : test_path("%s/oracles/models2/%s", test_shared(), name);
  return test_path("%s/%s", dir, file);
}

static const char *missing_weights(const char *name) {
  static char path[4096];
  const char *dir = test_oracle_path(name, "checkpoint");
  int shards = 0;
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
  if (readable(path)) return NULL;
  for (int n = 1; n < 10 && !shards; n++)
    if (readable(test_path("%s/model-00001-of-%05d.safetensors", dir, n))) shards = n;
  for (int i = 1; i <= shards; i++) {
    snprintf(path, sizeof path, "%s/model-%05d-of-%05d.safetensors", dir, i, shards);
    if (!readable(path)) return path;
  }
  return shards ? NULL : path;
}

bool test_oracle(const char *name) {
  static char why[4200];
  if (!test_shared() && !kept_oracle(name)) {
    test_skip("GRPO_SHARED is not set: no oracles");
    return false;
  }
  const char *path = missing_weights(name);
  if (!path) return true;
  snprintf(why, sizeof why, "the oracle is incomplete: %s is missing", path);
  test_skip(why);
  return false;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(path);
}
static void remove_tmp(void) { nftw(tmp_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

const char *test_tmp(void) {
  if (!*tmp_dir) {
    strcpy(tmp_dir, "/tmp/grpo-test-XXXXXX");
    if (!mkdtemp(tmp_dir)) abort();
    atexit(remove_tmp);
  }
  return tmp_dir;
}

static bool wanted(const char *name, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strstr(name, argv[i])) return true;
  return argc < 2;
}

int main(int argc, char **argv) {
  int bad = 0, n = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 0; i < ntests; i++) {
    if (!wanted(tests[i].name, argc, argv)) continue;
    failures = 0;
    skipped = NULL;
    tests[i].fn();
    printf("%s %d - %s", failures ? "not ok" : "ok", ++n, tests[i].name);
    printf(skipped && !failures ? " # SKIP %s\n" : "\n", skipped);
    bad += failures > 0;
  }
  printf("1..%d\n", n);
  return bad > 0;
}

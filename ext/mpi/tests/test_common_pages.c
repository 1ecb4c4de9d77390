/* Blocks of equal bytes are held once, stay what they are, and are written apart. */
#include "mpi/common_pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "status.h"
#include "testing.h"

enum { BYTES = 9 << 20, SMALL = 4096 };

static void fill(unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(i * 7 + i / 4096);
}

static bool is_filled(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != (unsigned char)(i * 7 + i / 4096)) return false;
  return true;
}

/* KiB of a block's pages that are this process's own. */
static long private_kib(const void *block) {
  char line[256];
  unsigned long from, end;
  long kib = 0, sum = 0;
  bool inside = false;
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%lx-%lx ", &from, &end) == 2)
      inside = (uintptr_t)block < end && (uintptr_t)block + BYTES > from;
    else if (inside && (sscanf(line, "Private_Dirty: %ld", &kib) == 1 ||
                        sscanf(line, "Private_Clean: %ld", &kib) == 1))
      sum += kib;
  }
  if (f) fclose(f);
  return sum;
}

/* The other process: it takes what is the same, and writes into its own. */
static int take(const CommonFile *theirs, unsigned char *first, unsigned char *other, int done) {
  CommonFile mine;
  size_t common = 0;
  if (common_open(&mine, theirs)) return 1;
  if (common_take(&mine, first, BYTES, &common) || common != BYTES) return 2;
  if (common_take(&mine, other, SMALL, &common) || common != BYTES) return 3;
  if (common_take(&mine, other, BYTES, &common) || common != BYTES) return 4;
  common_close(&mine);
  if (!is_filled(first, BYTES) || other[5] != 1) return 5;
  if (private_kib(first) > BYTES / 1024 / 2) return 6;
  memset(first, 9, BYTES);
  return write(done, "x", 1) == 1 ? 0 : 7;
}

static void start_other(const CommonFile *f, int *done, pid_t *pid) {
  int ends[2];
  REQUIRE(pipe(ends) ? GRPO_EIO : GRPO_OK);
  *done = ends[0];
  *pid = fork();
  if (*pid) {
    close(ends[1]);
    return;
  }
  unsigned char *first = mem_alloc_aligned(BYTES), *other = mem_alloc_aligned(BYTES);
  fill(first, BYTES);
  memset(other, 1, BYTES);
  _exit(take(f, first, other, ends[1]));
}

TEST(equal_blocks_are_held_once_and_written_apart) {
  unsigned char *first = mem_alloc_aligned(BYTES), *second = mem_alloc_aligned(BYTES);
  CommonFile f;
  pid_t pid = -1;
  char byte;
  int done = -1, status = -1;
  fill(first, BYTES);
  memset(second, 2, BYTES);
  if (common_create(&f)) return; /* this system has no such files */
  OK(common_put(&f, first, BYTES));
  OK(common_put(&f, second, SMALL));
  OK(common_put(&f, second, BYTES));
  CHECK(is_filled(first, BYTES) && second[BYTES - 1] == 2);
  f.at = 0;
  start_other(&f, &done, &pid);
  CHECK(read(done, &byte, 1) == 1);
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(is_filled(first, BYTES));
  first[3] = 77; /* the owner may write too */
  CHECK(first[3] == 77);
  close(done);
  common_close(&f);
  mem_free_aligned(first);
  mem_free_aligned(second);
}

TEST(a_file_that_is_not_there_is_an_error) {
  CommonFile f, gone = {.pid = (int32_t)getpid(), .fd = 987};
  REFUSED(common_open(&f, &gone), GRPO_EIO, "common memory");
}

#include "mpi/common_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/progress.h"

enum { PIECE = 1 << 24 }; /* so much is in memory twice */

static Status failed(const char *what) {
  return fail(errno == ENOMEM ? GRPO_ENOMEM : GRPO_EIO, "common memory: %s: %s", what,
              strerror(errno));
}

Status common_create(CommonFile *f) {
  *f = (CommonFile){.pid = (int32_t)getpid(), .fd = memfd_create("grpo", MFD_CLOEXEC)};
  return f->fd < 0 ? failed("no file") : GRPO_OK;
}

Status common_open(CommonFile *mine, const CommonFile *theirs) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)theirs->pid, (int)theirs->fd);
  *mine = (CommonFile){.pid = (int32_t)getpid(), .fd = open(path, O_RDONLY | O_CLOEXEC)};
  return mine->fd < 0 ? failed(path) : GRPO_OK;
}

void common_close(CommonFile *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
}

/* Whole pages of a block: all of a large one, which begins with a page. */
static size_t usable(const void *block, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (bytes < COMMON_LEAST || (uintptr_t)block % page) return 0;
  return bytes / page * page;
}

static Status write_all(int fd, const char *data, size_t n, uint64_t at) {
  while (n) {
    const ssize_t k = pwrite(fd, data, n, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return failed("writing");
    data += k;
    n -= (size_t)k;
    at += (uint64_t)k;
  }
  return GRPO_OK;
}

/* Puts the pages of the file in the place of memory that holds the same. */
static Status replace(const CommonFile *f, char *data, size_t n, uint64_t at) {
  void *p = mmap(data, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, f->fd, (off_t)at);
  return p == MAP_FAILED ? failed("mapping") : GRPO_OK;
}

Status common_put(CommonFile *f, void *block, size_t bytes) {
  const size_t all = usable(block, bytes);
  char *data = block;
  for (size_t at = 0; at < all; at += PIECE) {
    const size_t n = all - at < PIECE ? all - at : PIECE;
    try(write_all(f->fd, data + at, n, f->at + at));
    try(replace(f, data + at, n, f->at + at));
    progress_note();
  }
  f->at += all;
  return GRPO_OK;
}

Status common_take(CommonFile *f, void *block, size_t bytes, size_t *common) {
  const size_t all = usable(block, bytes);
  char *data = block;
  for (size_t at = 0; at < all; at += PIECE) {
    const size_t n = all - at < PIECE ? all - at : PIECE;
    void *theirs = mmap(NULL, n, PROT_READ, MAP_SHARED, f->fd, (off_t)(f->at + at));
    if (theirs == MAP_FAILED) return failed("mapping");
    const bool same = memcmp(theirs, data + at, n) == 0;
    munmap(theirs, n);
    if (same) try(replace(f, data + at, n, f->at + at));
    if (same) *common += n;
    progress_note();
  }
  f->at += all;
  return GRPO_OK;
}

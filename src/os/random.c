#include "os/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

Status random_bytes(void *out, size_t n) {
  char *at = out;
  while (n) {
    const ssize_t got = getrandom(at, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(GRPO_EIO, "random bytes: %s", strerror(errno));
    at += got;
    n -= (size_t)got;
  }
  return GRPO_OK;
}

#include "jail/jail_task.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Is every part of the path between slashes a name? */
static bool has_plain_parts(const char *path) {
  for (;;) {
    const size_t n = strcspn(path, "/");
    if (n == 0 || n > 255 || !strncmp(path, ".", n) || (n == 2 && !strncmp(path, "..", n)))
      return false;
    if (!path[n]) return true;
    path += n + 1;
  }
}

Status jail_check_task(const JailTask *t) {
  enum { READABLE = 32, PATH_SIZE = 2048 };
  int n = 0;
  if (!t->command || !t->command[0] || !t->command[0][0])
    return fail(GRPO_EARG, "jail: the command is empty");
  for (const char *const *p = t->readable; p && *p; p++) {
    struct stat st;
    if (**p != '/' || strlen(*p) >= PATH_SIZE || !has_plain_parts(*p + 1))
      return fail(GRPO_EARG,
                  "jail: cannot let code read '%s'; want an absolute path below /, "
                  "without . and ..",
                  *p);
    if (stat(*p, &st))
      return fail(GRPO_EARG, "jail: cannot let code read '%s': %s", *p, strerror(errno));
    if (++n > READABLE) return fail(GRPO_EARG, "jail: more than %d paths to read", READABLE);
  }
  for (int i = 0; i < t->num_files; i++)
    if (strlen(t->files[i].name) >= PATH_SIZE || !has_plain_parts(t->files[i].name))
      return fail(GRPO_EARG,
                  "jail: a file cannot be named '%s'; want a relative path without . "
                  "and ..",
                  t->files[i].name);
  return GRPO_OK;
}

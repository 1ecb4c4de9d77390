#include "os/holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor of the process, which keeps its number from being used again; -1 with errno. */
static int open_process(int pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, pid, 0);
#else
  return errno = ENOSYS, (void)pid, -1;
#endif
}

static int send_signal(int process, int pid, int number) {
#ifdef SYS_pidfd_send_signal
  if (process >= 0) return (int)syscall(SYS_pidfd_send_signal, process, number, NULL, 0);
#endif
  (void)process;
  return kill(pid, number);
}

/* *yes: does one of the process's descriptors lead to the file? */
static Status has_open(int pid, const char *path, bool *yes) {
  char name[64];
  struct stat want, st;
  const struct dirent *entry;
  *yes = false;
  if (stat(path, &want) != 0) return fail(GRPO_EIO, "%s: %s", path, strerror(errno));
  snprintf(name, sizeof name, "/proc/%d/fd", pid);
  DIR *dir = opendir(name);
  if (!dir && errno == ENOENT) return GRPO_OK;
  if (!dir) return fail(GRPO_EIO, "%s: %s", name, strerror(errno));
  while (!*yes && (entry = readdir(dir)))
    *yes = *entry->d_name != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
           st.st_dev == want.st_dev && st.st_ino == want.st_ino;
  closedir(dir);
  return GRPO_OK;
}

static Status signal_opened(int process, int pid, int number, const char *path) {
  bool yes;
  try(has_open(pid, path, &yes));
  if (!yes) return fail(GRPO_ENOENT, "process %d does not have %s open", pid, path);
  if (send_signal(process, pid, number) == 0) return GRPO_OK;
  return fail(errno == ESRCH ? GRPO_ENOENT : GRPO_EIO, "process %d: %s", pid, strerror(errno));
}

Status holder_signal(int pid, int number, const char *path) {
  const int process = open_process(pid);
  if (process < 0 && errno == ESRCH) return fail(GRPO_ENOENT, "there is no process %d", pid);
  const Status s = signal_opened(process, pid, number, path);
  if (process >= 0) close(process);
  return s;
}

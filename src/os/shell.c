#include "os/shell.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static bool is_handled(int sig) {
  struct sigaction a;
  return sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN;
}

/* The shell gets handled signals as they are by default, and SIGQUIT too if `quits`. */
static int start(pid_t *pid, const char *command, bool quits) {
  char *const argv[] = {"sh", "-c", (char *)command, NULL};
  posix_spawnattr_t attributes;
  sigset_t defaults;
  int error = posix_spawnattr_init(&attributes);
  if (error) return error;
  sigemptyset(&defaults);
  if (quits) sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  error = posix_spawn(pid, "/bin/sh", NULL, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

static int ended(pid_t pid) {
  int status = -1;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

int shell_run(const char *command) {
  struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
  pid_t pid;
  if (!is_handled(SIGINT)) return system(command);
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGQUIT, &ignore, &before); /* it is the command's alone, as with system */
  const int error = start(&pid, command, before.sa_handler != SIG_IGN);
  const int status = error ? -1 : ended(pid);
  const int problem = error ? error : errno;
  sigaction(SIGQUIT, &before, NULL);
  errno = status == -1 ? problem : 0; /* as luaL_execresult wants it */
  return status;
}

/* jail_task.h - what runs in a jail (jail.h), and within which limits. */
#ifndef GRPO_EXT_JAIL_JAIL_TASK_H
#define GRPO_EXT_JAIL_JAIL_TASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define JAIL_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

typedef struct JailFile {
  const char *name; /* "main.py", "tests/1.txt": below the directory in which the command begins */
  const char *data;
  size_t size;
} JailFile;

/* Lists of strings end with NULL. */
typedef struct JailTask {
  const char *const *command;  /* a name without '/' is sought in JAIL_PATH */
  const char *const *env;      /* "NAME=value"; the command has no other variables */
  const char *const *readable; /* absolute paths of more files and directories that it may read */
  const JailFile *files;
  int num_files;
  const char *input; /* its standard input */
  size_t input_size;
  double cpu_seconds;  /* processor time of all its processes; decides, so that load does not */
  double wall_seconds; /* ends a command that waits */
  size_t memory;       /* bytes of address space of each process */
  size_t disk;         /* bytes that it may write into files, all together */
  size_t output;       /* bytes of each of its standard output and standard error */
  int processes;       /* the most processes and threads at once */
  bool probe;          /* makes the jail and finds the command, but does not run it */
} JailTask;

/* EARG: the command is empty, a file cannot have its name, or a path of `readable` is not absolute
 * or not there. */
Status jail_check_task(const JailTask *t);

#endif

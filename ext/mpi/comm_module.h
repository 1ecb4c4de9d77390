/* comm_module.h - what a library gives that connects processes: libgrpo-openmpi.so and
 * libgrpo-mpich.so (module/mpi_module.c).  ranks.c loads it; nothing else sees it.
 */
#ifndef GRPO_OS_COMM_MODULE_H
#define GRPO_OS_COMM_MODULE_H

#include <stddef.h>

enum { COMM_MODULE_VERSION = 2 };

/* Functions return 0, or something else after a failure, which is final.  Any number of bytes. */
typedef struct CommModule {
  int version; /* COMM_MODULE_VERSION */
  int (*start)(int *rank, int *size);
  int (*barrier)(void);
  int (*broadcast)(int from, void *data, size_t bytes);
  /* Rank r has filled data[at[r] .. at[r + 1]); afterwards every rank has data[0 .. at[size]). */
  int (*share)(void *data, const size_t *at);
  /* See comm_exchange(). */
  int (*exchange)(const void *to, const size_t *to_at, void *from, const size_t *from_at);
  int (*send)(int to, const void *data, size_t bytes);
  int (*receive)(int from, void *data, size_t bytes);
  void (*finish)(void);
  void (*abort)(int status); /* ends all processes */
} CommModule;

#define COMM_MODULE_SYMBOL "grpo_comm_module" /* const CommModule *grpo_comm_module(void) */

#endif

/* common_pages.h - equal bytes in the memory of several processes of a machine, held once.
 *
 * One process puts blocks of its memory into a file without a name, whose pages take the place of
 * the blocks' own.  Another, which has blocks with the same bytes, compares and then takes them
 * from there too.  A block keeps its address and its owner.  Whoever writes to such a page gets a
 * copy of its own, so no process sees what another writes.  The file is gone with the last process
 * that uses it, however it ends.
 */
#ifndef GRPO_OS_COMMON_PAGES_H
#define GRPO_OS_COMMON_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { COMMON_LEAST = 1 << 21 }; /* smaller blocks are left alone */

typedef struct CommonFile {
  int32_t pid, fd; /* of the process that has made it */
  uint64_t at;     /* where the next block goes, or is */
} CommonFile;

/* EIO: the system has no such files. */
Status common_create(CommonFile *f);
/* Opens the file of another process, from its first block.  EIO: it cannot be reached. */
Status common_open(CommonFile *mine, const CommonFile *theirs);
void common_close(CommonFile *f); /* blocks stay common */
/* The block is of mem_alloc_aligned().  EIO, ENOMEM: a part of it stays as it was. */
Status common_put(CommonFile *f, void *block, size_t bytes);
/* Adds to *common the bytes that are held once now; those that differ are not. */
Status common_take(CommonFile *f, void *block, size_t bytes, size_t *common);

#endif

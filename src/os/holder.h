/* holder.h - signals to a process that is known by a file that it has open, such as its lock. */
#ifndef GRPO_OS_HOLDER_H
#define GRPO_OS_HOLDER_H

#include "base/err.h"

/* Sends the signal if process `pid` has the file `path` open, and to no other process that might
 * get its number meanwhile.  ENOENT: there is no such process, or it does not have the file open.
 * EIO: that cannot be found out, or the signal cannot be sent. */
Status holder_signal(int pid, int number, const char *path);

#endif

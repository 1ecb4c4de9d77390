/* jail_filter.h - the system calls that a jail refuses (seccomp). */
#ifndef GRPO_EXT_JAIL_JAIL_FILTER_H
#define GRPO_EXT_JAIL_JAIL_FILTER_H

#include <stddef.h>

/* With this program a process and its children get EPERM from calls that reach the kernel's rarer
 * parts, hold memory that no limit counts, make namespaces, or look into other processes, and
 * sockets other than Unix, IPv4 and IPv6 do not exist.  Returns its size in bytes, as
 * `bwrap --seccomp` reads it. */
size_t jail_filter(const void **program);

#endif

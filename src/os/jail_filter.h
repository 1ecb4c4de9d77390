/* jail_filter.h - the system calls that a jail refuses (seccomp). */
#ifndef GRPO_OS_JAIL_FILTER_H
#define GRPO_OS_JAIL_FILTER_H

/* From now on this process and its children get EPERM from calls that reach the kernel's rarer
 * parts, hold memory that no limit counts, make namespaces, or look into other processes, and
 * sockets other than Unix, IPv4 and IPv6 do not exist.  Makes system calls only.  Returns 0, or -1
 * with errno; no_new_privs must be set. */
int jail_filter(void);

#endif

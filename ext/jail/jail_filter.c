#include "jail/jail_filter.h"

#ifdef __linux__
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* Calls from 424 on have one number on all machines, and older headers do not name them. */
static const unsigned short refused[] = {
    /* into other processes */
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, 438 /* pidfd_getfd */,
    /* namespaces and mounts */
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, 428 /* open_tree */,
    429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */, 433 /* fspick */,
    442 /* mount_setattr */, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_quotactl,
    443 /* quotactl_fd */, SYS_swapon, SYS_swapoff,
    /* memory that outlives a mapping */
    SYS_shmget, SYS_semget, SYS_msgget, SYS_mq_open, SYS_memfd_create, 447 /* memfd_secret */,
    /* rare parts of the kernel */
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, 425 /* io_uring_setup */,
    426 /* io_uring_enter */, 427 /* io_uring_register */, SYS_add_key, SYS_request_key, SYS_keyctl,
    SYS_syslog, SYS_acct, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_fanotify_init, SYS_personality, SYS_vhangup};

enum {
  NUM_REFUSED = sizeof refused / sizeof *refused,
  NEW_NAMESPACES = 0x7E020000, /* CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET */
  CALL_clone3 = 435
};

#define FIELD(name)              (unsigned)offsetof(struct seccomp_data, name)
#define LOAD(name)               BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(name))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define IF_ANY(bits, yes, no)    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))
#define ALLOW                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(error)            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

size_t jail_filter(const void **program) {
  /* Arguments are 64 bits; on these machines (little-endian) the low half comes first. */
  static const struct sock_filter head[] = {
#ifdef OWN_ARCH /* on another architecture these numbers mean other calls */
      LOAD(arch), IF_EQUAL(OWN_ARCH, 1, 0), REFUSE(EPERM),
#endif
      LOAD(nr),
#ifdef __x86_64__
      IF_ANY(0x40000000, 0, 1), REFUSE(EPERM), /* the numbers of x32 */
#endif
      /* its flags are in memory, where a filter cannot look; C libraries take clone instead */
      IF_EQUAL(CALL_clone3, 0, 1), REFUSE(ENOSYS), IF_EQUAL(SYS_clone, 0, 4), LOAD(args[0]),
      IF_ANY(NEW_NAMESPACES, 0, 1), REFUSE(EPERM), ALLOW, IF_EQUAL(SYS_socket, 0, 6), LOAD(args[0]),
      IF_EQUAL(AF_UNIX, 3, 0), IF_EQUAL(AF_INET, 2, 0), IF_EQUAL(AF_INET6, 1, 0),
      REFUSE(EAFNOSUPPORT), ALLOW};
  enum { HEAD = sizeof head / sizeof *head };
  static struct sock_filter rules[HEAD + 2 * NUM_REFUSED + 1];
  unsigned short n = 0;
  for (int i = 0; i < HEAD; i++) rules[n++] = head[i];
  for (int i = 0; i < NUM_REFUSED; i++) {
    rules[n++] = (struct sock_filter)IF_EQUAL(refused[i], 0, 1);
    rules[n++] = (struct sock_filter)REFUSE(EPERM);
  }
  rules[n++] = (struct sock_filter)ALLOW;
  *program = rules;
  return n * sizeof *rules;
}
#endif

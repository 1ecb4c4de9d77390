/* windows.h - what tools/check-foreign puts in place of POSIX when it compiles grpo with mingw-w64,
 * so that tests of the lower layers can be run.  It is a measure of what is missing, and no port:
 * links, signals, processes and removing trees fail. */
#ifndef GRPO_TOOLS_WINDOWS_H
#define GRPO_TOOLS_WINDOWS_H

#define _POSIX 1 /* mingw's name for sigset_t */
#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- of kernel32, without windows.h, whose macros are words of ours ---- */
typedef struct Overlapped {
  uintptr_t internal[2];
  uint32_t low, high;
  void *event;
} Overlapped;
void *VirtualAlloc(void *at, size_t bytes, unsigned long kind, unsigned long protection);
int VirtualFree(void *at, size_t bytes, unsigned long kind);
void *LoadLibraryA(const char *name);
void *GetModuleHandleA(const char *name);
void *GetProcAddress(void *library, const char *name);
int FreeLibrary(void *library);
int ReadFile(void *file, void *out, unsigned long n, unsigned long *got, Overlapped *o);
int MoveFileExA(const char *from, const char *to, unsigned long flags);
unsigned long GetActiveProcessorCount(unsigned short group);
int WaitOnAddress(volatile void *word, void *value, size_t size, unsigned long ms);
void WakeByAddressAll(void *word);
static inline int strerror_r(int error, char *text, size_t room) {
  return strerror_s(text, room, error);
}
static inline int without(void) { return errno = ENOSYS, -1; }

/* ---- memory: mem.c asks the allocator for the size of a block ---- */
#ifdef GRPO_WINDOWS_MEM
typedef struct Block {
  void *all;
  size_t bytes;
} Block;
static inline Block *block_of(void *p) { return (Block *)p - 1; }
static inline void *block_new(size_t align, size_t n) {
  char *all = n < SIZE_MAX - 2 * align - sizeof(Block) ? malloc(n + align + sizeof(Block)) : NULL;
  if (!all) return NULL;
  void *p = (void *)(((uintptr_t)all + sizeof(Block) + align - 1) / align * align);
  *block_of(p) = (Block){all, n};
  return p;
}
static inline void block_free(void *p) {
  if (p) free(block_of(p)->all);
}
static inline void *block_zero(size_t n) {
  void *p = block_new(16, n);
  return p ? memset(p, 0, n) : NULL;
}
static inline void *block_resize(void *p, size_t n) {
  void *q = block_new(16, n);
  if (q && p) memcpy(q, p, block_of(p)->bytes < n ? block_of(p)->bytes : n), block_free(p);
  return q;
}
#define malloc(n)             block_new(16, n)
#define calloc(a, b)          block_zero((a) * (b))
#define realloc               block_resize
#define free                  block_free
#define aligned_alloc         block_new
#define malloc_usable_size(p) (block_of(p)->bytes)
#endif
enum { MAP_PRIVATE, MAP_ANONYMOUS = 0, MAP_NORESERVE = 0, PROT_READ = 0, PROT_WRITE = 0 };
#define MAP_FAILED                              NULL
#define mmap(at, n, protection, flags, fd, off) VirtualAlloc(at, n, 0x3000, 4)
#define munmap(at, n)                           VirtualFree(at, 0, 0x8000)
struct rusage {
  long ru_maxrss;
};
enum { RUSAGE_SELF };
#define getrusage(who, u) ((u)->ru_maxrss = 0, 0)

/* ---- threads ---- */
enum { FUTEX_WAIT, FUTEX_WAKE, FUTEX_PRIVATE_FLAG = 0, SYS_futex = 0 };
static inline long syscall(long number, volatile void *word, int op, unsigned value, ...) {
  (void)number;
  if (op == FUTEX_WAIT) return WaitOnAddress(word, &value, sizeof value, ~0UL);
  return WakeByAddressAll((void *)word), 0;
}
typedef int cpu_set_t;
#define sched_getaffinity(pid, size, set) (*(set) = 0, -1)
#define CPU_COUNT(set)                    (*(set))
#define _SC_NPROCESSORS_ONLN              0
#define sysconf(what)                     ((long)GetActiveProcessorCount(0xffff))
#define sigfillset(set)                   (*(set) = 0)
#define pthread_sigmask(how, set, before) ((void)(set), (void)(before), 0)

/* ---- libraries ---- */
enum { RTLD_LAZY, RTLD_NOW = 0, RTLD_LOCAL = 0, RTLD_GLOBAL = 0, RTLD_NOLOAD = 1 };
#define dlopen(name, mode)                                                                         \
  ((name) ? (mode)&1 ? GetModuleHandleA(name) : LoadLibraryA(name) : GetModuleHandleA(NULL))
#define dlsym   GetProcAddress
#define dlclose FreeLibrary

/* ---- files ---- */
#define O_CLOEXEC            _O_NOINHERIT
#define O_NONBLOCK           0
#define O_DIRECTORY          0
#define O_NOFOLLOW           0
#define S_ISLNK(mode)        0
#define S_ISSOCK(mode)       0
#define mkdir(path, mode)    _mkdir(path)
#define fsync                _commit
#define fchmod(fd, mode)     0
#define rename(from, to)     (MoveFileExA(from, to, 1) ? 0 : (errno = EACCES, -1))
#define symlink(to, at)      without()
#define readlink(at, out, n) without()
#define lstat                stat
enum { AT_FDCWD, AT_REMOVEDIR };
#define unlinkat(at, name, flags) without()
#define openat(at, name, flags)   without()
#define fdopendir(fd)             (errno = ENOSYS, NULL)
#define dirfd(dir)                without()
struct posix_stat {
  unsigned st_mode;
  int64_t st_size;
  uint64_t st_dev, st_ino;
  struct timespec st_mtim;
};
static inline int posix_stat_of(int rc, const struct _stat64 *from, struct posix_stat *out) {
  *out = (struct posix_stat){
      from->st_mode, from->st_size, from->st_dev, from->st_ino, {from->st_mtime, 0}};
  return rc;
}
static inline int posix_stat(const char *path, struct posix_stat *out) {
  struct _stat64 s = {0};
  const int rc = _stat64(path, &s);
  return posix_stat_of(rc, &s, out);
}
static inline int posix_fstat(int fd, struct posix_stat *out) {
  struct _stat64 s = {0};
  const int rc = _fstat64(fd, &s);
  return posix_stat_of(rc, &s, out);
}
#undef stat
#undef fstat
#define stat  posix_stat
#define fstat posix_fstat
static inline ssize_t pread(int fd, void *out, size_t n, int64_t at) {
  Overlapped o = {.low = (uint32_t)at, .high = (uint32_t)((uint64_t)at >> 32)};
  unsigned long got = 0;
  if (!ReadFile((void *)_get_osfhandle(fd), out, (unsigned long)(n < 1 << 30 ? n : 1 << 30), &got,
                &o))
    return 0;
  return (ssize_t)got;
}

/* ---- texts ---- */
static inline void *memmem(const void *in, size_t n, const void *what, size_t len) {
  for (const char *p = in; n >= len; p++, n--)
    if (!memcmp(p, what, len)) return (void *)p;
  return NULL;
}
typedef int locale_t;
enum { LC_ALL_MASK };
#define newlocale(mask, name, base) ((void *)1)
#define uselocale(l)                ((void *)1)
#define setenv(name, value, over)   _putenv_s(name, value)
#define unsetenv(name)              _putenv_s(name, "")
#define mkdtemp(path)               (_mktemp(path) && !_mkdir(path) ? (path) : NULL)
struct FTW {
  int base, level;
};
enum { FTW_DEPTH, FTW_PHYS = 0 };
#define nftw(path, each, most, flags) ((void)(each), 0)

#endif

/* The part of dlfcn.h that the program uses: in a browser there is no library to load. */
#ifndef GRPO_WEB_DLFCN_H
#define GRPO_WEB_DLFCN_H

#include <stddef.h>

enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_NOLOAD = 4, RTLD_GLOBAL = 256, RTLD_LOCAL = 0 };

typedef struct Dl_info {
  const char *dli_fname;
} Dl_info;

static inline void *dlopen(const char *path, int mode) {
  (void)path;
  (void)mode;
  return NULL;
}
static inline void *dlsym(void *library, const char *name) {
  (void)library;
  (void)name;
  return NULL;
}
static inline int dlclose(void *library) {
  (void)library;
  return -1;
}
static inline int dladdr(const void *address, Dl_info *out) {
  (void)address;
  (void)out;
  return 0;
}

#endif

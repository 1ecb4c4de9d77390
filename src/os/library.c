#include "os/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* ISO C converts no object pointer to a function pointer. */
static bool find(void *from, const LibrarySymbol *symbol) {
  void *address = dlsym(from, symbol->name);
  memcpy(symbol->to, &address, sizeof address);
  return address != NULL;
}

static bool find_all(Library *lib, void *from) {
  for (size_t i = 0; i < lib->count; i++) {
    if (find(from, &lib->symbols[i])) continue;
    lib->lacking = lib->symbols[i].name;
    return false;
  }
  return true;
}

static void load(Library *lib) {
  const size_t most = sizeof lib->sonames / sizeof lib->sonames[0];
  lib->state = LIBRARY_ABSENT;
  for (size_t i = 0; i < most && lib->sonames[i]; i++) {
    void *from = dlopen(lib->sonames[i], RTLD_NOW | RTLD_LOCAL);
    if (!from) continue;
    lib->found = lib->sonames[i];
    lib->state = find_all(lib, from) ? LIBRARY_LOADED : LIBRARY_UNFIT;
    if (lib->state == LIBRARY_LOADED) return;
    dlclose(from);
  }
}

bool library_available(Library *lib) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (lib->state == LIBRARY_UNTRIED) load(lib);
  const bool loaded = lib->state == LIBRARY_LOADED;
  pthread_mutex_unlock(&lock);
  return loaded;
}

Status library_need(Library *lib, const char *purpose) {
  if (library_available(lib)) return GRPO_OK;
  if (!dlopen(NULL, RTLD_LAZY)) /* a static program of musl cannot even open itself */
    return fail(GRPO_EARG,
                "%s cannot be loaded, because this program is linked statically, so %s; take a "
                "program that was made without -static",
                lib->sonames[0], purpose);
  if (lib->state == LIBRARY_UNFIT)
    return fail(GRPO_EARG, "%s on this machine does not have %s, so %s; install a newer %s",
                lib->found, lib->lacking, purpose, lib->package);
  return fail(GRPO_EARG, "%s is not on this machine, so %s; install %s", lib->sonames[0], purpose,
              lib->package);
}

/* library.h - libraries that grpo can do without.
 *
 * A file that uses one describes it once, in a static Library: under which sonames it is looked
 * for, which symbols are needed, which package brings it.  It is loaded when it is first asked
 * for, and stays loaded.  Only its header must be there when grpo is built.
 */
#ifndef GRPO_OS_LIBRARY_H
#define GRPO_OS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* `to` is the address of a function pointer (or of a pointer to a variable) of the right type. */
typedef struct LibrarySymbol {
  const char *name;
  void *to;
} LibrarySymbol;

typedef struct Library {
  const char *package;          /* the name to install it by: "libyaml" */
  const char *sonames[4];       /* tried in this order; NULL after the last */
  const LibrarySymbol *symbols; /* all of them must be there, in one soname's library */
  size_t count;                 /* of symbols */
  enum { LIBRARY_UNTRIED, LIBRARY_LOADED, LIBRARY_ABSENT, LIBRARY_UNFIT } state;
  const char *found;   /* LOADED, UNFIT: the soname */
  const char *lacking; /* UNFIT: the symbol that it does not have */
} Library;

/* May be called from any thread.  Symbols may be called once it has returned true. */
bool library_available(Library *lib);
/* EARG: "libyaml-0.so.2 is not on this machine, so PURPOSE; install libyaml".  A purpose is a
 * sentence without a full stop: "YAML is not read". */
Status library_need(Library *lib, const char *purpose);

#endif

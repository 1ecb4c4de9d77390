#include "os/locale.h"

#include <locale.h>
#include <stddef.h>

LocaleMark locale_switch(LocaleMark to) { return to ? (LocaleMark)uselocale((locale_t)to) : NULL; }

/* glibc's C locale is a constant: getting it takes no memory. */
LocaleMark locale_enter(void) {
  return locale_switch((LocaleMark)newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

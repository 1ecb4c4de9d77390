/* embedded.h - the Lua half and the shipped configurations, which are part of the binary.
 * tools/embed.c writes the table; it ends with a row whose name is NULL.
 */
#ifndef GRPO_SCRIPT_EMBEDDED_H
#define GRPO_SCRIPT_EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
  const char *name; /* "lua/grpo/init.lua", also of "ext/NAME/lua/grpo/init.lua" */
  const char *path; /* in the source tree */
  const char *data; /* NUL-terminated */
  size_t size;
} EmbeddedFile;

extern const EmbeddedFile embedded_files[];

#endif

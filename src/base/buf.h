/* buf.h - a growing byte buffer.
 *
 * buf_clear() keeps the memory, so a buffer that is reused stops allocating.  A failed growth sets
 * `oom`, and later calls do nothing: callers check buf_status() once, at the end.
 */
#ifndef GRPO_BASE_BUF_H
#define GRPO_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct Buf {
  char *data; /* NUL-terminated once anything was appended */
  size_t len, cap;
  bool oom;
} Buf;

void buf_put(Buf *b, const void *bytes, size_t n);
void buf_puts(Buf *b, const char *s);
void buf_putc(Buf *b, char c);
void buf_printf(Buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(Buf *b);
void buf_free(Buf *b);
Status buf_status(const Buf *b); /* GRPO_ENOMEM when an append failed */

#endif

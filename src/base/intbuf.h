/* intbuf.h - a growing list of token ids.
 *
 * It is used like Buf: a zeroed one is empty, memory is reused, and a failed
 * allocation is remembered, so that callers check intbuf_status() once at the end.
 */
#ifndef GRPO_BASE_INTBUF_H
#define GRPO_BASE_INTBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct IntBuf {
  int32_t *data;
  size_t len, cap;
  bool oom;
} IntBuf;

void intbuf_put(IntBuf *b, int32_t v);
void intbuf_append(IntBuf *b, const int32_t *v, size_t n);
void intbuf_clear(IntBuf *b); /* keeps the memory */
void intbuf_free(IntBuf *b);
Status intbuf_status(const IntBuf *b); /* GRPO_ENOMEM when an allocation has failed */

#endif

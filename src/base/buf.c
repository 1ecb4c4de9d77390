#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static bool room(Buf *b, size_t n) {
  if (b->oom) return false;
  if (n >= SIZE_MAX / 2 - b->len) return !(b->oom = true);
  if (b->len + n + 1 <= b->cap) return true;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < b->len + n + 1) cap += cap / 2 + 16;
  char *p = mem_realloc(b->data, cap);
  if (!p) return !(b->oom = true);
  b->data = p;
  b->cap = cap;
  return true;
}

void buf_put(Buf *b, const void *bytes, size_t n) {
  if (!room(b, n)) return;
  if (n) memcpy(b->data + b->len, bytes, n);
  b->len += n;
  b->data[b->len] = 0;
}

void buf_puts(Buf *b, const char *s) { buf_put(b, s, strlen(s)); }
void buf_putc(Buf *b, char c) { buf_put(b, &c, 1); }

void buf_printf(Buf *b, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0) b->oom = true; /* the text could not be formatted, which must not go unnoticed */
  if (n >= 0 && room(b, (size_t)n)) {
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
}

void buf_clear(Buf *b) {
  b->len = 0;
  b->oom = false;
  if (b->data) b->data[0] = 0;
}

void buf_free(Buf *b) {
  mem_free(b->data);
  *b = (Buf){0};
}

Status buf_status(const Buf *b) {
  return b->oom ? fail(GRPO_ENOMEM, "no memory for a text buffer") : GRPO_OK;
}

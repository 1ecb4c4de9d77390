#include "base/intbuf.h"

#include <string.h>

#include "base/mem.h"

static bool room(IntBuf *b, size_t n) {
  if (b->oom) return false;
  if (n > SIZE_MAX / 8 / sizeof *b->data - b->len) return !(b->oom = true);
  if (b->len + n <= b->cap) return true;
  size_t cap = b->cap ? b->cap : 32;
  while (cap < b->len + n) cap += cap / 2;
  int32_t *p = mem_realloc(b->data, cap * sizeof *p);
  if (!p) return !(b->oom = true);
  b->data = p;
  b->cap = cap;
  return true;
}

void intbuf_append(IntBuf *b, const int32_t *v, size_t n) {
  if (!n || !room(b, n)) return;
  memcpy(b->data + b->len, v, n * sizeof *v);
  b->len += n;
}

void intbuf_put(IntBuf *b, int32_t v) {
  if (b->len < b->cap && !b->oom)
    b->data[b->len++] = v;
  else
    intbuf_append(b, &v, 1);
}

void intbuf_clear(IntBuf *b) {
  b->len = 0;
  b->oom = false;
}

void intbuf_free(IntBuf *b) {
  mem_free(b->data);
  *b = (IntBuf){0};
}

Status intbuf_status(const IntBuf *b) {
  return b->oom ? fail(GRPO_ENOMEM, "no memory for a list of token ids") : GRPO_OK;
}

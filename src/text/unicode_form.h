/* unicode_form.h - Unicode's normal forms: NFC, NFD, NFKC, NFKD.  Private to src/text. */
#ifndef GRPO_TEXT_UNICODE_FORM_H
#define GRPO_TEXT_UNICODE_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"

/* Appends the normal form of s, which is valid UTF-8, to `out`.  `work` is working memory.  ELIMIT:
 * more than 4096 combining marks follow one another, which would take too long to sort. */
Status unicode_form(const char *s, size_t n, bool compose, bool compatible, IntBuf *work, Buf *out);

#endif

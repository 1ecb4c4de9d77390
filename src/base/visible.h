/* visible.h - makes text from outside safe to show on a terminal. */
#ifndef GRPO_BASE_VISIBLE_H
#define GRPO_BASE_VISIBLE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends s, in which everything that a terminal would obey is made visible: control characters
 * other than ends of lines and tabs, also those of C1, in UTF-8 and as single bytes, as \xHH; marks
 * that change the direction of writing as "?". */
void visible_put(Buf *b, const char *s, size_t n);

#endif

/* utf8.h - decodes UTF-8, and replaces bytes that are not UTF-8. */
#ifndef GRPO_BASE_UTF8_H
#define GRPO_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Reads one code point from s[0..n), n >= 1, and returns its length in bytes.  For a maximal
 * invalid subpart (Unicode, chapter 3) it returns the subpart's length, with *cp = 0xFFFD and
 * *valid = false.  Surrogates and values past U+10FFFF are invalid. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp, bool *valid);
size_t utf8_encode(uint32_t cp, char out[4]); /* bytes written */
bool utf8_is_valid(const char *s, size_t n);
/* Appends s with every maximal invalid subpart replaced by U+FFFD. */
void utf8_put_lossy(Buf *b, const char *s, size_t n);

#endif

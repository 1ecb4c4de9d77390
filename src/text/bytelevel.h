/* bytelevel.h - GPT-2's alphabet: each byte as one printable character.
 *
 * Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF become the code point of the same number.  The other 68
 * bytes become U+0100, U+0101, ... in rising order, so a space is U+0120.
 */
#ifndef GRPO_TEXT_BYTELEVEL_H
#define GRPO_TEXT_BYTELEVEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

uint32_t bytelevel_char(unsigned char byte);
int bytelevel_byte(uint32_t cp);                           /* -1: outside the alphabet */
void bytelevel_put(Buf *out, const char *bytes, size_t n); /* appends the characters */
/* Appends the bytes that the characters stand for.  A token with a character outside the alphabet
 * (an added token) stands for its own bytes. */
void bytelevel_unput(Buf *out, const char *token, size_t n);

#endif

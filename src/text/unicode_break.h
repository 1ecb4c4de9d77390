/* unicode_break.h - where text may be cut: grapheme clusters, and changes of script.  Private to
 * src/text. */
#ifndef GRPO_TEXT_UNICODE_BREAK_H
#define GRPO_TEXT_UNICODE_BREAK_H

#include <stddef.h>
#include <stdint.h>

/* The length in bytes of the extended grapheme cluster (UAX #29, Unicode 17) that s begins with.  s
 * is valid UTF-8, n > 0. */
size_t unicode_grapheme(const char *s, size_t n);

/* A number for each script that the library tokenizers tells apart; Hiragana and Katakana are Han.
 * 0: the code point has none, for example a space, and continues any script. */
unsigned unicode_script(uint32_t cp);

#endif

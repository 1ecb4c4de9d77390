/* unicode.h - the classes that a code point is in.
 *
 * The tables are our own, so that ids do not depend on the installed version of PCRE2.  They say of
 * every code point what the library tokenizers says, whose parts follow different versions of
 * Unicode; for normal forms that is 15.1 without what the library lacks.
 */
#ifndef GRPO_TEXT_UNICODE_H
#define GRPO_TEXT_UNICODE_H

#include <stdint.h>

enum {
  UNI_LETTER = 1,       /* \p{L} */
  UNI_NUMBER = 2,       /* \p{N} */
  UNI_SPACE = 4,        /* \s: White_Space */
  UNI_WORD = 8,         /* \w: Alphabetic, marks, decimal digits, connectors, joiners */
  UNI_NFC_UNSAFE = 16,  /* text without any such code point is in NFC as it stands */
  UNI_PUNCT = 32,       /* \p{P} */
  UNI_MARK = 64,        /* \p{M} */
  UNI_NONSPACING = 128, /* \p{Mn} */
  UNI_OTHER = 256,      /* control, format, surrogate, private use */
  UNI_SECOND = 512,     /* it may compose with a code point before it */
  UNI_DECOMPOSES = 1024 /* it has a decomposition of any kind; not for Hangul syllables */
};

unsigned unicode_class(uint32_t cp); /* flags of the enum */
uint32_t unicode_lower(uint32_t cp); /* cp itself if it has no lower case of one code point */

#endif

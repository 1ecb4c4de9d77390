/* tokenizer_build.h - makes a Tokenizer from the text of its files.  Private to src/text. */
#ifndef GRPO_TEXT_TOKENIZER_BUILD_H
#define GRPO_TEXT_TOKENIZER_BUILD_H

#include "base/buf.h"
#include "base/err.h"
#include "text/tokenizer_impl.h"

extern const char *const tokenizer_file_name[NFILES];

/* Makes a tokenizer of the text of its files, which it takes over, also on failure.  `what` names
 * tokenizer.json in messages: a path, or "trained tokenizer". */
Status tokenizer_build(Tokenizer **out, Buf file[NFILES], const char *what);

#endif

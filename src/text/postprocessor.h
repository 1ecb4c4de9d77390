/* postprocessor.h - the ids that are added before and after a text.  Private to src/text. */
#ifndef GRPO_TEXT_POSTPROCESSOR_H
#define GRPO_TEXT_POSTPROCESSOR_H

#include "base/err.h"
#include "base/intbuf.h"
#include "formats/json.h"
#include "text/vocab.h"

/* Reads a post-processor (absent or null: none) and appends the ids that it puts before and after a
 * text. */
Status postprocessor_read(const Json *j, const Vocab *v, IntBuf *prefix, IntBuf *suffix);

#endif

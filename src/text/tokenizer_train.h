/* tokenizer_train.h - trains a byte-level BPE tokenizer. */
#ifndef GRPO_TEXT_TOKENIZER_TRAIN_H
#define GRPO_TEXT_TOKENIZER_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tokenizer.h"

/* The ids are the special tokens in the given order, the 256 bytes in GPT-2's order, and then the
 * merges.  Training is deterministic: the most frequent pair comes first, and ties go to the lower
 * left id, then to the lower right id.  These are the merges of Hugging Face's BpeTrainer, except
 * that pre-tokens over 256 bytes are counted in pieces.  Training stops early when no pair occurs
 * min_frequency times.  It does not learn from special tokens inside the texts. */
typedef struct TokenizerTrainOptions {
  size_t size;                       /* sizeof(TokenizerTrainOptions) */
  int vocab_size;                    /* all tokens; default 4096; at least 256 + nspecial */
  const char *const *special_tokens; /* NULL: <|endoftext|> and <|pad|> */
  int nspecial;
  /* These are among special_tokens.  NULL: eos is <|endoftext|> or else the first special token,
   * pad is <|pad|> if that is listed, and there is no bos. */
  const char *bos, *eos, *pad;
  bool split_digits;     /* every digit is a token of its own (default) */
  int64_t min_frequency; /* of a pair that may be merged; default 2 */
} TokenizerTrainOptions;

void tokenizer_train_options_init(TokenizerTrainOptions *o);
Status tokenizer_train(Tokenizer **out, const char *const *texts, const size_t *lens, size_t ntexts,
                       const TokenizerTrainOptions *o); /* o NULL: the defaults */

#endif

/* tokenizer_write.h - writes the files of a tokenizer that is made here.  Private to src/text. */
#ifndef GRPO_TEXT_TOKENIZER_WRITE_H
#define GRPO_TEXT_TOKENIZER_WRITE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/tokenizer.h"

/* The members before "vocab" of every byte-level BPE that is made here. */
#define TOKENIZER_BPE_MEMBERS                                                                      \
  "\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "                                    \
  "\"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null, "                       \
  "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false"

/* The parts of a tokenizer; strings are UTF-8 without NUL. */
typedef struct TokenizerParts {
  const char *pre_tokenizer, *decoder; /* JSON */
  const char *model;                   /* JSON members of the model before vocab and merges */
  const Buf *vocab;                    /* JSON members "token":id, separated by commas */
  const Buf *merges;          /* JSON strings separated by commas; NULL: no merges member */
  const char *const *special; /* [nspecial] */
  int nspecial;
  int32_t first_special; /* the id of special[0]; the others have the next ids */
  const int32_t
      *special_id; /* [nspecial] ids instead of first_special and the next ones, or NULL */
  const bool
      *plain; /* [nspecial] true: an added token that is not special; NULL: all are special */
  const char *bos, *eos, *pad, *unk;       /* NULL: none */
  const char *normalizer, *post_processor; /* JSON; NULL: null */
  const char *chat_template;               /* NULL: none */
} TokenizerParts;

/* Appends the text of tokenizer_config.json and special_tokens_map.json. */
void tokenizer_put_config(Buf *config, Buf *map, const TokenizerParts *p);

/* Writes the files and builds a tokenizer from them.  `what` names it in messages. */
Status tokenizer_from_parts(Tokenizer **out, const TokenizerParts *p, const char *what);

/* Appends "token":id to the members of a vocabulary. */
void tokenizer_put_entry(Buf *vocab, const char *token, size_t n, int32_t id);

#endif

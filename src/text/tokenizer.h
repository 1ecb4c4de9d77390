/* tokenizer.h - converts text to token ids and back.
 *
 * A Tokenizer is a pipeline, described by a Hugging Face tokenizer.json:
 *   added tokens -> normalizer -> pre-tokenizer -> model -> post-processor, and a decoder.
 * It supports the models BPE (of bytes, or of characters with byte fallback, unknown tokens,
 * prefixes and suffixes), Unigram, WordPiece and WordLevel, and all normalizers, pre-tokenizers,
 * post-processors and decoders of the library tokenizers; it refuses unknown ones by name.
 * Truncation, padding and dropout are not applied.  A tokenizer that is made here
 * (tokenizer_make.h, tokenizer_train.h) is built from its tokenizer.json, so saving and loading it
 * cannot change an id.
 *
 * A Tokenizer is immutable and reference counted, and every function may be called from several
 * threads; encodes with one Tokenizer wait for each other at a lock.  Ids are int32, dense or not,
 * in [0, tokenizer_size).
 *
 * Encoding accepts any bytes: each maximal invalid UTF-8 subpart becomes U+FFFD first, except for
 * the byte tokenizer, which is exact both ways.  Time is O(n log n) in the length of the text,
 * even without a single space.
 *
 * Errors are ENOENT and EIO for files, EFORMAT for corrupt or unsupported ones (the message names
 * file and field), ELIMIT, ENOMEM and EARG.
 */
#ifndef GRPO_TEXT_TOKENIZER_H
#define GRPO_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"

typedef struct Tokenizer Tokenizer;

/* The roles of special tokens that a tokenizer_config.json assigns. */
typedef enum TokenRole {
  TOK_BOS,
  TOK_EOS,
  TOK_PAD,
  TOK_UNK,
  TOK_SEP,
  TOK_CLS,
  TOK_MASK,
  TOK_NROLES
} TokenRole;
extern const char *const token_role_name[TOK_NROLES]; /* "bos" */

void tokenizer_retain(const Tokenizer *t);
void tokenizer_free(const Tokenizer *t); /* drops one reference; NULL is fine */

enum {
  TOK_ADD_SPECIAL = 1,     /* add the post-processor's tokens (a begin token, ...) */
  TOK_NO_PARSE_SPECIAL = 2 /* treat special tokens inside the text as plain text */
};

/* Appends ids; on failure `out` does not change. */
Status tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags,
                        IntBuf *out);

/* Appends text.  Ids that do not exist are skipped; a character cut in the middle gives
 * U+FFFD for each maximal invalid subpart (the byte tokenizer gives the bytes). */
Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        Buf *out);

/* The bytes that a token adds to decoded text before invalid UTF-8 is replaced, for streaming and
 * for stop strings.  They are not NUL-terminated and live as long as t; n is 0 if there is no such
 * id. */
void tokenizer_piece_bytes(const Tokenizer *t, int32_t id, const char **bytes, size_t *n);

int tokenizer_size(const Tokenizer *t); /* highest id + 1 */
/* `token` is spelt as in the vocabulary; -1: none. */
int32_t tokenizer_id(const Tokenizer *t, const char *token);
const char *tokenizer_token(const Tokenizer *t, int32_t id); /* NULL: none */
bool tokenizer_is_special(const Tokenizer *t, int32_t id);
int32_t tokenizer_bos(const Tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const Tokenizer *t);
int32_t tokenizer_pad(const Tokenizer *t);
int32_t tokenizer_unk(const Tokenizer *t);
int32_t tokenizer_role(const Tokenizer *t, TokenRole role); /* -1: none */
/* "bytes" "chars" "bpe" "unigram" "wordpiece" "words" */
const char *tokenizer_kind(const Tokenizer *t);
/* The Jinja source of the chat template that has this name (chat_templates.h says where they come
 * from); NULL: none. */
const char *tokenizer_template(const Tokenizer *t, const char *name);
const char *tokenizer_template_name(const Tokenizer *t, int i); /* from 0; NULL: no more */
/* The template that was set, or else the one named "default". */
const char *tokenizer_chat_template(const Tokenizer *t);
const char *tokenizer_tool_template(const Tokenizer *t); /* "tool_use" */
/* Sets the template that is saved as the default one; NULL: the tokenizer's own. */
Status tokenizer_set_template(const Tokenizer *t, const char *text);

#endif

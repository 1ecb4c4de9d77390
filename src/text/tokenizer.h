/* tokenizer.h - text to token ids and back.
 *
 * A Tokenizer is one pipeline, described by a Hugging Face tokenizer.json:
 *   added tokens -> normalizer -> pre-tokenizer -> model -> post-processor, and a decoder.
 * Supported models: BPE (of bytes, or of characters with byte fallback, unknown tokens,
 * prefixes and suffixes), Unigram, WordPiece and WordLevel; all usual normalizers,
 * pre-tokenizers, post-processors and decoders.  What is not supported (Precompiled, Nmt, CTC,
 * UnicodeScripts, dropout) is refused by its name.  A tokenizer made here (bytes,
 * chars, train) is nothing but its tokenizer.json, so saving and loading it
 * cannot change an id.
 *
 * A Tokenizer is immutable and reference counted, and every function may be
 * called from several threads; encodes on one Tokenizer take turns at a lock.
 * Ids are int32, dense or not, in [0, tokenizer_size).
 *
 * Encoding accepts any bytes: each maximal invalid UTF-8 subpart becomes U+FFFD
 * first, except for the byte tokenizer, which is exact both ways.  Time is
 * O(n log n) in the text, also without a single space.
 *
 * Errors: ENOENT and EIO for files, EFORMAT for what is corrupt or unsupported
 * (the message names file and field), ELIMIT, ENOMEM, EARG.
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

/* `path`: a directory in Hugging Face layout, or a tokenizer.json in one.  Beside it
 * tokenizer_config.json, special_tokens_map.json and chat_template.jinja are read when there.
 * Or a tiktoken rank file, known by its content (a directory without a tokenizer.json may hold
 * one: encoding.json's "rank_file", or tokenizer.model).  Regex and special tokens come from
 * encoding.json beside it, {"pattern": regex, "special_tokens": {token: id}}, or else from the
 * number of ranks: 50256 r50k, 50280 p50k, 100256 cl100k, 199998 o200k, 128000 Llama 3.
 * Or a GGUF file (gguf_tokenizer.h). */
Status tokenizer_load(Tokenizer **out, const char *path);
/* A GGUF file that has one, a directory with a tokenizer.json. */
bool tokenizer_is_in(const char *path);

/* Ids 0..255 are the bytes, 256 is <|endoftext|>, 257 is <|pad|>. */
Status tokenizer_bytes(Tokenizer **out);

/* One id per distinct code point of `text`, ascending; then <|endoftext|> and <|pad|>.
 * Encoding a character that was not there is an error that names it. */
Status tokenizer_chars(Tokenizer **out, const char *text, size_t n);
/* the same without special tokens: nothing ends a completion but its length */
Status tokenizer_chars_only(Tokenizer **out, const char *text, size_t n);

/* Byte-level BPE.  Ids: special tokens in the given order, the 256 bytes in GPT-2's
 * order, then merges.  Deterministic: the most frequent pair first, ties by the lower
 * left id, then the lower right id: the merges of Hugging Face's BpeTrainer, except that
 * pre-tokens over 256 bytes are counted in pieces.  Stops early when no pair occurs
 * min_frequency times.  Special tokens inside the texts are cut out and not learned from. */
typedef struct TokenizerTrainOptions {
  size_t size;                       /* sizeof(TokenizerTrainOptions) */
  int vocab_size;                    /* all tokens; default 4096; at least 256 + nspecial */
  const char *const *special_tokens; /* NULL: <|endoftext|> and <|pad|> */
  int nspecial;
  const char *bos, *eos, *pad; /* names out of special_tokens.  NULL: eos is <|endoftext|> or else
                                  the first one, pad is <|pad|> if listed, bos is none */
  bool split_digits;           /* every digit is a token of its own (default) */
  int64_t min_frequency;       /* of a pair that may be merged; default 2 */
} TokenizerTrainOptions;

void tokenizer_train_options_init(TokenizerTrainOptions *o);
Status tokenizer_train(Tokenizer **out, const char *const *texts, const size_t *lens, size_t ntexts,
                       const TokenizerTrainOptions *o); /* o NULL: the defaults */

/* The same tokenizer with `token` as its mask token: one id more at the end, unless there is such a
 * token already. */
Status tokenizer_with_mask(Tokenizer **out, const Tokenizer *t, const char *token);

void tokenizer_retain(const Tokenizer *t);
void tokenizer_free(const Tokenizer *t); /* drops one reference; NULL is fine */

enum {
  TOK_ADD_SPECIAL = 1,     /* add what the post-processor adds (a begin token, ...) */
  TOK_NO_PARSE_SPECIAL = 2 /* special tokens inside the text are plain text */
};

/* Appends ids; on failure `out` is as it was.  */
Status tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags,
                        IntBuf *out);

/* Appends text.  Ids that do not exist are skipped; a character cut in the middle gives
 * U+FFFD for each maximal invalid subpart (the byte tokenizer gives the bytes). */
Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        Buf *out);

/* What the token contributes to decoded text, before invalid UTF-8 is replaced: for streaming
 * and stop strings.  Not NUL-terminated; lives as long as t; n is 0 when there is no such id. */
void tokenizer_piece_bytes(const Tokenizer *t, int32_t id, const char **bytes, size_t *n);

int tokenizer_size(const Tokenizer *t); /* highest id + 1 */
int32_t tokenizer_id(const Tokenizer *t,
                     const char *token); /* as spelt in the vocabulary; -1: none */
const char *tokenizer_token(const Tokenizer *t, int32_t id); /* NULL: none */
bool tokenizer_is_special(const Tokenizer *t, int32_t id);
int32_t tokenizer_bos(const Tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const Tokenizer *t);
int32_t tokenizer_pad(const Tokenizer *t);
int32_t tokenizer_unk(const Tokenizer *t);
/* The token that tokenizer_config.json gives a role; -1: none. */
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
int32_t tokenizer_role(const Tokenizer *t, TokenRole role);
const char *
tokenizer_kind(const Tokenizer *t); /* "bytes" "chars" "bpe" "unigram" "wordpiece" "words" */
/* Jinja source, or NULL: chat_template.jinja, or else the config's chat_template; of a list the one
 * named "default", and "tool_use" as the template for conversations with tools. */
const char *tokenizer_chat_template(const Tokenizer *t);
const char *tokenizer_tool_template(const Tokenizer *t);

/* Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json (and chat_template.jinja
 * if it came in one), readable by Hugging Face tokenizers; makes the directory.  Files that
 * were loaded are written back byte for byte. */
Status tokenizer_save(const Tokenizer *t, const char *dir);

#endif

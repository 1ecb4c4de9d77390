/* tokenizer_impl.h - the inside of a Tokenizer.  Private to src/text.
 *
 *   added[0] -> normalizer -> added[1] -> step[0..nstep) -> model -> prefix, suffix
 *
 * Everything but `scratch` is constant after tokenizer_build().
 */
#ifndef GRPO_TEXT_TOKENIZER_IMPL_H
#define GRPO_TEXT_TOKENIZER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/normalize.h"
#include "text/pretoken.h"
#include "text/subword.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/unigram.h"
#include "text/vocab.h"

enum { MAX_STEPS = 16 };

typedef enum TokenizerModel {
  MODEL_BPE,       /* over bytes */
  MODEL_CHARS_BPE, /* over characters */
  MODEL_WORDPIECE,
  MODEL_UNIGRAM,
  MODEL_WORDS
} TokenizerModel;

typedef struct EncodeScratch {
  pthread_mutex_t lock; /* held by an encode: guards the rest, and every Regex */
  Buf valid;            /* the text, invalid UTF-8 replaced */
  Buf prefixed;         /* a piece after Metaspace or with the prefix space */
  Buf alphabet;         /* a pre-token in the byte-level alphabet */
  Buf affixed;          /* a character or word with its prefix */
  BpeScratch bpe;
  UniScratch unigram;
  NormScratch norm;
  DecScratch decode; /* held by a decode */
} EncodeScratch;

struct Tokenizer {
  atomic_int refs;
  Buf file[NFILES];
  TokenizerModel model;
  const char *kind;
  Vocab vocab;
  Bpe bpe;
  int32_t special_id[TOK_NROLES]; /* -1: none */
  int32_t unk;                    /* of the model (WordLevel); -1: unknown words are an error */
  Subword subword;                /* MODEL_CHARS_BPE and MODEL_WORDPIECE */
  Unigram unigram;                /* MODEL_UNIGRAM */
  char *chat_template, *tool_template; /* NULL: none */
  AddedSet added[2];                   /* found in the raw text; found in normalized text */
  PreStep step[MAX_STEPS];
  int nstep;
  bool byte_level;    /* pre-token bytes are the symbols; decoding joins bytes */
  bool raw;           /* the byte tokenizer: any bytes, nothing replaced */
  bool ignore_merges; /* a whole pre-token in the vocabulary is one token */
  Normalizer normalizer;
  Detok decoder;
  IntBuf prefix, suffix; /* what TOK_ADD_SPECIAL adds */
  EncodeScratch *scratch;
};

/* What decoding starts from: the token's spelling, the normalized one of TOKEN_RESPELT. */
const char *tokenizer_spelling(const Tokenizer *t, int32_t id, size_t *n);

#endif

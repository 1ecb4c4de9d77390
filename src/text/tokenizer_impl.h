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
#include "base/intbuf.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/chat_templates.h"
#include "text/detokenizer.h"
#include "text/normalize.h"
#include "text/pretoken.h"
#include "text/subword.h"
#include "text/tokenizer.h"
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

/* The files that a tokenizer is made from and saved as.  A missing file is empty. */
typedef enum TokenizerFile {
  FILE_TOKENIZER,
  FILE_CONFIG,
  FILE_MAP,
  FILE_ADDED,
  FILE_TEMPLATE,
  NFILES
} TokenizerFile;

typedef struct EncodeScratch {
  pthread_mutex_t lock; /* held while encoding: guards the rest, and every Regex */
  Buf valid;            /* the text with invalid UTF-8 replaced */
  Buf piece[MAX_STEPS]; /* a piece that this pre-tokenizer has changed */
  Buf alphabet;         /* a pre-token in the byte-level alphabet */
  Buf affixed;          /* a character or word with its prefix */
  BpeScratch bpe;
  UniScratch unigram;
  NormScratch norm;
  DecScratch decode; /* used while decoding, under the lock */
} EncodeScratch;

typedef struct Tokenizer {
  atomic_int refs;
  Buf file[NFILES];
  TokenizerModel model;
  const char *kind;
  Vocab vocab;
  Bpe bpe;
  int32_t special_id[TOK_NROLES]; /* -1: none */
  int32_t unk;                    /* for WordLevel; -1: an unknown word is an error */
  Subword subword;                /* MODEL_CHARS_BPE and MODEL_WORDPIECE */
  Unigram unigram;                /* MODEL_UNIGRAM */
  ChatTemplates templates;
  char *set_template; /* NULL: none was set */
  AddedSet added[2];  /* [0] is searched in the raw text, [1] in normalized text */
  PreStep step[MAX_STEPS];
  int nstep;
  bool byte_level;    /* ByteLevel is the last pre-tokenizer: pre-tokens become its alphabet */
  bool raw;           /* the byte tokenizer: any bytes are encoded as they are */
  bool ignore_merges; /* a pre-token that is in the vocabulary is one token */
  Normalizer normalizer;
  Detok decoder;
  IntBuf prefix, suffix; /* added by TOK_ADD_SPECIAL */
  EncodeScratch *scratch;
} Tokenizer;

/* The text of a token that decoding starts from: its spelling, or the normalized one of a
 * TOKEN_RESPELT. */
static inline const char *tokenizer_spelling(const Tokenizer *t, int32_t id, size_t *n) {
  const VocabEntry *e = vocab_entry(&t->vocab, id);
  const AddedToken *a = e->flags & TOKEN_RESPELT ? added_by_id(&t->added[1], id) : NULL;
  *n = a ? a->len : e->len;
  return a ? a->text : t->vocab.text.data + e->text;
}

#endif

/* samples.h - reads a host's prompts and sampling options; shows completions to it. */
#ifndef GRPO_API_SAMPLES_H
#define GRPO_API_SAMPLES_H

#include <stddef.h>

#include "api/api.h"
#include "base/buf.h"
#include "model/decode.h"

/* The size of grpo_sampling before it had a grammar. */
enum { FIRST_SAMPLING = offsetof(grpo_sampling, grammar) };
/* The size of grpo_sample before it said which tokens were sampled. */
enum { FIRST_SAMPLE = offsetof(grpo_sample, sampled) };

/* The texts of completions, one after another; the next texts_decode uses the memory again. */
typedef struct Texts {
  Buf bytes;
  size_t *at; /* [n + 1] */
  size_t cap;
} Texts;

/* tok may be NULL; the completions then have no text. */
Status texts_decode(Texts *t, const Tokenizer *tok, const Completion *c, size_t n);
void texts_free(Texts *t);
/* Fills *s with completion i, which is c; t holds the texts of all. */
void sample_fill(grpo_sample *s, const Completion *c, const Texts *t, size_t i, int group);
/* Fills in *out, which begins zeroed; the caller ends with sampling_release(), also after a
 * failure. */
Status sampling_take(const grpo_sampling *o, Sampling *out);
void sampling_release(const Sampling *s);

/* Calls a host's on_token.  `text` is freed by whoever made this. */
typedef struct TokenCall {
  grpo_context *c;
  const Tokenizer *tok; /* NULL: samples have no text */
  grpo_token_fn fn;     /* NULL: nothing is called */
  void *user;
  int64_t step;
  Buf text;
} TokenCall;
typedef Status (*TokenFn)(void *user, const Completion *c);
TokenFn token_fn(const TokenCall *t); /* for the decoder, with t as its user; NULL: none */

Status prompts_check(const grpo_prompt *p, size_t n);

#endif

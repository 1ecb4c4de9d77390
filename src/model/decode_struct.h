/* decode_struct.h - what the files of the decoder share. */
#ifndef GRPO_MODEL_DECODE_STRUCT_H
#define GRPO_MODEL_DECODE_STRUCT_H

#include "grad/tape.h"
#include "kern/logits.h"
#include "model/cache.h"
#include "model/completion.h"
#include "model/model.h"
#include "model/rollout_activations.h"
#include "model/stop.h"
#include "text/grammar_match.h"

/* A prompt whose keys are in the cache. */
typedef struct Resident {
  const Request *request; /* NULL: unused */
  int number;             /* of the request among those of the run */
  const Sampling *sampling;
  Completion *out;       /* [request->n] */
  int slot;              /* in the prompt cache */
  int done;              /* prompt tokens prefilled */
  int started, finished; /* of its n completions */
  real *logits;          /* [vocab] after its last token */
  LogitsRow row;         /* maximum, log-sum-exp and entropy of these logits */
  Matcher *matcher;      /* in a feed, of the last request here that had a grammar; may be NULL */
} Resident;

typedef struct ActiveSequence {
  Resident *prompt;
  Completion *out;
  int slot;       /* in the completion cache */
  int done;       /* tokens whose keys are in the cache */
  int drafts;     /* guesses that may still be met: out->ids[out->len ..] */
  int stored;     /* keys in the cache, of guesses too */
  int begun;      /* `done` before the forward */
  KvSeg *spare;   /* of Decoder.spare, for the states behind guesses; NULL: there are none */
  int row;        /* the next row of a forward that a token is sampled from; -1: none */
  int turn;       /* first token of the model's turn */
  bool turn_over; /* on_turn decides what follows */
  /* with a grammar: its state behind ids[turn .. matched), of this generation of the matcher */
  int matched;
  int32_t state;
  uint64_t generation;
} ActiveSequence;

/* A row of logits that a token is to be sampled from. */
typedef struct SampleJob {
  ActiveSequence *seq;
  const real *logits;
  LogitsRow row;
  bool fresh;              /* row is not computed yet */
  const uint32_t *allowed; /* a bit for each token that the grammar allows; NULL: all */
  bool barred;             /* in a feed: the grammar cannot be continued */
  int32_t token;           /* the sampled one, and its log-probability */
  real logp, target_logp;
} SampleJob;

typedef struct Decoder {
  Model *m;
  DecoderLimits limits;
  StopText stop;
  Matcher *matcher; /* of the last run that had a grammar; NULL: there was none */
  int32_t tokenizer_eos;
  int32_t *unnamed; /* [nunnamed] ids without a token, as a padded vocabulary has them */
  int nunnamed;
  Tape tape;
  Cache prompts, completions;
  Cache spare;            /* states behind guesses, one slot for each sequence that has guesses */
  char *scratch;          /* [threads, sampler_scratch_bytes] */
  bool dirty;             /* a run failed: caches may hold NaN */
  Resident *resident;     /* [max_prompts] */
  ActiveSequence *active; /* [max_sequences] */
  SampleJob *job;         /* [max_sequences] */
  int nactive, njobs;
  int max_rows, max_spans;
  int draft_rows;                  /* rows that a forward is filled up to with guesses */
  int64_t guessed, met;            /* guesses of this run */
  int32_t *ids, *pos, *length;     /* [max_rows] of the forward being prepared; as in Rows */
  AttnSpan *span;                  /* [max_spans] */
  ReplayRun *run;                  /* [max_spans] where the activations of each span go */
  RolloutActivations *activations; /* NULL: they are not kept */
  const int *slots;                /* [nrequests] of activations; NULL: 0, 1, 2, ... */
  int nrows, nspans;
  real *prompt_logits; /* [max_prompts, vocab] */
  real *logits;        /* [LOGIT_ROWS, vocab] */
  /* the run */
  const Request *request;
  int nrequests, next_request, next_out;
  int64_t sampled, most; /* tokens so far, where a completion that is over counts in full; in all */
  const Sampling *sampling; /* NULL: each request has its own (decode_feed.h) */
  Completion *out, *diverged;
  const volatile int *cancel;
  Status (*on_token)(void *user, const Completion *c); /* NULL: nothing is called */
  void *on_token_user;
  TurnFn on_turn; /* NULL: a completion is one turn */
  void *on_turn_user;
} Decoder;

#endif

/* grpo.h - the whole public interface of libgrpo, for C11 and C++17.
 *
 * Three ways in, from large to small:
 *   a run      grpo_run_*       trains what an experiment script describes; rewards may be yours
 *   a step     grpo_trainer_*   roll out, score, advantages, update: the loop is yours, no Lua
 *   the parts  grpo_tensor_*, grpo_policy_loss*, grpo_adamw_*: tensors with gradients, losses, AdamW
 *
 * Life cycle.  A context comes first; everything else is made from one and keeps it alive, so
 * objects may be freed in any order.  Every *_free takes NULL.
 *
 * Threads.  A context and all that was made from it serve one thread at a time; another thread has
 * a context of its own, and two contexts share nothing.  A call that meets another one at work on
 * its context, in another thread or around a callback, is refused with GRPO_EARG; only
 * grpo_tokenizer_*, grpo_sample_field and grpo_run_stop may be called inside callbacks, and
 * grpo_run_stop at any time from any thread.  The workers of a context take no signals.
 *
 * Errors.  A call that can fail returns a status; the sentence is grpo_message() of the context
 * until the next failure there.  What an out parameter points to is only written on success, unless
 * said.  Nothing throws, aborts, exits, prints, or touches signals, the locale or the working
 * directory.  NULL where a pointer is wanted is GRPO_EARG.
 *
 * Options.  A struct of options begins with its size: grpo_NAME_init(&o, sizeof o) sets that and
 * every default, then change what you like.  A struct of another version of this file is taken if
 * the fields that this library does not know are zero.  Where an options pointer may be NULL, that
 * means the defaults.
 *
 * Callbacks get your `user` pointer, run on the thread that made the call, under the host's own
 * locale, and must return: no longjmp, no exception.  What they are given is valid until they do.
 *
 * Arrays are row-major, counts are elements, times are seconds, memory is bytes, token ids are the
 * vocabulary's own from 0.  Paths are as the system takes them.  All numbers that a result depends
 * on are the same bits for any number of threads.  Formulas: docs/algorithms.md.
 */
#ifndef GRPO_H
#define GRPO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GRPO_API __attribute__((visibility("default")))
#else
#define GRPO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions ---------------------------------------------------------------------------- */
/* Raised when a program compiled with an older grpo.h would no longer run. */
#define GRPO_ABI_VERSION 1
GRPO_API uint32_t grpo_abi_version(void); /* of the library */
GRPO_API const char *grpo_version(void);  /* "0.1.0" */

/* ---- status ------------------------------------------------------------------------------ */
typedef int32_t grpo_status;
#ifndef GRPO_BASE_ERR_H /* the library's own sources have the same list */
enum {
  GRPO_OK = 0,
  GRPO_ENOMEM = 1,    /* out of memory */
  GRPO_ESHAPE = 2,    /* shapes do not agree */
  GRPO_EARG = 3,      /* bad argument: the caller's mistake */
  GRPO_ENOENT = 4,    /* no such file */
  GRPO_EFORMAT = 5,   /* corrupt or unsupported file */
  GRPO_EIO = 6,       /* cannot read or write */
  GRPO_ELIMIT = 7,    /* a limit was hit; a buffer is too small */
  GRPO_ESTALE = 8,    /* used after its step has ended */
  GRPO_EDIVERGED = 9, /* training diverged: a loss or gradient is not finite */
  GRPO_ESCRIPT = 10,  /* error in a callback or in a script */
  GRPO_EINTERNAL = 11 /* a bug in the library */
};
#endif
GRPO_API const char *grpo_status_name(grpo_status s); /* "ESHAPE"; "?" for an unknown one */
GRPO_API const char *grpo_status_text(grpo_status s); /* "shapes do not agree" */

/* ---- memory ------------------------------------------------------------------------------ */
/* All memory of the library (not that of libc, of threads' stacks, of memory-mapped files, nor
 * what the JSON reader holds while it reads a file) comes from here.  `alignment` is a power of two;
 * alloc returns NULL when memory is out.  Both are called from any thread. */
typedef struct grpo_allocator {
  size_t size; /* sizeof(grpo_allocator) */
  void *(*alloc)(void *user, size_t bytes, size_t alignment);
  void (*free)(void *user, void *memory);
  void *user;
} grpo_allocator;
/* For the process.  NULL: malloc and free again.  GRPO_EARG while any context exists. */
GRPO_API grpo_status grpo_set_allocator(const grpo_allocator *a);
GRPO_API size_t grpo_memory_live(void); /* bytes of models and tensors held now, in all contexts */

/* ---- context ----------------------------------------------------------------------------- */
typedef struct grpo_context grpo_context;

enum { GRPO_LOG_INFO = 0, GRPO_LOG_WARNING = 1 };
typedef void (*grpo_log_fn)(void *user, int32_t level, const char *line);

typedef struct grpo_context_options {
  size_t size;
  int32_t threads; /* 0: all cores this process may use; never changes a result */
  int32_t reserved;
  grpo_log_fn log; /* NULL: notices are dropped */
  void *log_user;
} grpo_context_options;
GRPO_API grpo_status grpo_context_options_init(grpo_context_options *o, size_t size);

GRPO_API grpo_status grpo_context_new(const grpo_context_options *o, grpo_context **out);
GRPO_API void grpo_context_free(grpo_context *c);
/* One line: what, where, what to do.  "" before any failure.  c NULL: the calling thread's last
 * failure, whatever the context.  Valid until the next failure there. */
GRPO_API const char *grpo_message(const grpo_context *c);

/* ---- tokenizer: immutable ---------------------------------------------------------------- */
typedef struct grpo_tokenizer grpo_tokenizer;

/* A directory in Hugging Face layout, a tokenizer.json, a tiktoken rank file or a GGUF file. */
GRPO_API grpo_status grpo_tokenizer_load(grpo_context *c, const char *path, grpo_tokenizer **out);
/* Ids 0..255 are the bytes, 256 is <|endoftext|>, 257 is <|pad|>. */
GRPO_API grpo_status grpo_tokenizer_bytes(grpo_context *c, grpo_tokenizer **out);
/* One id per distinct character of the text, ascending; then <|endoftext|> and <|pad|>. */
GRPO_API grpo_status grpo_tokenizer_chars(grpo_context *c, const char *text, size_t length,
                                          grpo_tokenizer **out);
GRPO_API void grpo_tokenizer_free(grpo_tokenizer *t);

enum {
  GRPO_ADD_SPECIAL = 1,     /* add the tokenizer's own begin and end tokens */
  GRPO_NO_PARSE_SPECIAL = 2 /* special tokens inside the text are plain text */
};
/* *count: how many ids the text has; of these the first `capacity` are written.  GRPO_ELIMIT (with
 * *count set) when that is not all, unless ids is NULL and capacity 0, which only asks. */
GRPO_API grpo_status grpo_tokenizer_encode(grpo_tokenizer *t, const char *text, size_t length,
                                           uint32_t flags, int32_t *ids, size_t capacity,
                                           size_t *count);
/* The same for text: *length bytes, and a 0 after them where there is room. */
GRPO_API grpo_status grpo_tokenizer_decode(grpo_tokenizer *t, const int32_t *ids, size_t count,
                                           int32_t skip_special, char *text, size_t capacity,
                                           size_t *length);
GRPO_API grpo_status grpo_tokenizer_size(grpo_tokenizer *t, int32_t *size); /* highest id + 1 */
/* As spelt in the vocabulary; -1: none.  "bos", "eos" and "pad" name roles where no token is so
 * spelt. */
GRPO_API grpo_status grpo_tokenizer_id(grpo_tokenizer *t, const char *token, int32_t *id);
/* Files that Hugging Face's tokenizers reads; makes the directory. */
GRPO_API grpo_status grpo_tokenizer_save(grpo_tokenizer *t, const char *directory);

/* ---- model ------------------------------------------------------------------------------- */
typedef struct grpo_model grpo_model;

typedef struct grpo_model_options {
  size_t size;
  const char *storage; /* of loaded weights: "f32" (the only form that is trained whole), "auto",
                          "bf16", "int8", "nf4".  default "f32" */
  const char *compute; /* products: "f32", "bf16", "auto".  default "auto", which is f32 */
  uint64_t seed;       /* of random weights */
} grpo_model_options;
GRPO_API grpo_status grpo_model_options_init(grpo_model_options *o, size_t size);

/* A directory in Hugging Face layout, a .gguf file, a checkpoint, or a run's directory: its latest
 * checkpoint. */
GRPO_API grpo_status grpo_model_load(grpo_context *c, const char *path, const grpo_model_options *o,
                                     grpo_model **out);
/* Random weights, normal(0, initializer_range); config: the JSON text of a config.json.  With a
 * tokenizer (may be NULL) vocab_size, bos_token_id and eos_token_id come from it unless given. */
GRPO_API grpo_status grpo_model_new(grpo_context *c, const char *config, grpo_tokenizer *t,
                                    const grpo_model_options *o, grpo_model **out);
/* A frozen copy: a reference for the KL. */
GRPO_API grpo_status grpo_model_clone(grpo_model *m, grpo_model **out);
GRPO_API void grpo_model_free(grpo_model *m); /* trainers that use it keep it alive */

typedef struct grpo_model_facts {
  size_t size;
  int32_t vocab_size, hidden_size, layers, max_position_embeddings;
  uint64_t parameters, trainable; /* elements; tied weights once */
} grpo_model_facts;
/* f->size must be set. */
GRPO_API grpo_status grpo_model_facts_get(grpo_model *m, grpo_model_facts *f);

/* A low-rank adapter (LoRA, arXiv:2106.09685): from now on only it is trained.  targets: names such
 * as "q_proj", or "all-linear", separated by commas. */
GRPO_API grpo_status grpo_model_add_lora(grpo_model *m, int32_t rank, double alpha, double dropout,
                                         const char *targets, uint64_t seed);
GRPO_API grpo_status grpo_model_load_adapter(grpo_model *m, const char *directory); /* PEFT's */
/* Hugging Face layout; dtype "f32", "bf16" or "f16".  An adapter is merged into what is written. */
GRPO_API grpo_status grpo_model_save(grpo_model *m, const char *directory, const char *dtype);
GRPO_API grpo_status grpo_model_save_adapter(grpo_model *m, const char *directory);

/* Logits [count, vocab_size] after each of the ids; capacity is that of `out`, in floats. */
GRPO_API grpo_status grpo_model_logits(grpo_model *m, const int32_t *ids, size_t count, float *out,
                                       size_t capacity);
/* log p(ids[i + 1] | ids[0..i]), count - 1 of them, at temperature 1. */
GRPO_API grpo_status grpo_model_logprobs(grpo_model *m, const int32_t *ids, size_t count,
                                         float *out, size_t capacity);
/* Weights by Hugging Face's names, as float32 in the checkpoint's layout. */
GRPO_API grpo_status grpo_model_parameter_count(grpo_model *m, int32_t *count);
GRPO_API grpo_status grpo_model_parameter_at(grpo_model *m, int32_t i, const char **name,
                                             size_t *elements); /* the name lives as long as m */
GRPO_API grpo_status grpo_model_parameter_get(grpo_model *m, const char *name, float *out,
                                              size_t capacity);
/* GRPO_EARG for a frozen weight in a compact storage. */
GRPO_API grpo_status grpo_model_parameter_set(grpo_model *m, const char *name, const float *values,
                                              size_t elements);

/* ---- sampling ---------------------------------------------------------------------------- */
typedef struct grpo_sampling {
  size_t size;
  int32_t max_new_tokens; /* grpo_generate: default 256; a trainer: 0, as it was made for */
  int32_t n;              /* completions of a prompt: 0: 1; a trainer: its group_size */
  double temperature;     /* divides the logits; 0: greedy.  1 */
  double top_p, min_p;    /* 1 and 0: off */
  int32_t top_k;          /* 0: off */
  uint32_t step;          /* numbers are drawn by (seed, step, prompt's index, completion, token) */
  double repetition_penalty; /* 1: off */
  uint64_t seed;
  const char *const *stop; /* strings that end a completion; they stay in the text */
  size_t stops;
  const char *stop_regex; /* NULL: none */
} grpo_sampling;
GRPO_API grpo_status grpo_sampling_init(grpo_sampling *o, size_t size);

typedef struct grpo_prompt {
  const int32_t *ids; /* at least 1 */
  size_t length;
  uint32_t index; /* the prompt's number in the run: its random numbers follow from it */
  uint32_t reserved;
} grpo_prompt;

/* One completion, as callbacks and lists show it. */
typedef struct grpo_sample {
  size_t size;
  const char *text; /* special tokens left out; ends with a 0; NULL without a tokenizer */
  size_t text_length;
  const int32_t *ids;    /* [length], the end token included */
  const float *logprobs; /* [length] at the sampling temperature, before any filter */
  size_t length;
  const char *finish;      /* "eos", "stop" or "length" (cut at max_new_tokens) */
  const char *prompt_text; /* of a run, as rendered; else NULL */
  int64_t prompt, index;   /* the prompt's place in its call or step; the place in its group */
  int64_t step;
  const void *row; /* of a run's dataset: for grpo_sample_field; else NULL */
} grpo_sample;
/* Field `name` of the dataset's row as text ("answer"); NULL when there is none, or it is neither
 * text nor a number.  Only inside a callback of a run; valid until that returns. */
GRPO_API const char *grpo_sample_field(const grpo_sample *s, const char *name);

typedef struct grpo_samples grpo_samples;
/* t: for texts and stop strings, may be NULL.  Completions of prompt 0 come first. */
GRPO_API grpo_status grpo_generate(grpo_model *m, grpo_tokenizer *t, const grpo_prompt *prompts,
                                   size_t count, const grpo_sampling *o, grpo_samples **out);
GRPO_API size_t grpo_samples_count(const grpo_samples *s); /* NULL: 0 */
/* *out (out->size must be set) points into s. */
GRPO_API grpo_status grpo_samples_at(const grpo_samples *s, size_t i, grpo_sample *out);
GRPO_API void grpo_samples_free(grpo_samples *s);

/* ---- metrics ----------------------------------------------------------------------------- */
typedef struct grpo_metric {
  const char *name; /* TRL's: "loss", "grad_norm", "completions/mean_length"; docs/lua-api.md */
  double value;
} grpo_metric;
typedef struct grpo_metrics {
  size_t size;
  size_t count;
  const grpo_metric *items; /* [count] by name; what does not apply is left out */
} grpo_metrics;
GRPO_API double grpo_metric_get(const grpo_metrics *m, const char *name); /* NaN: none */

/* ---- losses ------------------------------------------------------------------------------ */
/* The settings of a policy loss; names, formulas and sources: docs/algorithms.md and
 * lua/grpo/losses.lua.  NaN, NULL: the default of the loss. */
typedef struct grpo_loss_options {
  size_t size;
  const char *loss; /* "grpo", "bnpo", "dr_grpo", "dapo", "gspo", "gspo_token", "luspo", "gmpo",
                       "cispo", "sapo", "vespo", "reinforce", "rloo"; "nll": maximum likelihood */
  double clip, clip_high;   /* the ratio counts from 1 - clip to 1 + clip_high (default: clip) */
  double delta;             /* upper cap of the ratio; 0: none */
  const char *importance;   /* "token" or "sequence" */
  const char *kl_estimator; /* "k2", "k3", and with a trainer "full" */
  double kl;                /* beta; 0: none */
  double off_policy_mask;   /* threshold; NaN: off */
  double sampler_min, sampler_max;
  const char *sampler_correction; /* "token_truncate", "token_mask", "sequence_truncate",
                                     "sequence_mask"; NULL: none */
  double entropy;                 /* coefficient of the bonus; 0 */
  double top_entropy_quantile;    /* only with a trainer: share of tokens in the policy term; 1 */
  double sapo_pos, sapo_neg, cispo_cap;
  double vespo_k_pos, vespo_lambda_pos, vespo_k_neg, vespo_lambda_neg;
  int32_t kl_bias_correction;
  int32_t max_new_tokens; /* dr_grpo's denominator; 0: the trainer's, or the longest sequence */
  int32_t mask_truncated; /* only with a trainer: completions cut at the limit leave the loss */
  int32_t reserved;
} grpo_loss_options;
GRPO_API grpo_status grpo_loss_options_init(grpo_loss_options *o, size_t size);

/* What a loss is of: `count` tokens, sequence after sequence.  NULL arrays are absent. */
typedef struct grpo_loss_batch {
  size_t size;
  size_t count;           /* N */
  size_t sequences;       /* 0: one */
  const int32_t *lengths; /* [sequences], they sum to N; NULL with one sequence */
  const float *advantage; /* [N]; NULL only for "nll" */
  const float *mask;      /* [N] 0 or 1; NULL: all 1 */
  const float *old_logp;  /* [N]; NULL: the log-probabilities themselves, so that the ratio is 1 */
  const float *ref_logp;  /* [N] wanted where kl > 0 */
  const float *sampler_logp; /* [N] wanted with a sampler correction */
  double num_sequences;      /* of the whole optimizer step; 0: those of the batch */
  double num_tokens;         /* the normaliser: masked tokens of the whole step; 0: of the batch */
} grpo_loss_batch;
GRPO_API grpo_status grpo_loss_batch_init(grpo_loss_batch *b, size_t size);

/* Value and gradient of a policy loss on log-probabilities [N] (at the sampling temperature) and
 * entropies [N] (NULL: no bonus).  d_logp, d_entropy: [N] d value / d input; may be NULL.
 * o NULL: "grpo" with its defaults, as after grpo_loss_options_init. */
GRPO_API grpo_status grpo_policy_loss(grpo_context *c, const grpo_loss_options *o,
                                      const grpo_loss_batch *b, const float *logp,
                                      const float *entropy, double *value, float *d_logp,
                                      float *d_entropy);
/* The same on logits [N, vocab], row i of which predicts targets[i]; d_logits [N, vocab] or NULL.
 * o NULL: the same default as grpo_policy_loss.  (The Lua function grpo.loss_from_logits has another
 * one: "dapo" with clip_high = clip.) */
GRPO_API grpo_status grpo_policy_loss_from_logits(grpo_context *c, const grpo_loss_options *o,
                                                  const grpo_loss_batch *b, const float *logits,
                                                  int32_t vocab, const int32_t *targets,
                                                  double temperature, double *value,
                                                  float *d_logits);

/* Advantages of rewards (DeepSeekMath, arXiv:2402.03300, and variants). */
typedef struct grpo_advantage_options {
  size_t size;
  const char *scale;     /* "group" (default), "batch", "none" */
  const char *baseline;  /* "mean" (default), "leave_one_out", "none" */
  int32_t group;         /* completions of a prompt, consecutive */
  int32_t rewards;       /* numbers of a completion; 1 */
  const double *weights; /* [rewards]; NULL: all 1 */
  int32_t normalize, normalize_then_sum;
  double clip_low, clip_high; /* bounds of the total; NaN: none */
} grpo_advantage_options;
GRPO_API grpo_status grpo_advantage_options_init(grpo_advantage_options *o, size_t size);
/* rewards [count, o->rewards], NaN: does not apply; total and advantage [count], each may be NULL. */
GRPO_API grpo_status grpo_advantages(grpo_context *c, const grpo_advantage_options *o, size_t count,
                                     const double *rewards, double *total, double *advantage);

/* ---- the step ---------------------------------------------------------------------------- */
typedef struct grpo_trainer grpo_trainer;

typedef struct grpo_trainer_options {
  size_t size;
  int32_t prompts_per_step, group_size;      /* 8, 8 */
  int32_t max_prompt_tokens, max_new_tokens; /* 512, 256; together within the model's context */
  int32_t micro_batch_tokens;                /* rows in memory at once; 0: the least */
  int32_t gradient_checkpointing;            /* 0 or 1 */
  int32_t reuse_rollout;                     /* -1: when memory allows (default), 0: no, 1: yes */
  int32_t examples;                          /* take the memory of grpo_trainer_sft at once: 1 */
  double beta1, beta2, eps, weight_decay;    /* AdamW: 0.9, 0.999, 1e-8, 0 */
} grpo_trainer_options;
GRPO_API grpo_status grpo_trainer_options_init(grpo_trainer_options *o, size_t size);

/* Takes the memory of the longest step that the options allow; later steps take none.  reference:
 * what a KL is measured against, or NULL; t: for texts and stop strings, or NULL.  The policy becomes
 * trainable.  The trainer holds all three. */
GRPO_API grpo_status grpo_trainer_new(grpo_model *policy, grpo_model *reference, grpo_tokenizer *t,
                                      const grpo_trainer_options *o, grpo_trainer **out);
GRPO_API void grpo_trainer_free(grpo_trainer *t);

/* 1. Samples n completions of each prompt; they are the trainer's until the next rollout. */
GRPO_API grpo_status grpo_trainer_rollout(grpo_trainer *t, const grpo_prompt *prompts, size_t count,
                                          const grpo_sampling *o);
GRPO_API size_t grpo_trainer_sample_count(const grpo_trainer *t); /* 0: nothing is rolled out */
GRPO_API grpo_status grpo_trainer_sample_at(grpo_trainer *t, size_t i, grpo_sample *out);

/* 2. A reward for each: from a callback, or numbers [count].  NaN: cannot be scored.  A callback
 * that does not return GRPO_OK ends the call with GRPO_ESCRIPT; so does an infinite reward. */
typedef grpo_status (*grpo_reward_fn)(void *user, const grpo_sample *s, double *reward);
GRPO_API grpo_status grpo_trainer_score(grpo_trainer *t, grpo_reward_fn fn, void *user);
GRPO_API grpo_status grpo_trainer_set_rewards(grpo_trainer *t, const double *rewards, size_t count);
GRPO_API grpo_status grpo_trainer_rewards(grpo_trainer *t, double *out, size_t capacity);

/* 3. Advantages of the rewards (o->group is the rollout's; o->rewards 1), or numbers of your own. */
GRPO_API grpo_status grpo_trainer_advantages(grpo_trainer *t, const grpo_advantage_options *o,
                                             double *out /* [count] or NULL */, size_t capacity);
GRPO_API grpo_status grpo_trainer_set_advantages(grpo_trainer *t, const double *advantages,
                                                 size_t count);
/* Reference log-probabilities of the rollout: wanted before an update with kl > 0. */
GRPO_API grpo_status grpo_trainer_reference(grpo_trainer *t);

/* 4. Loss, backward, clipping, AdamW.  GRPO_EDIVERGED leaves the weights as they were. */
typedef struct grpo_update_options {
  size_t size;
  const grpo_loss_options *loss; /* NULL: "grpo" with its defaults */
  double lr, max_grad_norm;      /* 1e-6, 1; max_grad_norm 0: no clipping */
  int32_t iterations;            /* updates from this rollout: 1 */
  int32_t skip_zero_std_groups;  /* groups without signal are not even run: 0 */
  uint64_t seed, step;           /* of an adapter's dropout */
} grpo_update_options;
GRPO_API grpo_status grpo_update_options_init(grpo_update_options *o, size_t size);
/* *metrics (may be NULL) is the trainer's until its next call. */
GRPO_API grpo_status grpo_trainer_update(grpo_trainer *t, const grpo_update_options *o,
                                         const grpo_metrics **metrics);

/* Demonstrations: the loss is on the target only (end it with the end token yourself). */
typedef struct grpo_example {
  const int32_t *prompt;
  size_t prompt_length;
  const int32_t *target;
  size_t target_length;
} grpo_example;
/* One optimizer step of maximum likelihood; of o only lr, max_grad_norm, seed and step count. */
GRPO_API grpo_status grpo_trainer_sft(grpo_trainer *t, const grpo_example *examples, size_t count,
                                      const grpo_update_options *o, const grpo_metrics **metrics);
/* Mean negative log-likelihood of the targets' tokens, in nats; nothing is changed. */
GRPO_API grpo_status grpo_trainer_evaluate(grpo_trainer *t, const grpo_example *examples,
                                           size_t count, double *mean, int64_t *tokens);

/* Weights (or the adapter alone), tokenizer and optimizer state into a directory.  To go on from
 * there: grpo_model_load (grpo_model_load_adapter), grpo_trainer_new, grpo_trainer_load. */
GRPO_API grpo_status grpo_trainer_save(grpo_trainer *t, const char *directory);
GRPO_API grpo_status grpo_trainer_load(grpo_trainer *t, const char *directory); /* the optimizer */

/* ---- a whole run ------------------------------------------------------------------------- */
typedef struct grpo_run grpo_run;

typedef struct grpo_run_options {
  size_t size;
  const char *path;   /* of the experiment script */
  const char *script; /* or its text; `path` then only names it in messages, and may be NULL */
  const char *const *overrides; /* "train.lr=1e-5": win over the script, as on the command line */
  size_t override_count;
  const char *const *args; /* "size=small": grpo.args of the script */
  size_t arg_count;
  const char *directory; /* where run directories are made; NULL: none, nothing is written */
  const char *resume;    /* go on with this run's directory; path and script are then not needed */
  int64_t max_steps;     /* optimizer steps in all; 0: as the script says */
} grpo_run_options;
GRPO_API grpo_status grpo_run_options_init(grpo_run_options *o, size_t size);

/* Copies the options; reads nothing yet. */
GRPO_API grpo_status grpo_run_new(grpo_context *c, const grpo_run_options *o, grpo_run **out);
GRPO_API void grpo_run_free(grpo_run *r);
/* A reward of the host's beside the script's; one of the same name is replaced.  In the log it is
 * rewards/NAME/mean.  A failing callback ends the run, or as reward.on_error says. */
GRPO_API grpo_status grpo_run_add_reward(grpo_run *r, const char *name, double weight,
                                         grpo_reward_fn fn, void *user);
/* After every optimizer step.  Anything but GRPO_OK ends the run with GRPO_ESCRIPT. */
typedef grpo_status (*grpo_step_fn)(void *user, int64_t step, const grpo_metrics *metrics);
GRPO_API grpo_status grpo_run_on_step(grpo_run *r, grpo_step_fn fn, void *user);
/* Runs to the end, or until it is stopped: both are GRPO_OK.  Once for each grpo_run.  print() of
 * the script goes to the log callback; os.exit and os.setlocale are errors there. */
GRPO_API grpo_status grpo_run_execute(grpo_run *r);
/* From callbacks or another thread: the run ends after the step at hand, with a checkpoint. */
GRPO_API grpo_status grpo_run_stop(grpo_run *r);
/* After grpo_run_execute, also when that failed: steps done in all; was it stopped (by max_steps
 * too); the run's directory ("" without), to resume from. */
GRPO_API grpo_status grpo_run_result(grpo_run *r, int64_t *steps, int32_t *stopped,
                                     const char **directory);

/* ---- tensors ----------------------------------------------------------------------------- */
/* float32, at most 4 dimensions (0: a number).  What is computed from a tensor that needs a gradient
 * keeps its inputs alive until grpo_tensor_backward, so a handle may be freed as soon as you no
 * longer name it. */
typedef struct grpo_tensor grpo_tensor;

GRPO_API grpo_status grpo_tensor_new(grpo_context *c, int32_t dimensions, const int32_t *shape,
                                     const float *values /* NULL: zeros */, int32_t requires_grad,
                                     grpo_tensor **out);
/* Normal numbers of mean 0. */
GRPO_API grpo_status grpo_tensor_randn(grpo_context *c, int32_t dimensions, const int32_t *shape,
                                       double deviation, uint64_t seed, int32_t requires_grad,
                                       grpo_tensor **out);
GRPO_API void grpo_tensor_free(grpo_tensor *t);
GRPO_API grpo_status grpo_tensor_shape(grpo_tensor *t, int32_t *dimensions, int32_t shape[4]);
/* The values themselves, valid while t is; they may be written where t was made by _new or _randn. */
GRPO_API grpo_status grpo_tensor_data(grpo_tensor *t, float **data, size_t *count);
/* NULL before a backward has reached it. */
GRPO_API grpo_status grpo_tensor_grad(grpo_tensor *t, const float **grad, size_t *count);
/* 0: what is computed from now on remembers nothing (inference); 1: as usual. */
GRPO_API grpo_status grpo_set_recording(grpo_context *c, int32_t on);

/* The small operations by name (src/grad/ops.def), broadcasting as numpy does:
 *   add sub mul div pow minimum maximum gt ge lt le eq (2 inputs), where (3)
 *   neg exp log sqrt abs sign relu gelu silu sigmoid tanh, matmul (2: [m,k] [k,n])
 *   sum mean max: args {} or {axis};  softmax log_softmax: {axis};  clamp: {low, high}
 *   transpose: {axis, axis};  reshape: {dim, ...} (one may be -1);  narrow: {axis, first, count}
 *   concat (2): {axis};  quantile: {q}
 * Axes count from 0.  GRPO_ESHAPE when shapes do not agree. */
GRPO_API grpo_status grpo_tensor_apply(grpo_context *c, const char *operation, size_t inputs,
                                       grpo_tensor *const *in, size_t count, const double *args,
                                       grpo_tensor **out);
/* x [rows, in] w^T + bias: w [out, in], bias [out] or NULL -> [rows, out] */
GRPO_API grpo_status grpo_tensor_linear(grpo_tensor *x, grpo_tensor *w, grpo_tensor *bias,
                                        grpo_tensor **out);
/* Rows ids of table [vocab, channels], plus rows positions of position_table [p, channels] (both
 * NULL: none) -> [count, channels] */
GRPO_API grpo_status grpo_tensor_embedding(grpo_tensor *table, const int32_t *ids, size_t count,
                                           grpo_tensor *position_table, const int32_t *positions,
                                           grpo_tensor **out);
/* (x - mean) / sqrt(var + eps) w + b over the last dimension */
GRPO_API grpo_status grpo_tensor_layernorm(grpo_tensor *x, grpo_tensor *w, grpo_tensor *b,
                                           double eps, grpo_tensor **out);
/* Causal attention within each of `sequences` runs of rows: softmax(q k^T / sqrt(d)) v by heads.
 * q [rows, heads d]; k, v [rows, kv_heads d]; lengths sum to rows -> [rows, heads d] */
GRPO_API grpo_status grpo_tensor_attention(grpo_tensor *q, grpo_tensor *k, grpo_tensor *v,
                                           int32_t heads, int32_t kv_heads, const int32_t *lengths,
                                           size_t sequences, grpo_tensor **out);
/* Mean over rows of -log softmax(logits [rows, vocab])[targets]; a negative target is left out.
 * normalizer: what the sum is divided by; 0: the targets that count. */
GRPO_API grpo_status grpo_tensor_cross_entropy(grpo_tensor *logits, const int32_t *targets,
                                               double normalizer, grpo_tensor **out);
/* grpo_policy_loss_from_logits as an operation: a number that can be sent backward. */
GRPO_API grpo_status grpo_tensor_policy_loss(grpo_tensor *logits, const int32_t *targets,
                                             const grpo_loss_options *o, const grpo_loss_batch *b,
                                             double temperature, grpo_tensor **out);
/* Adds d loss / d tensor to every tensor that was made with requires_grad; frees the graph. */
GRPO_API grpo_status grpo_tensor_backward(grpo_tensor *loss);

/* AdamW over tensors (arXiv:1711.05101), as torch.optim.AdamW. */
typedef struct grpo_adamw grpo_adamw;
typedef struct grpo_adamw_options {
  size_t size;
  double beta1, beta2, eps, weight_decay; /* 0.9, 0.999, 1e-8, 0 */
} grpo_adamw_options;
GRPO_API grpo_status grpo_adamw_options_init(grpo_adamw_options *o, size_t size);
GRPO_API grpo_status grpo_adamw_new(grpo_context *c, size_t count, grpo_tensor *const *tensors,
                                    const grpo_adamw_options *o, grpo_adamw **out);
/* Gradients are scaled down to max_grad_norm (0: not) and used up.  *norm (may be NULL): before. */
GRPO_API grpo_status grpo_adamw_step(grpo_adamw *a, double lr, double max_grad_norm, double *norm);
GRPO_API void grpo_adamw_free(grpo_adamw *a);

#ifdef __cplusplus
}
#endif
#endif

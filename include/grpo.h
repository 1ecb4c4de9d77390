/* grpo.h - the whole public interface of libgrpo, for C11 and C++17.
 *
 * There are three levels, from large to small:
 *   a run      grpo_run_*      trains what an experiment script describes; rewards may be yours
 *   a step     grpo_trainer_*  rolls out, scores, computes advantages, updates; you write the loop
 *   the parts  grpo_tensor_*, grpo_policy_loss*, grpo_adamw_*: tensors, gradients, losses, AdamW
 *
 * Life cycle.  You make a context first.  Every other object is made from a context and keeps it
 * alive, so you may free objects in any order.  Every *_free accepts NULL.
 *
 * Threads.  A context and the objects made from it serve one thread at a time.  Give every thread a
 * context of its own; two contexts share nothing.  A call fails with GRPO_EARG if another call is
 * using its context, in another thread or around a callback.  Callbacks may call grpo_tokenizer_*,
 * grpo_sample_field, grpo_user, grpo_set_user, grpo_cancel and grpo_run_stop only; the last two may
 * be called at any time from any thread.  Another *_free in a callback frees nothing, and the call
 * around it fails with GRPO_EARG.  The worker threads of a context block all signals.
 *
 * Errors.  A call that can fail returns a status.  grpo_message() of the context then gives the
 * sentence, until the next failure in that context.  Out parameters are written on success only,
 * unless a comment says otherwise.  No function throws, aborts, exits, prints, or changes signals,
 * the locale or the working directory.  NULL fails with GRPO_EARG unless a comment allows it.  A
 * call whose handle is NULL has no context: its sentence is grpo_message(NULL), which is always
 * that of the thread's last failure.  In a sentence prompt 1, example 1 and axis 1 are the first
 * ones; completions, parameters and numbers in brackets count from 0, as here.
 *
 * Options.  A struct of options begins with its size.  grpo_NAME_init(&o, sizeof o) sets the size
 * and every default; change what you like after that.  The library accepts a struct of an older
 * version of this file, whose missing fields have their defaults, and one of a newer version if the
 * fields that the library does not know are zero.  Where an options pointer may be NULL, NULL means
 * the defaults.
 *
 * Callbacks receive your `user` pointer.  They run on the thread that made the call, in the host's
 * locale, and must return: no longjmp, no exception.  Their arguments are valid until they return.
 *
 * Arrays are row-major, counts are elements, times are seconds, memory is bytes, and token ids
 * count from 0 in the vocabulary.  Paths are passed to the system as they are.  Every result has
 * the same bits for any number of threads.  docs/algorithms.md has the formulas.
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
#define GRPO_VERSION_MAJOR 0
#define GRPO_VERSION_MINOR 1
#define GRPO_VERSION_PATCH 0
/* For #if: GRPO_VERSION_NUMBER >= 102 stands for 0.1.2. */
#define GRPO_VERSION_NUMBER                                                                        \
  (GRPO_VERSION_MAJOR * 10000 + GRPO_VERSION_MINOR * 100 + GRPO_VERSION_PATCH)
/* The first number increases if a program compiled with an older grpo.h would no longer run, the
 * second one with every function, field or constant that is added. */
#define GRPO_ABI_VERSION   1
#define GRPO_ABI_ADDITIONS 5
GRPO_API uint32_t grpo_abi_version(void); /* GRPO_ABI_VERSION of the library */
GRPO_API const char *grpo_version(void);  /* "0.1.0" */

/* ---- status ------------------------------------------------------------------------------ */
typedef int32_t grpo_status;
#ifndef GRPO_BASE_ERR_H /* the library's own sources have this list in base/err.h */
enum {
  GRPO_OK = 0,
  GRPO_ENOMEM = 1,     /* out of memory */
  GRPO_ESHAPE = 2,     /* shapes do not agree */
  GRPO_EARG = 3,       /* bad argument, which is the caller's mistake */
  GRPO_ENOENT = 4,     /* no such file */
  GRPO_EFORMAT = 5,    /* corrupt or unsupported file */
  GRPO_EIO = 6,        /* cannot read or write */
  GRPO_ELIMIT = 7,     /* a limit was reached, or a buffer is too small */
  GRPO_ESTALE = 8,     /* used after its step has ended */
  GRPO_EDIVERGED = 9,  /* training diverged, so a loss or gradient is not finite */
  GRPO_ESCRIPT = 10,   /* error in a callback or in a script */
  GRPO_EINTERNAL = 11, /* a bug in the library */
  GRPO_ECANCELED = 12  /* cancelled by the caller */
};
#endif
GRPO_API const char *grpo_status_name(grpo_status s); /* "ESHAPE"; "?": unknown */
GRPO_API const char *grpo_status_text(grpo_status s); /* "shapes do not agree" */

/* ---- memory ------------------------------------------------------------------------------ */
/* The library takes all its memory from an allocator, except that of libc, of threads' stacks, and
 * of the JSON reader while it reads a file.  `alignment` is a power of two.  alloc returns NULL if
 * there is no memory.  Any thread may call either function. */
typedef struct grpo_allocator {
  size_t size; /* sizeof(grpo_allocator) */
  void *(*alloc)(void *user, size_t bytes, size_t alignment);
  void (*free)(void *user, void *memory);
  void *user;
} grpo_allocator;
/* Sets the allocator of the process; NULL: malloc and free again.  GRPO_EARG if a context
 * exists. */
GRPO_API grpo_status grpo_set_allocator(const grpo_allocator *a);
GRPO_API size_t grpo_memory_live(void); /* bytes that models and tensors of all contexts hold now */

/* ---- context ----------------------------------------------------------------------------- */
typedef struct grpo_context grpo_context;

enum { GRPO_LOG_INFO = 0, GRPO_LOG_WARNING = 1 };
typedef void (*grpo_log_fn)(void *user, int32_t level, const char *line);
/* A long call of this context has made `done` of at most `of` pieces of "load", "save", "sample"
 * (tokens), "reference", "update" or "sft" (examples).  It ends with GRPO_ECANCELED if this does
 * not return GRPO_OK. */
typedef grpo_status (*grpo_progress_fn)(void *user, const char *what, int64_t done, int64_t of);

typedef struct grpo_context_options {
  size_t size;
  int32_t threads; /* 0: all cores that this process may use; results do not depend on it */
  int32_t reserved;
  grpo_log_fn log; /* receives notices; NULL: they are dropped */
  void *log_user;
  grpo_progress_fn progress; /* NULL: nothing is told */
  void *progress_user;
} grpo_context_options;
GRPO_API grpo_status grpo_context_options_init(grpo_context_options *o, size_t size);

GRPO_API grpo_status grpo_context_new(const grpo_context_options *o, grpo_context **out);
GRPO_API void grpo_context_free(grpo_context *c);
/* May be called at any time from any thread: the call that is using the context now ends with
 * GRPO_ECANCELED at its next operation.  An update is then not made, of several from one rollout
 * those before it stay; a file is not written.  A step in parts ends, also between two parts.  Else
 * nothing happens if there is no call.  Code of a script is not an operation: a loop in Lua that
 * never ends cannot be cancelled. */
GRPO_API void grpo_cancel(grpo_context *c);
/* A pointer of yours on any handle, a context too; NULL at first.  Both accept NULL and may be
 * called at any time; the library does not read it. */
GRPO_API void grpo_set_user(void *handle, void *user);
GRPO_API void *grpo_user(const void *handle);
/* The last failure in one line: what failed, where, and what to do.  "" before any failure.  If c
 * is NULL: the calling thread's last failure in any context.  Valid until the next failure
 * there. */
GRPO_API const char *grpo_message(const grpo_context *c);

/* ---- tokenizer --------------------------------------------------------------------------- */
/* A tokenizer never changes. */
typedef struct grpo_tokenizer grpo_tokenizer;

/* path: a directory in Hugging Face layout, a tokenizer.json, a tiktoken rank file, a GGUF file if
 * the library was built with the extension gguf, or what grpo_model_load takes; an adapter without
 * a tokenizer has that of its base. */
GRPO_API grpo_status grpo_tokenizer_load(grpo_context *c, const char *path, grpo_tokenizer **out);
/* Ids 0..255 stand for the bytes, 256 is <|endoftext|>, 257 is <|pad|>. */
GRPO_API grpo_status grpo_tokenizer_bytes(grpo_context *c, grpo_tokenizer **out);
/* The distinct characters of the text get ids in ascending order; then come <|endoftext|> and
 * <|pad|>. */
GRPO_API grpo_status grpo_tokenizer_chars(grpo_context *c, const char *text, size_t length,
                                          grpo_tokenizer **out);
GRPO_API void grpo_tokenizer_free(grpo_tokenizer *t);

enum {
  GRPO_ADD_SPECIAL = 1,     /* adds the tokenizer's own begin and end tokens */
  GRPO_NO_PARSE_SPECIAL = 2 /* treats special tokens inside the text as plain text */
};
/* *count becomes the number of ids of the text; the first `capacity` of them are written.  If there
 * are more, the call fails with GRPO_ELIMIT and still sets *count.  With ids NULL and capacity 0 it
 * only counts. */
GRPO_API grpo_status grpo_tokenizer_encode(grpo_tokenizer *t, const char *text, size_t length,
                                           uint32_t flags, int32_t *ids, size_t capacity,
                                           size_t *count);
/* Writes text in the same way: *length bytes, followed by a 0 if there is room. */
GRPO_API grpo_status grpo_tokenizer_decode(grpo_tokenizer *t, const int32_t *ids, size_t count,
                                           int32_t skip_special, char *text, size_t capacity,
                                           size_t *length);
/* Renders a conversation with the tokenizer's chat template, in the same way; encode the text
 * without GRPO_ADD_SPECIAL.  messages: JSON, [{"role": "user", "content": "..."}, ...].  options: a
 * JSON object of what Lua's tok:chat takes, or NULL: generation_prompt (true: the text ends where
 * the assistant begins), continue_final_message, tools, documents, vars (further variables of the
 * template); and chat_template, the name or the Jinja text of another template. */
GRPO_API grpo_status grpo_tokenizer_chat(grpo_tokenizer *t, const char *messages,
                                         const char *options, char *text, size_t capacity,
                                         size_t *length);
GRPO_API grpo_status grpo_tokenizer_size(grpo_tokenizer *t, int32_t *size); /* highest id + 1 */
/* token: its spelling in the vocabulary, or the role "bos", "eos" or "pad" if no token is spelled
 * like that.  *id becomes -1 if there is none. */
GRPO_API grpo_status grpo_tokenizer_id(grpo_tokenizer *t, const char *token, int32_t *id);
/* Writes files that Hugging Face's tokenizers reads; makes the directory. */
GRPO_API grpo_status grpo_tokenizer_save(grpo_tokenizer *t, const char *directory);

/* ---- model ------------------------------------------------------------------------------- */
typedef struct grpo_model grpo_model;

typedef struct grpo_model_options {
  size_t size;
  /* Form of loaded weights: "f32" (default), "auto" (as in the file), "bf16", "int8", "nf4".  Only
   * "f32" can be trained as a whole; the others need an adapter. */
  const char *storage;
  const char *compute; /* arithmetic of products: "f32" (default) or "bf16" */
  uint64_t seed;       /* of random weights */
} grpo_model_options;
GRPO_API grpo_status grpo_model_options_init(grpo_model_options *o, size_t size);

/* path: a directory in Hugging Face layout, a .gguf file (with the extension gguf, else it is
 * refused in one line), a checkpoint, a run's directory, which stands for its newest checkpoint, an
 * adapter of PEFT, as checkpoints of a LoRA run are, or a name of the Hub that its cache has,
 * "organisation/repository", perhaps with "@revision".  The path of a model, a tokenizer or an
 * adapter is one of these everywhere in this header.  An adapter comes with its base, which is
 * base_model_name_or_path of its adapter_config.json: a path from the adapter's directory, else
 * from the current one.  EFORMAT when the files of a checkpoint are not what its manifest says. */
GRPO_API grpo_status grpo_model_load(grpo_context *c, const char *path, const grpo_model_options *o,
                                     grpo_model **out);
/* Makes a model with random weights, normal(0, initializer_range).  config is the JSON text of a
 * config.json, as docs/embedding.md shows a small one; docs/models.md lists the types.  If it
 * leaves out vocab_size, bos_token_id or eos_token_id, these come from the tokenizer, which may be
 * NULL.  The tokenizer is saved with the model. */
GRPO_API grpo_status grpo_model_new(grpo_context *c, const char *config, grpo_tokenizer *t,
                                    const grpo_model_options *o, grpo_model **out);
/* Makes a frozen copy, which can serve as the reference of the KL. */
GRPO_API grpo_status grpo_model_clone(grpo_model *m, grpo_model **out);
GRPO_API void grpo_model_free(grpo_model *m); /* a trainer that uses the model keeps it alive */

typedef struct grpo_model_facts {
  size_t size;
  int32_t vocab_size, hidden_size, layers, max_position_embeddings;
  uint64_t parameters, trainable; /* elements; tied weights count once */
} grpo_model_facts;
/* f->size must be set. */
GRPO_API grpo_status grpo_model_facts_get(grpo_model *m, grpo_model_facts *f);

/* Adds a low-rank adapter (LoRA, arXiv:2106.09685); from now on only the adapter is trained.  A
 * trainer that exists already was made for other parameters: its calls fail with GRPO_EARG.
 * targets: names such as "q_proj", separated by commas, or "all-linear", which NULL stands for. */
GRPO_API grpo_status grpo_model_add_lora(grpo_model *m, int32_t rank, double alpha, double dropout,
                                         const char *targets, uint64_t seed);
GRPO_API grpo_status grpo_model_load_adapter(grpo_model *m, const char *directory); /* of PEFT */
/* Writes Hugging Face layout; dtype: "f32", "bf16", "f16"; NULL: f32.  An adapter is merged into
 * the weights that are written.  The tokenizer is written too: the one that the model was made
 * with, or that lay beside what was loaded.  Where there is none, none is written. */
GRPO_API grpo_status grpo_model_save(grpo_model *m, const char *directory, const char *dtype);
GRPO_API grpo_status grpo_model_save_adapter(grpo_model *m, const char *directory);

/* Writes any format that `grpo export` has.  The two functions above are its short forms. */
typedef struct grpo_export_options {
  size_t size;
  /* "hf": a directory in Hugging Face layout.  "adapter": the adapter alone, a directory of PEFT,
   * or, if the path ends in .gguf, a LoRA file for llama.cpp.  "gguf" (with the extension gguf): a
   * file with weights and tokenizer.  NULL: "adapter" if the model has one that is not merged, else
   * what the path's ending says, else "hf". */
  const char *format;
  const char *dtype; /* of matrices: "f32" (NULL), "bf16", "f16"; for hf also "nf4", the layout of
                        bitsandbytes; for gguf "q8_0" and those that ext/gguf/README.md lists */
  int32_t merge;     /* 1: the adapter is merged into the weights that are written; default 0 */
  int32_t reserved;
  uint64_t shard_bytes;            /* of files of weights in hf; 0: one file */
  const char *base_name;           /* of an adapter of PEFT, the name of its base; NULL: its path */
  const grpo_tokenizer *tokenizer; /* NULL: the model's own, if it has one */
} grpo_export_options;
GRPO_API grpo_status grpo_export_options_init(grpo_export_options *o, size_t size);
/* o may be NULL.  What is wrong with the options is found before anything is written. */
GRPO_API grpo_status grpo_model_export(grpo_model *m, const char *path,
                                       const grpo_export_options *o);

/* out [count, vocab_size] becomes the logits after each of the ids; capacity is in floats. */
GRPO_API grpo_status grpo_model_logits(grpo_model *m, const int32_t *ids, size_t count, float *out,
                                       size_t capacity);
/* out [count - 1] becomes log p(ids[i + 1] | ids[0..i]) at temperature 1. */
GRPO_API grpo_status grpo_model_logprobs(grpo_model *m, const int32_t *ids, size_t count,
                                         float *out, size_t capacity);
/* Weights have Hugging Face's names; they are read and written as float32 in its layout. */
GRPO_API grpo_status grpo_model_parameter_count(grpo_model *m, int32_t *count);
GRPO_API grpo_status grpo_model_parameter_at(grpo_model *m, int32_t i, const char **name,
                                             size_t *elements); /* *name lives as long as m */
GRPO_API grpo_status grpo_model_parameter_get(grpo_model *m, const char *name, float *out,
                                              size_t capacity);
/* GRPO_EARG for a weight that is frozen in another form than f32. */
GRPO_API grpo_status grpo_model_parameter_set(grpo_model *m, const char *name, const float *values,
                                              size_t elements);

/* ---- sampling ---------------------------------------------------------------------------- */
/* One completion, as callbacks and lists show it. */
typedef struct grpo_sample {
  size_t size;
  const char *text; /* without special tokens; ends with a 0; NULL without a tokenizer */
  size_t text_length;
  const int32_t *ids;    /* [length], including the end token */
  const float *logprobs; /* [length] at the sampling temperature, before any filter */
  size_t length;
  const char *finish;      /* "eos", "stop" (by a stop string) or "length" (cut) */
  const char *prompt_text; /* as rendered; NULL outside a run */
  int64_t prompt, index;   /* position of the prompt in its call or step; position in the group */
  int64_t step;
  const void *row;        /* row of the dataset, for grpo_sample_field; NULL outside a run */
  const uint8_t *sampled; /* [length] 1: the model sampled the token, 0: it was put there by a tool,
                             an environment or an editor; NULL: it sampled all of them */
} grpo_sample;

/* s is a completion after its newest token.  Its text is what is complete so far: it does not end
 * within a character.  Its finish is NULL.  If this does not return GRPO_OK, the call ends with
 * GRPO_ECANCELED. */
typedef grpo_status (*grpo_token_fn)(void *user, const grpo_sample *s);

typedef struct grpo_sampling {
  size_t size;
  int32_t max_new_tokens; /* 0 (default): 256 in grpo_generate, the trainer's own in a rollout */
  int32_t n;              /* completions per prompt; 0 (default): 1, or the trainer's group_size */
  double temperature;     /* divides the logits; default 1; 0: greedy */
  double top_p, min_p;    /* defaults 1 and 0, which are off */
  int32_t top_k;          /* default 0, which is off */
  uint32_t step;          /* with seed, prompt's index, completion and token: the random number */
  double repetition_penalty; /* default 1, which is off */
  uint64_t seed;
  const char *const *stop; /* [stops] strings that end a completion; they stay in its text */
  size_t stops;
  const char *stop_regex; /* PCRE2 pattern that ends a completion; NULL: none */
  const char *grammar;    /* GBNF, as llama.cpp writes it, that every completion keeps to */
  const char *regex;      /* a regular expression in its place; NULL: any text, as with grammar */
  grpo_token_fn on_token; /* called after every token; NULL: nothing is called */
  void *on_token_user;
} grpo_sampling;
GRPO_API grpo_status grpo_sampling_init(grpo_sampling *o, size_t size);

typedef struct grpo_prompt {
  const int32_t *ids; /* [length], at least 1 */
  size_t length;
  uint32_t index; /* number of the prompt in the run, which selects its random numbers */
  uint32_t reserved;
} grpo_prompt;

/* Field `name` ("answer") of the dataset's row as text; NULL if there is none, or if it is neither
 * text nor a number.  Call it inside a callback of a run only; the text is valid until that
 * returns. */
GRPO_API const char *grpo_sample_field(const grpo_sample *s, const char *name);

typedef struct grpo_samples grpo_samples;
/* t makes the texts and finds stop strings; it may be NULL.  Completions of prompt 0 come first. */
GRPO_API grpo_status grpo_generate(grpo_model *m, grpo_tokenizer *t, const grpo_prompt *prompts,
                                   size_t count, const grpo_sampling *o, grpo_samples **out);
GRPO_API size_t grpo_samples_count(const grpo_samples *s); /* NULL: 0 */
/* *out (out->size must be set) points into s. */
GRPO_API grpo_status grpo_samples_at(const grpo_samples *s, size_t i, grpo_sample *out);
GRPO_API void grpo_samples_free(grpo_samples *s);

/* ---- reward models ----------------------------------------------------------------------- */
/* A decoder with a sequence-classification head, which gives a text one logit for each label; a
 * reward model has one label.  Callbacks cannot call these functions with a model of their own
 * context: score after the rollout and pass the result to grpo_trainer_set_rewards. */
typedef struct grpo_reward_model grpo_reward_model;

/* path: a directory in Hugging Face layout with score.weight.  The tokenizer beside the weights is
 * loaded too, if there is one. */
GRPO_API grpo_status grpo_reward_model_load(grpo_context *c, const char *path,
                                            const grpo_model_options *o, grpo_reward_model **out);
GRPO_API void grpo_reward_model_free(grpo_reward_model *r);
GRPO_API grpo_status grpo_reward_model_labels(grpo_reward_model *r, int32_t *labels);
/* logits [count, labels] of texts that each end with a 0; capacity is in floats.  GRPO_EARG without
 * a tokenizer. */
GRPO_API grpo_status grpo_reward_model_score(grpo_reward_model *r, const char *const *texts,
                                             size_t count, float *logits, size_t capacity);
/* logits [count, labels] of token ids; the index of a prompt is not read. */
GRPO_API grpo_status grpo_reward_model_score_ids(grpo_reward_model *r, const grpo_prompt *texts,
                                                 size_t count, float *logits, size_t capacity);

/* ---- metrics ----------------------------------------------------------------------------- */
typedef struct grpo_metric {
  const char *name; /* TRL's name: "loss", "completions/mean_length"; see docs/lua-api.md */
  double value;
} grpo_metric;
typedef struct grpo_metrics {
  size_t size;
  size_t count;
  const grpo_metric *items; /* [count], sorted by name, without those that do not apply */
} grpo_metrics;
GRPO_API double grpo_metric_get(const grpo_metrics *m, const char *name); /* NaN: not there */

/* ---- losses ------------------------------------------------------------------------------ */
/* The settings of a policy loss.  docs/algorithms.md and lua/grpo/losses.lua have the names,
 * formulas and sources.  NaN and NULL stand for the default of the loss. */
typedef struct grpo_loss_options {
  size_t size;
  const char *loss;       /* "grpo", or another name that train.loss has in docs/options.md; "nll":
                       maximum likelihood */
  double clip, clip_high; /* the ratio is clipped to 1 - clip .. 1 + clip_high (default: clip) */
  double delta;           /* upper bound of the ratio; 0: none */
  const char *importance; /* "token" or "sequence" */
  const char *kl_estimator; /* "k2", "k3"; a trainer also knows "full" */
  double kl;                /* beta, the coefficient of the KL; 0: none */
  double off_policy_mask;   /* threshold; NaN: off */
  double sampler_min, sampler_max;
  const char *sampler_correction; /* "token_truncate", "token_mask", "sequence_truncate",
                                     "sequence_mask"; NULL: none */
  double entropy;                 /* coefficient of the bonus; default 0 */
  double top_entropy_quantile;    /* for a trainer only: share of tokens in the policy term; 1 */
  double sapo_pos, sapo_neg, cispo_cap;
  double vespo_k_pos, vespo_lambda_pos, vespo_k_neg, vespo_lambda_neg;
  int32_t kl_bias_correction;
  int32_t max_new_tokens; /* dr_grpo's denominator; 0: the trainer's, or the longest sequence */
  int32_t mask_truncated; /* for a trainer only: 1 leaves cut completions out of the loss */
  int32_t reserved;
  /* for a trainer only: Clip-Cov and KL-Cov choose among the tokens of a step; ratio 0: not */
  double clip_cov_ratio, clip_cov_low, clip_cov_high; /* defaults 0, 1, 5 */
  double kl_cov_ratio, kl_cov_coef;                   /* 0, 1 */
} grpo_loss_options;
GRPO_API grpo_status grpo_loss_options_init(grpo_loss_options *o, size_t size);

/* The input of a loss: `count` tokens, one sequence after another. */
typedef struct grpo_loss_batch {
  size_t size;
  size_t count;           /* N */
  size_t sequences;       /* 0: one */
  const int32_t *lengths; /* [sequences], whose sum is N; may be NULL for one sequence */
  const float *advantage; /* [N]; may be NULL for "nll" only */
  const float *mask;      /* [N] 0 or 1; NULL: all 1 */
  const float *old_logp;  /* [N]; NULL: the log-probabilities themselves, so that the ratio is 1 */
  const float *ref_logp;  /* [N]; needed if kl > 0 */
  const float *sampler_logp; /* [N]; needed for a sampler correction */
  double num_sequences;      /* of the whole update; 0: of the batch */
  double num_tokens;         /* normaliser: masked tokens of the whole step; 0: of the batch */
} grpo_loss_batch;
GRPO_API grpo_status grpo_loss_batch_init(grpo_loss_batch *b, size_t size);

/* Value and gradient of a policy loss of log-probabilities [N] at the sampling temperature and
 * entropies [N]; without a bonus entropy may be NULL.  d_logp and d_entropy [N] become
 * d value / d input; they may be NULL.  o NULL: "grpo" with its defaults, as after
 * grpo_loss_options_init. */
GRPO_API grpo_status grpo_policy_loss(grpo_context *c, const grpo_loss_options *o,
                                      const grpo_loss_batch *b, const float *logp,
                                      const float *entropy, double *value, float *d_logp,
                                      float *d_entropy);
/* Computes the loss from logits [N, vocab], whose row i predicts targets[i].  d_logits [N, vocab]
 * may be NULL.  o NULL: "grpo" with its defaults, as above; the Lua function grpo.loss_from_logits
 * has another default, "dapo" with clip_high = clip. */
GRPO_API grpo_status grpo_policy_loss_from_logits(grpo_context *c, const grpo_loss_options *o,
                                                  const grpo_loss_batch *b, const float *logits,
                                                  int32_t vocab, const int32_t *targets,
                                                  double temperature, double *value,
                                                  float *d_logits);

/* Advantages from rewards (DeepSeekMath, arXiv:2402.03300, and variants). */
typedef struct grpo_advantage_options {
  size_t size;
  const char *scale;     /* "group" (default), "batch", "none" */
  const char *baseline;  /* "mean" (default), "leave_one_out", "none" */
  int32_t group;         /* completions per prompt, which follow one another */
  int32_t rewards;       /* rewards per completion; default 1 */
  const double *weights; /* [rewards]; NULL: all 1 */
  int32_t normalize, normalize_then_sum;
  double clip_low, clip_high; /* bounds of the total; NaN: none */
} grpo_advantage_options;
GRPO_API grpo_status grpo_advantage_options_init(grpo_advantage_options *o, size_t size);
/* rewards [count, o->rewards], NaN: the reward does not apply.  total and advantage [count] may be
 * NULL. */
GRPO_API grpo_status grpo_advantages(grpo_context *c, const grpo_advantage_options *o, size_t count,
                                     const double *rewards, double *total, double *advantage);

/* ---- the step ---------------------------------------------------------------------------- */
typedef struct grpo_trainer grpo_trainer;

typedef struct grpo_trainer_options {
  size_t size;
  int32_t prompts_per_step, group_size;      /* defaults 8, 8 */
  int32_t max_prompt_tokens, max_new_tokens; /* 512, 256; the sum must fit the model's context */
  int32_t micro_batch_tokens;                /* rows in memory at once; 0: as few as possible */
  int32_t gradient_checkpointing;            /* 0 or 1; default 0 */
  int32_t reuse_rollout;                     /* -1 (default): if memory allows; 0: no; 1: yes */
  int32_t examples;                          /* 1 (default): also allocate for grpo_trainer_sft */
  double beta1, beta2, eps, weight_decay;    /* AdamW: 0.9, 0.999, 1e-8, 0 */
  const char *optimizer;   /* "adamw" (NULL, the default), "adamw_8bit" or "lion", whose paper has a
                            beta2 of 0.99 */
  int32_t gradient_blocks; /* of groups whose gradients are summed apart; 0 (default): each group,
                              or fewer where the sums were more than 512 MiB */
  int32_t renormalize;     /* 1 (default): log-probabilities are over the tokens that top_k, top_p
                              and min_p left; 0: over all tokens */
  double router_aux_loss_coef; /* of the auxiliary loss of a mixture's routers, which is added to
                                  the loss; default 0 */
} grpo_trainer_options;
GRPO_API grpo_status grpo_trainer_options_init(grpo_trainer_options *o, size_t size);

/* Allocates the memory of the longest step that the options allow; later steps allocate none.  The
 * KL is measured against `reference`, which may be NULL; t makes texts and finds stop strings, and
 * may be NULL.  The policy becomes trainable.  The trainer keeps all three alive. */
GRPO_API grpo_status grpo_trainer_new(grpo_model *policy, grpo_model *reference, grpo_tokenizer *t,
                                      const grpo_trainer_options *o, grpo_trainer **out);
GRPO_API void grpo_trainer_free(grpo_trainer *t);

/* 1. Rollout: samples n completions of each prompt, which the trainer keeps until the next
 * rollout. */
GRPO_API grpo_status grpo_trainer_rollout(grpo_trainer *t, const grpo_prompt *prompts, size_t count,
                                          const grpo_sampling *o);
GRPO_API size_t grpo_trainer_sample_count(const grpo_trainer *t); /* 0: there is no rollout */
GRPO_API grpo_status grpo_trainer_sample_at(grpo_trainer *t, size_t i, grpo_sample *out);

/* Or samples made elsewhere, as by a game, another process or an older policy.  They take the place
 * of a rollout; prompt 0's come first, as many for each prompt.  Of every sample ids and
 * length are read; logprobs at this temperature of the policy that sampled it, of all samples or of
 * none (then they are those of the trainer's policy); finish (NULL: "eos") and sampled. */
GRPO_API grpo_status grpo_trainer_put(grpo_trainer *t, const grpo_prompt *prompts, size_t count,
                                      const grpo_sample *samples, size_t sample_count,
                                      double temperature);

/* 2. Rewards: one per completion, from a callback, or an array [count].  NaN: cannot be scored.  If
 * a callback does not return GRPO_OK, or gives an infinite reward, the call fails with
 * GRPO_ESCRIPT. */
typedef grpo_status (*grpo_reward_fn)(void *user, const grpo_sample *s, double *reward);
GRPO_API grpo_status grpo_trainer_score(grpo_trainer *t, grpo_reward_fn fn, void *user);
GRPO_API grpo_status grpo_trainer_set_rewards(grpo_trainer *t, const double *rewards, size_t count);
GRPO_API grpo_status grpo_trainer_rewards(grpo_trainer *t, double *out, size_t capacity);

/* 3. Advantages: from the rewards, where o->group is ignored and o->rewards must be 1, or your
 * own. */
GRPO_API grpo_status grpo_trainer_advantages(grpo_trainer *t, const grpo_advantage_options *o,
                                             double *out /* [count] or NULL */, size_t capacity);
GRPO_API grpo_status grpo_trainer_set_advantages(grpo_trainer *t, const double *advantages,
                                                 size_t count);
/* Computes the reference's log-probabilities of the rollout; an update with kl > 0 needs them. */
GRPO_API grpo_status grpo_trainer_reference(grpo_trainer *t);

/* 4. Update: loss, backward, clipping, the optimizer.  GRPO_EDIVERGED: an optimizer step met a
 * value that is not finite and was not taken; of `iterations` those before it stay, as the message
 * says. */
typedef struct grpo_update_options {
  size_t size;
  const grpo_loss_options *loss; /* NULL: "grpo" with its defaults */
  double lr, max_grad_norm;      /* defaults 1e-6, 1; max_grad_norm 0: no clipping */
  int32_t iterations;            /* updates from this rollout; default 1 */
  int32_t skip_zero_std_groups;  /* 1: leave groups out whose rewards are all equal; default 0 */
  uint64_t seed, step;           /* of an adapter's dropout and of Clip-Cov */
  int32_t accumulate; /* 1: no optimizer step; the gradient is added to the trainer's sum, which is
                         zero at first; default 0 */
  int32_t reserved;
} grpo_update_options;
GRPO_API grpo_status grpo_update_options_init(grpo_update_options *o, size_t size);
/* *metrics is valid until the next call of the trainer; metrics may be NULL. */
GRPO_API grpo_status grpo_trainer_update(grpo_trainer *t, const grpo_update_options *o,
                                         const grpo_metrics **metrics);

/* A demonstration.  Only the target's tokens count in the loss; put the end token at its end. */
typedef struct grpo_example {
  const int32_t *prompt;
  size_t prompt_length;
  const int32_t *target;
  size_t target_length;
} grpo_example;
/* Makes one update of maximum likelihood; it reads only lr, max_grad_norm, seed, step and
 * accumulate of o. */
GRPO_API grpo_status grpo_trainer_sft(grpo_trainer *t, const grpo_example *examples, size_t count,
                                      const grpo_update_options *o, const grpo_metrics **metrics);
/* Computes the mean negative log-likelihood of the targets' tokens, in nats; changes nothing. */
GRPO_API grpo_status grpo_trainer_evaluate(grpo_trainer *t, const grpo_example *examples,
                                           size_t count, double *mean, int64_t *tokens);

/* A whole step in parts, for a program that keeps a frame rate: rollout, rewards, reference (if
 * the loss has a kl), advantages, update.  What the struct points to must stay as it is until the
 * step is done.  The bits are those of the calls above. */
typedef struct grpo_step {
  size_t size;
  const grpo_prompt *prompts;
  size_t count;
  const grpo_sampling *sampling; /* NULL: the defaults; without on_token */
  grpo_reward_fn reward;
  void *user;                               /* of the reward */
  const grpo_advantage_options *advantages; /* NULL: the defaults */
  const grpo_update_options *update;        /* NULL: the defaults */
  /* In place of prompts, sampling, reward and advantages: the step of grpo_trainer_sft. */
  const grpo_example *examples; /* NULL: none */
  size_t example_count;
} grpo_step;
GRPO_API grpo_status grpo_step_init(grpo_step *s, size_t size);
/* Begins a step.  One that is not done yet is given up, and its update is not made.  step NULL: no
 * other begins. */
GRPO_API grpo_status grpo_trainer_begin(grpo_trainer *t, const grpo_step *step);
/* Works for about budget_us microseconds (0: to the end), at least one operation.  *done becomes 1
 * with the last part, and *metrics, which may be NULL, what grpo_trainer_update gives; before that
 * NULL.  A failure ends the step, and so does grpo_cancel, which may come between two parts: the
 * next one then fails with GRPO_ECANCELED.  Until then other calls of the context
 * but grpo_tokenizer_* are refused with GRPO_EARG; grpo_trainer_free gives the step up.  The reward
 * is called on your thread; the rest works on one of the trainer's own while yours waits. */
GRPO_API grpo_status grpo_trainer_advance(grpo_trainer *t, int64_t budget_us, int32_t *done,
                                          const grpo_metrics **metrics);

/* The sum of accumulated gradients, by parameter.  You may write it too, as with a sum over several
 * processes. */
GRPO_API grpo_status grpo_trainer_gradient_get(grpo_trainer *t, const char *name, float *out,
                                               size_t capacity);
GRPO_API grpo_status grpo_trainer_gradient_set(grpo_trainer *t, const char *name,
                                               const float *values, size_t elements);
/* Makes an optimizer step with the sum, by lr and max_grad_norm of o; then the sum is zero.  *norm
 * becomes its norm before clipping; norm may be NULL. */
GRPO_API grpo_status grpo_trainer_apply(grpo_trainer *t, const grpo_update_options *o,
                                        double *norm);

/* The optimizer's state in memory.  *length becomes its bytes; with out NULL and capacity 0 that is
 * all.  The bytes are for this version of the library and this kind of machine; others and damaged
 * ones are refused with GRPO_EFORMAT, and nothing changes. */
GRPO_API grpo_status grpo_trainer_state_get(grpo_trainer *t, void *out, size_t capacity,
                                            size_t *length);
GRPO_API grpo_status grpo_trainer_state_set(grpo_trainer *t, const void *state, size_t length);

/* Saves the weights (or the adapter alone), the tokenizer and the optimizer's state in a directory.
 * To continue, call grpo_model_load (or grpo_model_load_adapter), grpo_trainer_new and
 * grpo_trainer_load, which loads the optimizer's state. */
GRPO_API grpo_status grpo_trainer_save(grpo_trainer *t, const char *directory);
GRPO_API grpo_status grpo_trainer_load(grpo_trainer *t, const char *directory);

/* ---- a whole run ------------------------------------------------------------------------- */
typedef struct grpo_run grpo_run;
struct lua_State;

typedef struct grpo_run_options {
  size_t size;
  const char *path;   /* the experiment script */
  const char *script; /* or its text; path then only names it in messages, and may be NULL */
  const char *const *overrides; /* "train.lr=1e-5" replaces the script's value, as in `grpo run` */
  size_t override_count;
  const char *const *args; /* "size=small" becomes grpo.args.size in the script */
  size_t arg_count;
  const char *directory; /* where the run's directory is made; NULL: nothing is written */
  const char *resume;    /* directory of a run to resume, which needs neither path nor script, but
                          * all rewards that grpo_run_add_reward gave it (EARG without them) */
  int64_t max_steps;     /* steps in all, each a rollout with its updates; 0: as the script says */
  /* A Lua 5.4 state of yours, with its standard libraries, that the run uses; NULL: one of its own.
   * The script sees your globals, and its print is yours.  The state must not run meanwhile, and
   * must be closed after grpo_run_free. */
  struct lua_State *lua;
} grpo_run_options;
GRPO_API grpo_status grpo_run_options_init(grpo_run_options *o, size_t size);

/* Copies the options; reads no file yet. */
GRPO_API grpo_status grpo_run_new(grpo_context *c, const grpo_run_options *o, grpo_run **out);
GRPO_API void grpo_run_free(grpo_run *r);
/* Adds a reward of the host to those of the script; it replaces a reward of that name.  Its metric
 * is rewards/NAME/mean.  If the callback fails, the run ends, or does what reward.on_error says. */
GRPO_API grpo_status grpo_run_add_reward(grpo_run *r, const char *name, double weight,
                                         grpo_reward_fn fn, void *user);
/* Adds a reward of all completions of a prompt at once (rewards [count], NaN: does not apply), or
 * of each token of a completion (rewards [s->length]). */
typedef grpo_status (*grpo_group_reward_fn)(void *user, const grpo_sample *samples, size_t count,
                                            double *rewards);
typedef grpo_status (*grpo_token_reward_fn)(void *user, const grpo_sample *s, double *rewards);
GRPO_API grpo_status grpo_run_add_group_reward(grpo_run *r, const char *name, double weight,
                                               grpo_group_reward_fn fn, void *user);
GRPO_API grpo_status grpo_run_add_token_reward(grpo_run *r, const char *name, double weight,
                                               grpo_token_reward_fn fn, void *user);
/* The script calls fn as grpo.host.NAME(...): for rows of a dataset, a schedule, a metric, or what
 * else it asks you for.  arguments: JSON, the list of those of the call.  Within fn,
 * grpo_answer_json gives what the call returns, as JSON; without it the call returns nil.  If fn
 * does not return GRPO_OK, the call raises an error in the script. */
typedef struct grpo_answer grpo_answer;
typedef grpo_status (*grpo_call_fn)(void *user, const char *arguments, grpo_answer *answer);
GRPO_API grpo_status grpo_run_add_function(grpo_run *r, const char *name, grpo_call_fn fn,
                                           void *user);
GRPO_API grpo_status grpo_answer_json(grpo_answer *a, const char *json, size_t length);
/* fn is called after every step.  If it does not return GRPO_OK, the run ends with GRPO_ESCRIPT. */
typedef grpo_status (*grpo_step_fn)(void *user, int64_t step, const grpo_metrics *metrics);
GRPO_API grpo_status grpo_run_on_step(grpo_run *r, grpo_step_fn fn, void *user);
/* Runs until the end, or until the run is stopped; both return GRPO_OK.  A grpo_run is executed
 * once.  print() in the script writes to the log callback, in a state of yours it is your own;
 * os.exit and os.setlocale raise errors there. */
GRPO_API grpo_status grpo_run_execute(grpo_run *r);
/* For callbacks or another thread: the run ends after the current step, with a checkpoint. */
GRPO_API grpo_status grpo_run_stop(grpo_run *r);
/* To be called after grpo_run_execute, also if that failed.  *steps: those done in all; *stopped: 1
 * if the run was stopped, also by max_steps; *directory: for resuming; "" if there is none. */
GRPO_API grpo_status grpo_run_result(grpo_run *r, int64_t *steps, int32_t *stopped,
                                     const char **directory);

/* The Lua module `grpo`, for a Lua 5.4 state of yours that is linked with the same liblua5.4:
 * luaL_requiref(L, "grpo", luaopen_grpo, 0).  It is what grpo.so is for a stock lua5.4; its notices
 * go to stderr. */
GRPO_API int luaopen_grpo(struct lua_State *L);

/* ---- tensors ----------------------------------------------------------------------------- */
/* A tensor is float32 with up to 4 dimensions; one with 0 is a number.  A result that needs a
 * gradient keeps its inputs alive until grpo_tensor_backward, so you may free a handle as soon as
 * you do not use it any more. */
typedef struct grpo_tensor grpo_tensor;

GRPO_API grpo_status grpo_tensor_new(grpo_context *c, int32_t dimensions, const int32_t *shape,
                                     const float *values /* NULL: zeros */, int32_t requires_grad,
                                     grpo_tensor **out);
/* Makes a tensor of normal random numbers with mean 0. */
GRPO_API grpo_status grpo_tensor_randn(grpo_context *c, int32_t dimensions, const int32_t *shape,
                                       double deviation, uint64_t seed, int32_t requires_grad,
                                       grpo_tensor **out);
GRPO_API void grpo_tensor_free(grpo_tensor *t);
GRPO_API grpo_status grpo_tensor_shape(grpo_tensor *t, int32_t *dimensions, int32_t shape[4]);
/* *data points to the values, as long as t lives.  You may write them if t comes from _new or
 * _randn. */
GRPO_API grpo_status grpo_tensor_data(grpo_tensor *t, float **data, size_t *count);
/* *grad is NULL until a grpo_tensor_backward has reached t. */
GRPO_API grpo_status grpo_tensor_grad(grpo_tensor *t, const float **grad, size_t *count);
/* 0: operations from now on record nothing for backward, as in inference; 1: they do (default). */
GRPO_API grpo_status grpo_set_recording(grpo_context *c, int32_t on);

/* Applies one of the small operations (src/grad/ops.def), which broadcast as numpy does:
 *   add sub mul div pow minimum maximum gt ge lt le eq (2 inputs), where (3)
 *   neg exp log sqrt abs sign relu gelu silu sigmoid tanh, matmul (2: [m,k] [k,n])
 *   sum mean max: args {} or {axis};  softmax log_softmax: {axis};  clamp: {low, high}
 *   transpose: {axis, axis};  reshape: {dim, ...} (one may be -1);  narrow: {axis, first, count}
 *   concat (2): {axis};  quantile: {q}
 * Axes count from 0.  GRPO_ESHAPE if shapes do not agree. */
GRPO_API grpo_status grpo_tensor_apply(grpo_context *c, const char *operation, size_t inputs,
                                       grpo_tensor *const *in, size_t count, const double *args,
                                       grpo_tensor **out);
/* x [rows, in] w^T + bias: w [out, in], bias [out] or NULL -> [rows, out] */
GRPO_API grpo_status grpo_tensor_linear(grpo_tensor *x, grpo_tensor *w, grpo_tensor *bias,
                                        grpo_tensor **out);
/* table[ids] + position_table[positions] -> [count, channels]: table [vocab, channels],
 * position_table [p, channels]; the last two may both be NULL. */
GRPO_API grpo_status grpo_tensor_embedding(grpo_tensor *table, const int32_t *ids, size_t count,
                                           grpo_tensor *position_table, const int32_t *positions,
                                           grpo_tensor **out);
/* (x - mean) / sqrt(var + eps) w + b over the last dimension */
GRPO_API grpo_status grpo_tensor_layernorm(grpo_tensor *x, grpo_tensor *w, grpo_tensor *b,
                                           double eps, grpo_tensor **out);
/* Causal attention within each of the sequences, whose rows follow one another:
 * softmax(q k^T / sqrt(d)) v for each head.  q [rows, heads d]; k, v [rows, kv_heads d];
 * lengths [sequences], whose sum is rows -> [rows, heads d] */
GRPO_API grpo_status grpo_tensor_attention(grpo_tensor *q, grpo_tensor *k, grpo_tensor *v,
                                           int32_t heads, int32_t kv_heads, const int32_t *lengths,
                                           size_t sequences, grpo_tensor **out);
/* Mean over rows of -log softmax(logits [rows, vocab])[targets], without rows whose target is
 * negative.  The sum is divided by normalizer; 0: by the number of rows that count. */
GRPO_API grpo_status grpo_tensor_cross_entropy(grpo_tensor *logits, const int32_t *targets,
                                               double normalizer, grpo_tensor **out);
/* grpo_policy_loss_from_logits as an operation, whose result can go into grpo_tensor_backward. */
GRPO_API grpo_status grpo_tensor_policy_loss(grpo_tensor *logits, const int32_t *targets,
                                             const grpo_loss_options *o, const grpo_loss_batch *b,
                                             double temperature, grpo_tensor **out);
/* Adds d loss / d tensor to the gradient of every tensor made with requires_grad; frees the
 * graph. */
GRPO_API grpo_status grpo_tensor_backward(grpo_tensor *loss);

/* AdamW (arXiv:1711.05101) over tensors, as in torch.optim.AdamW. */
typedef struct grpo_adamw grpo_adamw;
typedef struct grpo_adamw_options {
  size_t size;
  double beta1, beta2, eps, weight_decay; /* 0.9, 0.999, 1e-8, 0 */
} grpo_adamw_options;
GRPO_API grpo_status grpo_adamw_options_init(grpo_adamw_options *o, size_t size);
GRPO_API grpo_status grpo_adamw_new(grpo_context *c, size_t count, grpo_tensor *const *tensors,
                                    const grpo_adamw_options *o, grpo_adamw **out);
/* Scales the gradients down to max_grad_norm (0: does not), makes the step, and sets them to zero.
 * *norm becomes their norm before; norm may be NULL. */
GRPO_API grpo_status grpo_adamw_step(grpo_adamw *a, double lr, double max_grad_norm, double *norm);
GRPO_API void grpo_adamw_free(grpo_adamw *a);

#ifdef __cplusplus
}
#endif
#endif

/* api.h - what the files of src/api share: contexts, and how a call of grpo.h begins and ends.
 *
 *   grpo_status grpo_model_save(grpo_model *m, ...) {
 *     Call k;
 *     try(call_begin(&k, m ? m->c : NULL));
 *     return call_end(&k, save(m, ...));
 *   }
 *
 * call_begin refuses a context that is at work, sends notices to its log and switches to the C
 * locale; call_end undoes that and keeps the message of a failure.
 */
#ifndef GRPO_API_API_H
#define GRPO_API_API_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/regex.h"
#include "grad/attrs.h"
#include "grad/value.h"
#include "grpo.h"
#include "model/decode.h"
#include "model/model.h"
#include "os/locale.h"
#include "text/tokenizer.h"

struct grpo_context {
  atomic_int refs; /* handles that keep it alive, its own included */
  atomic_bool busy;
  int threads; /* asked for; 0: all cores */
  grpo_log_fn log;
  void *log_user;
  LogTarget target;
  LocaleMark host; /* the locale of the host while a call is running */
  Pool *pool;      /* made when first needed */
  Arena arena;     /* scratch of operations */
  Ctx cx;
  bool off; /* record nothing */
  char message[1024];
};

struct grpo_tokenizer {
  grpo_context *c;
  Tokenizer *t;
};
struct grpo_model {
  grpo_context *c;
  Model *m;
};

/* ---- calls ------------------------------------------------------------------------------- */
typedef struct Call {
  grpo_context *c;
  bool holds;
  LocaleMark locale;
  const LogTarget *log;
} Call;

Status call_begin(Call *k, grpo_context *c);
/* For what callbacks may call: a context at work is not refused. */
Status call_inside(Call *k, grpo_context *c);
grpo_status call_end(Call *k, Status s);
/* Around a call of the host's: its own locale. */
LocaleMark callback_enter(const grpo_context *c);
void callback_leave(LocaleMark ours);

/* The context of another handle stays as long as that one. */
grpo_context *context_retain(grpo_context *c);
void context_release(grpo_context *c);
Status context_pool(grpo_context *c, Pool **out);
Status context_ctx(grpo_context *c, const Ctx **out);

/* ---- structs with a size ------------------------------------------------------------------ */
/* *o of `size` bytes becomes the defaults, the size set. */
grpo_status options_init(void *o, size_t size, const void *defaults, size_t known);
/* `to` holds the defaults; a host's struct (NULL: none) is laid over them.  `name` is for messages. */
Status options_take(void *to, size_t known, const void *from, const char *name);
/* Fills a host's struct whose size is set. */
Status struct_put(void *to, const void *value, size_t known, const char *name);

Status need(const void *pointer, const char *name); /* EARG: NULL */
/* The place of `word` among "a|b|c"; EARG that names them. */
Status choice_of(const char *what, const char *word, const char *choices, int *out);

/* ---- samples.c ---------------------------------------------------------------------------- */
/* Texts of completions, end to end; their memory is kept. */
typedef struct Texts {
  Buf bytes;
  size_t *at; /* [n + 1] */
  size_t cap;
} Texts;
Status texts_decode(Texts *t, const Tokenizer *tok /* NULL: none */, const Completion *c, size_t n);
void texts_free(Texts *t);
void sample_fill(grpo_sample *s, const Completion *c, const Texts *t, size_t i, int group);
/* *regex is the caller's to free, also after a failure. */
Status sampling_take(const grpo_sampling *o, Sampling *out, Regex **regex);
Status prompts_check(const grpo_prompt *p, size_t n);

/* ---- loss.c ------------------------------------------------------------------------------- */
Status loss_take(const grpo_loss_options *o, LossOptions *out);
/* Advantages of o over [n, o->rewards]; NULL outputs are not wanted. */
Status advantages_take(const grpo_advantage_options *o, int group, size_t n, const double *rewards,
                       double *total, double *advantage);

#endif

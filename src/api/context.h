/* context.h - contexts, and how every call of grpo.h begins and ends.
 *
 *   grpo_status grpo_model_save(grpo_model *m, ...) {
 *     in_call(call_begin, m ? m->c : NULL, save(m, ...));
 *   }
 *
 * call_begin refuses a context that another call is using, sends notices to the context's log,
 * switches to the C locale and hears of progress.  call_end undoes that and keeps the message of a
 * failure.
 */
#ifndef GRPO_API_CONTEXT_H
#define GRPO_API_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/progress.h"
#include "grpo.h"
#include "kern/kern.h"
#include "os/locale.h"
#include "script/script.h"

/* The fields that every handle begins with: the context that it was made from, of a context NULL,
 * and the host's pointer. */
#define HANDLE_FIELDS                                                                              \
  grpo_context *c;                                                                                 \
  void *user

struct grpo_context {
  HANDLE_FIELDS;
  atomic_int refs; /* handles that keep it alive, its own included */
  atomic_bool busy, cancel;
  int threads; /* as asked for; 0: all cores */
  grpo_log_fn log;
  void *log_user;
  LogTarget target;
  grpo_progress_fn progress;
  void *progress_user;
  ProgressWatch watch;
  LocaleMark host; /* the host's locale while a call is running */
  Pool *pool;      /* made when it is first needed */
  Arena arena;     /* scratch memory of operations */
  Ctx cx;
  bool off;              /* operations record nothing for backward */
  Script *script;        /* the Lua half, opened when it is first needed; NULL: not yet */
  atomic_bool scripting; /* a call is using it */
  const void *parts;   /* the trainer that makes a step in parts, in which no other call may use the
                        context; NULL: none */
  int inside;          /* callbacks that are running, one within another */
  const char *refused; /* the function that one of them called to free a handle; NULL: none */
  char message[1024];
};

typedef struct Call {
  grpo_context *c;
  bool holds; /* the call has set c->busy */
  LocaleMark locale;
  const LogTarget *log;
  const ProgressWatch *watch;
} Call;

Status call_begin(Call *k, grpo_context *c);
/* Begins a call that makes a part of a step, which call_begin refuses. */
Status call_part(Call *k, grpo_context *c);
/* Begins a call that callbacks may make, for which a busy context is fine. */
Status call_inside(Call *k, grpo_context *c);
grpo_status call_end(Call *k, Status s);
/* The body of a function of grpo.h: `work` after `begin`, one of the two above. */
#define in_call(begin, context, work)                                                              \
  do {                                                                                             \
    Call call_;                                                                                    \
    try(begin(&call_, context));                                                                   \
    return call_end(&call_, work);                                                                 \
  } while (0)
/* EARG if what a host passed, named by `what`, belongs to another context. */
Status same_context(const grpo_context *of, const grpo_context *c, const char *what);
/* These two stand around a call of the host's function, which runs in the host's locale.  EARG: it
 * has freed a handle, which call_end() reports too. */
LocaleMark callback_enter(grpo_context *c);
Status callback_leave(grpo_context *c, LocaleMark ours);
/* Is a callback running, which `function` must not free a handle in?  The call around it fails. */
bool free_refused(grpo_context *c, const char *function);

/* A handle that is made from a context retains it, and releases it when it is freed. */
grpo_context *context_retain(grpo_context *c);
void context_release(grpo_context *c);
Status context_pool(grpo_context *c, Pool **out);
Status context_ctx(grpo_context *c, const Ctx **out);
/* The context's Lua state, or another one if a call is using that; it is given back afterwards. */
typedef struct Borrowed {
  Script *script;
  bool kept; /* by the context */
} Borrowed;
Status context_script(grpo_context *c, Borrowed *out);
void context_script_end(grpo_context *c, const Borrowed *b);

#endif

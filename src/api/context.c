/* context.c - versions, statuses, memory, contexts, and the beginning and end of every call. */
#include "api/context.h"

#include <stdio.h>

#include "api/args.h"
#include "base/mem.h"
#include "script/host_call.h"

/* ---- versions and statuses -------------------------------------------------------- */

uint32_t grpo_abi_version(void) { return GRPO_ABI_VERSION; }
/* grpo_version() is in base/version.c */

static Status known_status(grpo_status s) {
  return s >= 0 && s < GRPO_NSTATUS ? (Status)s : GRPO_NSTATUS;
}
const char *grpo_status_name(grpo_status s) { return status_name(known_status(s)); }
const char *grpo_status_text(grpo_status s) { return status_text(known_status(s)); }

/* ---- memory ----------------------------------------------------------------------- */

static atomic_int contexts;

grpo_status grpo_set_allocator(const grpo_allocator *a) {
  grpo_allocator own = {.size = sizeof own};
  try(options_take(&own, sizeof own, a, "grpo_allocator"));
  if (!own.alloc != !own.free)
    return fail(GRPO_EARG, "grpo_allocator: set both alloc and free, or neither");
  if (atomic_load(&contexts))
    return fail(GRPO_EARG,
                "grpo_set_allocator: %d contexts exist; set the allocator before the first one",
                atomic_load(&contexts));
  mem_set_source(&(MemSource){own.alloc, own.free, own.user});
  return GRPO_OK;
}

size_t grpo_memory_live(void) { return mem_live_bytes(); }

/* ---- contexts --------------------------------------------------------------------- */

/* Its size before it had a progress callback. */
enum { FIRST_OPTIONS = offsetof(grpo_context_options, progress) };

grpo_status grpo_context_options_init(grpo_context_options *o, size_t size) {
  const grpo_context_options d = {.size = sizeof d};
  return options_init_grown(o, size, &d, sizeof d, FIRST_OPTIONS);
}

LocaleMark callback_enter(grpo_context *c) {
  c->inside++;
  return locale_switch(c->host);
}

static Status refusal(const grpo_context *c) {
  if (!c->refused) return GRPO_OK;
  return fail(GRPO_EARG,
              "%s was called inside a callback of this context and has freed nothing; call it "
              "after the call that makes the callback",
              c->refused);
}

Status callback_leave(grpo_context *c, LocaleMark ours) {
  c->inside--;
  locale_switch(ours);
  return refusal(c);
}

bool free_refused(grpo_context *c, const char *function) {
  if (!c->inside) return false;
  c->refused = function;
  refusal(c);
  snprintf(c->message, sizeof c->message, "%s", err_message());
  return true;
}

static void tell_host(void *user, LogLevel level, const char *message) {
  grpo_context *c = user;
  if (!c->log) return;
  const LocaleMark ours = callback_enter(c);
  c->log(c->log_user, level == LOG_WARNING ? GRPO_LOG_WARNING : GRPO_LOG_INFO, message);
  callback_leave(c, ours);
}

/* The call in progress has come so far; it continues, or ends here. */
static Status call_reached(void *user, const char *what, int64_t done, int64_t of) {
  grpo_context *c = user;
  if (atomic_load_explicit(&c->cancel, memory_order_relaxed))
    return fail(GRPO_ECANCELED, "the call was cancelled by grpo_cancel");
  if (!what || !c->progress) return GRPO_OK;
  const LocaleMark ours = callback_enter(c);
  const grpo_status st = c->progress(c->progress_user, what, done, of);
  try(callback_leave(c, ours));
  if (st == GRPO_OK) return GRPO_OK;
  return fail(GRPO_ECANCELED, "the call was cancelled: the progress callback returned %s",
              grpo_status_name(st));
}

void grpo_cancel(grpo_context *c) {
  if (c) atomic_store(&c->cancel, true);
}

grpo_status grpo_context_new(const grpo_context_options *o, grpo_context **out) {
  grpo_context_options own = {.size = sizeof own};
  try(need(out, "out"));
  try(options_take_grown(&own, sizeof own, FIRST_OPTIONS, o, "grpo_context_options"));
  if (own.threads < 0 || own.threads > 1024)
    return fail(GRPO_EARG, "threads: %d, want 1 to 1024, or 0 for all cores", own.threads);
  grpo_context *c = mem_zalloc(sizeof *c);
  if (!c) return fail(GRPO_ENOMEM, "context");
  atomic_init(&c->refs, 1);
  atomic_init(&c->busy, false);
  atomic_init(&c->cancel, false);
  atomic_init(&c->scripting, false);
  c->threads = own.threads;
  c->log = own.log;
  c->log_user = own.log_user;
  c->target = (LogTarget){tell_host, c};
  c->progress = own.progress;
  c->progress_user = own.progress_user;
  c->watch = (ProgressWatch){.reached = call_reached, .user = c};
  c->cx.arena = &c->arena;
  atomic_fetch_add(&contexts, 1);
  *out = c;
  return GRPO_OK;
}

grpo_context *context_retain(grpo_context *c) {
  atomic_fetch_add(&c->refs, 1);
  return c;
}

void context_release(grpo_context *c) {
  if (atomic_fetch_sub(&c->refs, 1) > 1) return;
  script_close(c->script);
  pool_free(c->pool);
  arena_free(&c->arena);
  mem_free(c);
  atomic_fetch_sub(&contexts, 1);
}

void grpo_context_free(grpo_context *c) {
  if (c && !free_refused(c, __func__)) context_release(c);
}

/* The field `user` of any handle: they all begin with HANDLE_FIELDS. */
static void **user_of(const void *handle) {
  return (void **)((uintptr_t)handle + offsetof(struct grpo_context, user));
}
void grpo_set_user(void *handle, void *user) {
  if (handle) *user_of(handle) = user;
}
void *grpo_user(const void *handle) { return handle ? *user_of(handle) : NULL; }

const char *grpo_message(const grpo_context *c) { return c ? c->message : err_message(); }

Status context_pool(grpo_context *c, Pool **out) {
  if (!c->pool) try(pool_new(&c->pool, c->threads));
  c->cx.pool = *out = c->pool;
  return GRPO_OK;
}

Status context_ctx(grpo_context *c, const Ctx **out) {
  Pool *pool;
  *out = &c->cx;
  return context_pool(c, &pool);
}

Status context_script(grpo_context *c, Borrowed *out) {
  *out = (Borrowed){.kept = !atomic_exchange(&c->scripting, true)};
  if (!out->kept) return host_call_open(&out->script);
  const Status s = c->script ? GRPO_OK : host_call_open(&c->script);
  out->script = c->script;
  if (s != GRPO_OK) atomic_store(&c->scripting, false);
  return s;
}

void context_script_end(grpo_context *c, const Borrowed *b) {
  if (b->kept)
    atomic_store(&c->scripting, false);
  else
    script_close(b->script);
}

/* ---- calls ------------------------------------------------------------------------ */

Status call_inside(Call *k, grpo_context *c) {
  if (!c) return fail(GRPO_EARG, "the handle is NULL");
  *k = (Call){.c = c, .locale = locale_enter(), .log = log_use(&c->target)};
  return GRPO_OK;
}

Status call_part(Call *k, grpo_context *c) {
  if (!c) return fail(GRPO_EARG, "the handle is NULL");
  if (atomic_exchange(&c->busy, true))
    return fail(GRPO_EARG, "another call is using this context, in another thread or around the "
                           "callback that makes this call");
  try(call_inside(k, c));
  k->holds = true;
  k->watch = progress_watch(&c->watch);
  if (!c->parts)
    atomic_store(&c->cancel, false); /* between two parts a cancel waits for the next */
  c->host = k->locale;
  return GRPO_OK;
}

Status call_begin(Call *k, grpo_context *c) {
  try(call_part(k, c));
  if (!c->parts) return GRPO_OK;
  return call_end(k, fail(GRPO_EARG, "a step is being made in parts in this context; call "
                                     "grpo_trainer_advance until it is done"));
}

Status same_context(const grpo_context *of, const grpo_context *c, const char *what) {
  if (of == c) return GRPO_OK;
  return fail(GRPO_EARG, "%s belongs to another context; make it from this one", what);
}

grpo_status call_end(Call *k, Status s) {
  if (k->holds && k->c->refused) s = refusal(k->c);
  if (k->holds) k->c->refused = NULL;
  if (s != GRPO_OK) snprintf(k->c->message, sizeof k->c->message, "%s", err_message());
  log_use(k->log);
  locale_switch(k->locale);
  if (k->holds) progress_watch(k->watch);
  if (k->holds) atomic_store(&k->c->busy, false);
  return s;
}

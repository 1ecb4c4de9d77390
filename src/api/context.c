/* context.c - versions, statuses, memory, contexts, and the beginning and end of every call. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"

/* ---- versions and statuses ---------------------------------------------------------------- */

uint32_t grpo_abi_version(void) { return GRPO_ABI_VERSION; }
/* grpo_version() is in base/version.c */

static Status known_status(grpo_status s) {
  return s >= 0 && s < GRPO_NSTATUS ? (Status)s : GRPO_NSTATUS;
}
const char *grpo_status_name(grpo_status s) { return status_name(known_status(s)); }
const char *grpo_status_text(grpo_status s) { return status_text(known_status(s)); }

/* ---- structs with a size ------------------------------------------------------------------ */

enum { LARGEST_STRUCT = 1 << 16 };

grpo_status options_init(void *o, size_t size, const void *defaults, size_t known) {
  if (!o) return fail(GRPO_EARG, "init: the struct is NULL");
  if (size < known || size > LARGEST_STRUCT)
    return fail(GRPO_EARG, "init: the struct has %zu bytes, want %zu; pass its sizeof", size,
                known);
  memset(o, 0, size);
  memcpy(o, defaults, known);
  *(size_t *)o = size;
  return GRPO_OK;
}

static Status check_size(const void *s, size_t known, const char *name) {
  const size_t size = *(const size_t *)s;
  if (size >= known && size <= LARGEST_STRUCT) return GRPO_OK;
  return fail(GRPO_EARG, "%s: its size is %zu, want %zu; call its _init, or set size to its sizeof",
              name, size, known);
}

Status options_take(void *to, size_t known, const void *from, const char *name) {
  if (!from) return GRPO_OK;
  try(check_size(from, known, name));
  const size_t size = *(const size_t *)from;
  for (size_t i = known; i < size; i++)
    if (((const char *)from)[i])
      return fail(GRPO_EARG, "%s: a field is set that this version of libgrpo does not know", name);
  memcpy(to, from, known);
  return GRPO_OK;
}

Status struct_put(void *to, const void *value, size_t known, const char *name) {
  try(need(to, name));
  try(check_size(to, known, name));
  const size_t size = *(const size_t *)to;
  memcpy(to, value, known);
  *(size_t *)to = size;
  return GRPO_OK;
}

Status need(const void *pointer, const char *name) {
  return pointer ? GRPO_OK : fail(GRPO_EARG, "%s is NULL", name);
}

Status choice_of(const char *what, const char *word, const char *choices, int *out) {
  const size_t n = strlen(word);
  int i = 0;
  for (const char *at = choices; *at; i++) {
    const size_t len = strcspn(at, "|");
    if (len == n && memcmp(at, word, n) == 0) return *out = i, GRPO_OK;
    at += len + (at[len] == '|');
  }
  return fail(GRPO_EARG, "%s: '%.40s' is unknown, want %s", what, word, choices);
}

/* ---- memory ------------------------------------------------------------------------------- */

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

/* ---- contexts ----------------------------------------------------------------------------- */

grpo_status grpo_context_options_init(grpo_context_options *o, size_t size) {
  const grpo_context_options d = {.size = sizeof d};
  return options_init(o, size, &d, sizeof d);
}

LocaleMark callback_enter(const grpo_context *c) { return locale_switch(c->host); }
void callback_leave(LocaleMark ours) { locale_switch(ours); }

static void tell_host(void *user, LogLevel level, const char *message) {
  const grpo_context *c = user;
  if (!c->log) return;
  const LocaleMark ours = callback_enter(c);
  c->log(c->log_user, level == LOG_WARNING ? GRPO_LOG_WARNING : GRPO_LOG_INFO, message);
  callback_leave(ours);
}

grpo_status grpo_context_new(const grpo_context_options *o, grpo_context **out) {
  grpo_context_options own = {.size = sizeof own};
  try(need(out, "out"));
  try(options_take(&own, sizeof own, o, "grpo_context_options"));
  if (own.threads < 0 || own.threads > 1024)
    return fail(GRPO_EARG, "threads: %d, want 1 to 1024, or 0 for all cores", own.threads);
  grpo_context *c = mem_zalloc(sizeof *c);
  if (!c) return fail(GRPO_ENOMEM, "context");
  atomic_init(&c->refs, 1);
  atomic_init(&c->busy, false);
  c->threads = own.threads;
  c->log = own.log;
  c->log_user = own.log_user;
  c->target = (LogTarget){tell_host, c};
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
  pool_free(c->pool);
  arena_free(&c->arena);
  mem_free(c);
  atomic_fetch_sub(&contexts, 1);
}

void grpo_context_free(grpo_context *c) {
  if (c) context_release(c);
}

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

/* ---- calls -------------------------------------------------------------------------------- */

Status call_inside(Call *k, grpo_context *c) {
  if (!c) return fail(GRPO_EARG, "the handle is NULL");
  *k = (Call){.c = c, .locale = locale_enter(), .log = log_use(&c->target)};
  return GRPO_OK;
}

Status call_begin(Call *k, grpo_context *c) {
  if (!c) return fail(GRPO_EARG, "the handle is NULL");
  if (atomic_exchange(&c->busy, true))
    return fail(GRPO_EARG, "another call is using this context, in another thread or around the "
                           "callback that makes this call");
  try(call_inside(k, c));
  k->holds = true;
  c->host = k->locale;
  return GRPO_OK;
}

grpo_status call_end(Call *k, Status s) {
  if (s != GRPO_OK) snprintf(k->c->message, sizeof k->c->message, "%s", err_message());
  log_use(k->log);
  locale_switch(k->locale);
  if (k->holds) atomic_store(&k->c->busy, false);
  return s;
}

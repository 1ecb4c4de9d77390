#include "base/progress.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint_fast64_t pieces, allowed_ms;
static _Thread_local const ProgressWatch *watch;

const ProgressWatch *progress_watch(const ProgressWatch *w) {
  const ProgressWatch *before = watch;
  watch = w;
  return before;
}

Status progress_reached(const char *what, int64_t done, int64_t of) {
  return watch && watch->reached ? watch->reached(watch->user, what, done, of) : GRPO_OK;
}

void progress_note(void) {
  atomic_fetch_add_explicit(&pieces, 1, memory_order_relaxed);
  if (watch && watch->between) watch->between(watch->user);
}

uint64_t progress_count(void) { return atomic_load_explicit(&pieces, memory_order_relaxed); }

double progress_allow(double seconds) {
  const uint64_t ms = seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1000) : 0;
  progress_note();
  return (double)atomic_exchange_explicit(&allowed_ms, ms, memory_order_relaxed) / 1000;
}

double progress_allowed(void) {
  return (double)atomic_load_explicit(&allowed_ms, memory_order_relaxed) / 1000;
}

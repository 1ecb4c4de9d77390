#include "kern/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"

static const Kernels *active;

/* Best first. */
static const Kernels *const tables[] = {
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
    &kern_avx512, &kern_avx2,
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
    &kern_neon,
#endif
    &kern_generic};
enum { NTABLES = sizeof tables / sizeof tables[0] };

static bool cpu_has(const Kernels *k) {
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
  if (k == &kern_avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma");
  if (k == &kern_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
  if (k == &kern_neon) return true; /* in every aarch64 */
#endif
  return k == &kern_generic;
}

const char *kern_path(int i) {
  for (int at = NTABLES - 1; at >= 0; at--)
    if (cpu_has(tables[at]) && i-- == 0) return tables[at]->name;
  return NULL;
}

static const Kernels *best(void) {
  for (int i = 0; i < NTABLES; i++)
    if (cpu_has(tables[i])) return tables[i];
  return &kern_generic;
}

#ifndef GRPO_DOUBLE
static Status unknown(const char *name) {
  char names[64] = "";
  for (int i = NTABLES - 1, at = 0; i >= 0 && at < (int)sizeof names; i--)
    at += snprintf(names + at, sizeof names - (size_t)at, "%s%s",
                   i == NTABLES - 1 ? ""
                   : i == 0         ? " or "
                                    : ", ",
                   tables[i]->name);
  return fail(GRPO_EARG, "GRPO_CPU=%s: unknown, want %s", name, names);
}
#endif

Status kern_select(const char *name) {
  if (!name) name = getenv("GRPO_CPU");
  if (!name || !*name) {
    active = best();
    return GRPO_OK;
  }
  for (int i = 0; i < NTABLES; i++) {
    if (strcmp(tables[i]->name, name) != 0) continue;
    if (!cpu_has(tables[i]))
      return fail(GRPO_EARG, "GRPO_CPU=%s: this CPU lacks it; use %s", name, best()->name);
    active = tables[i];
    return GRPO_OK;
  }
#ifdef GRPO_DOUBLE /* the double twin has one path, whatever is asked for */
  active = &kern_generic;
  return GRPO_OK;
#else
  return unknown(name);
#endif
}

/* Before any kern_select: the environment's choice, or the best when that cannot be had. */
__attribute__((constructor)) static void choose(void) {
  if (kern_select(NULL) != GRPO_OK) active = best();
}

const Kernels *kernels(void) { return active; }

const char *kern_name(void) { return active->name; }

Status scratch_new(const Ctx *cx, size_t size, const char *what, Scratch *out) {
  const int workers = pool_threads(cx->pool);
  size = (size + 15) / 16 * 16;
  *out = (Scratch){arena_alloc(cx->arena, sizeof(real) * size * (size_t)workers), size, workers};
  return out->data ? GRPO_OK : fail(GRPO_ENOMEM, "%s: scratch memory", what);
}

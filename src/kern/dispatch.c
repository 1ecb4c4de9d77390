/* dispatch.c - the kernel classes that this CPU has, and the class of contexts that name none. */
#include "kern/dispatch.h"
#include "kern/blas_kernels.h"
#include "kern/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "base/pool.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Best first. */
static const KernelClass paths[] = {
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
    {"amx", &kern_avx512, &kern_amx},
    {"avx512bf16", &kern_avx512, &kern_avx512bf16},
    {"avx512", &kern_avx512, NULL},
    {"avx2", &kern_avx2, NULL},
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
    {"neon", &kern_neon, NULL},
#endif
#ifndef GRPO_DOUBLE
    {"blas", &kern_openblas, NULL},
#endif
/* these, with one set of bits, only if they are asked for */
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
    {"portable-avx512", &kern_portable_avx512, NULL},
    {"portable-avx2", &kern_portable_avx2, NULL},
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
    {"portable-neon", &kern_portable_neon, NULL},
#endif
    {"generic", &kern_generic, NULL}};
enum { NPATHS = sizeof paths / sizeof paths[0] };

const KernelClass *kern_chosen = &paths[NPATHS - 1];

#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
/* Has the CPU tiles, and does the operating system let this process use them? */
static bool may_use_amx(void) {
#ifdef __linux__
  enum { LEAF = 7, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, REQUEST = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d;
  return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) &&
         syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}
#endif

static bool is_blas(const KernelClass *p) {
#ifndef GRPO_DOUBLE
  return p->kernels == &kern_openblas;
#else
  (void)p;
  return false;
#endif
}

static bool cpu_has(const KernelClass *p) {
  if (is_blas(p)) return blas_refusal() == NULL;
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
  if (p->bf16 == &kern_amx && !may_use_amx()) return false;
  if (p->bf16 && !__builtin_cpu_supports("avx512bf16")) return false;
  if (p->kernels == &kern_avx512 || p->kernels == &kern_portable_avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma");
  if (p->kernels == &kern_avx2 || p->kernels == &kern_portable_avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
  if (p->kernels == &kern_neon || p->kernels == &kern_portable_neon)
    return true; /* in every aarch64 */
#endif
  return p->kernels == &kern_generic;
}

const char *kern_path(int i) {
  for (int at = NPATHS - 1; at >= 0; at--)
    if (cpu_has(&paths[at]) && i-- == 0) return paths[at].name;
  return NULL;
}

/* The class `blas` is chosen without a look at the library: OpenBLAS is loaded and checked when it
 * is first used, not at every start, and where it fails the class multiplies like `generic`
 * (blas_kernels.c). */
static const KernelClass *best(void) {
  for (int i = 0; i < NPATHS; i++)
    if (is_blas(&paths[i]) || cpu_has(&paths[i])) return &paths[i];
  return &paths[NPATHS - 1];
}

static bool is_portable(const KernelClass *p) {
  return p->kernels == &kern_generic || strncmp(p->name, "portable", strlen("portable")) == 0;
}

static const KernelClass *best_portable(void) {
  int i = 0;
  while (!is_portable(&paths[i]) || !cpu_has(&paths[i])) i++;
  return &paths[i]; /* generic at the latest */
}

#ifndef GRPO_DOUBLE
static Status unknown(const char *name) {
  char names[128] = "generic, portable";
  for (int i = NPATHS - 2, at = (int)strlen(names); i >= 0 && at < (int)sizeof names; i--)
    at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i == 0 ? " or " : ", ",
                   paths[i].name);
  return fail(GRPO_EARG, "GRPO_CPU=%s: unknown, want %s", name, names);
}
#endif

Status kern_class(const char *name, const KernelClass **out) {
  if (!name) name = getenv("GRPO_CPU");
  if (!name || !*name) {
    *out = best();
    return GRPO_OK;
  }
  if (strcmp(name, "portable") == 0) {
    *out = best_portable();
    return GRPO_OK;
  }
  for (int i = 0; i < NPATHS; i++) {
    if (strcmp(paths[i].name, name) != 0) continue;
    if (is_blas(&paths[i]) && blas_refusal())
      return fail(GRPO_EARG, "GRPO_CPU=blas: OpenBLAS cannot be used, because %s; use %s",
                  blas_refusal(), best() == &paths[i] ? "generic" : best()->name);
    if (!cpu_has(&paths[i]))
      return fail(GRPO_EARG, "GRPO_CPU=%s: this CPU lacks it; use %s", name, best()->name);
    *out = &paths[i];
    return GRPO_OK;
  }
#ifdef GRPO_DOUBLE /* the double twin has one path, whatever is asked for */
  *out = &paths[NPATHS - 1];
  return GRPO_OK;
#else
  return unknown(name);
#endif
}

Status kern_select(const char *name) { return kern_class(name, &kern_chosen); }

Status kern_select_portable(void) {
  const char *named = getenv("GRPO_CPU");
  try(kern_select(NULL));
  if (is_portable(kern_chosen)) return GRPO_OK;
  if (named && *named)
    return fail(GRPO_EARG,
                "GRPO_CPU=%s: numbers = \"portable\" was asked for, and these kernels have others; "
                "unset GRPO_CPU, or set it to portable",
                named);
  return kern_select("portable");
}

/* Before any kern_select: the environment's choice, or the best when that cannot be had. */
__attribute__((constructor)) static void choose(void) {
  if (kern_select(NULL) != GRPO_OK) kern_chosen = best();
}

static void note_refusal(void) {
  log_message(LOG_WARNING,
              "the slow kernels `generic` are used, because this CPU has no kernels of ours and "
              "OpenBLAS cannot be used: %s",
              blas_refusal());
}

const char *kern_name(const KernelClass *cpu) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!cpu) cpu = kern_chosen;
  if (!is_blas(cpu) || !blas_refusal()) return cpu->name;
  pthread_once(&once, note_refusal);
  return paths[NPATHS - 1].name;
}

const char *kern_numbers(const KernelClass *cpu) {
  if (!cpu) cpu = kern_chosen;
  return is_portable(cpu) ? "portable" : kern_name(cpu);
}

bool kern_paged(void) {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

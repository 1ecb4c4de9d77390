/* gguf_arch.h - the architectures that GGUF files name, and the names of their tensors. */
#ifndef GRPO_GGUF_ARCH_H
#define GRPO_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct GgufArch GgufArch;
/* Finds an architecture by a file's general.architecture and whether it has a sliding window and
 * experts, or by config.json's model_type.  NULL: unknown. */
const GgufArch *gguf_arch(const char *name, size_t n, bool has_window, bool has_experts);
const GgufArch *gguf_arch_of(const char *model_type);
const char *gguf_arch_name(const GgufArch *a);
const char *gguf_arch_model_type(const GgufArch *a);

/* llama.cpp computes an architecture in these ways only. */
typedef enum GgufTrait {
  GGUF_TIED = 1,          /* no output projection of its own */
  GGUF_UNTIED = 2,        /* always one */
  GGUF_NO_WINDOW = 4,     /* a sliding window is ignored */
  GGUF_WINDOW_PERIOD = 8, /* every layer but each n-th has the window */
  GGUF_DIVIDED = 16,      /* the weights of a token's experts are divided by their sum */
  GGUF_MIXTURE = 32,      /* files with experts */
  GGUF_WRITTEN_ONLY = 64  /* a file of this name is read as another family */
} GgufTrait;
unsigned gguf_arch_traits(const GgufArch *a);

/* Translates a name into the other convention; false: it has no name there.  *change: bits of the
 * values (GgufChange, gguf_order.h).  part: of the weight in files, 0 or 1. */
bool gguf_arch_file_name(const GgufArch *a, const char *hf, int part, char *out, size_t cap,
                         unsigned *change);
bool gguf_arch_hf_name(const GgufArch *a, const char *name, char *out, size_t cap,
                       unsigned *change);

#endif

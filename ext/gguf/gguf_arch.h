/* gguf_arch.h - the architectures that GGUF files name, and the names of their tensors.
 *
 * q and k have their rows in another order where the file's rotary pairs are neighbours and those
 * of Hugging Face's checkpoints are halves of a head (llama); gptneox's q, k and v, which the
 * checkpoint has head by head, are three blocks in the file.  gpt2's projections are [out, in] in
 * the file.  Norms that multiply by 1 + w (gemma, nemotron) have the 1 added there.
 */
#ifndef GRPO_GGUF_ARCH_H
#define GRPO_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct GgufArch GgufArch;
/* Finds an architecture by a file's general.architecture and whether it has a sliding window, or by
 * config.json's model_type.  NULL: unknown. */
const GgufArch *gguf_arch(const char *name, size_t n, bool has_window);
const GgufArch *gguf_arch_of(const char *model_type);
const char *gguf_arch_name(const GgufArch *a);
const char *gguf_arch_model_type(const GgufArch *a);

/* llama.cpp computes an architecture in these ways only. */
typedef enum GgufTrait {
  GGUF_TIED = 1,         /* no output projection of its own */
  GGUF_UNTIED = 2,       /* always one */
  GGUF_NO_WINDOW = 4,    /* a sliding window is ignored */
  GGUF_WINDOW_PERIOD = 8 /* every layer but each n-th has the window */
} GgufTrait;
unsigned gguf_arch_traits(const GgufArch *a);

typedef enum GgufChange {
  GGUF_PERMUTED = 1, /* rows are permuted within each head */
  GGUF_BY_HEAD = 2,  /* rows are q, k, v head by head; all of q, of k, of v in the file */
  GGUF_PLUS_ONE = 4,
  GGUF_KEEP_F32 = 8,   /* float32 whatever the type of the others */
  GGUF_VOCABULARY = 16 /* embedding or output projection */
} GgufChange;

/* Translates a name into the other convention; false: it has no name there.  *change: GgufChange
 * bits of the values. */
bool gguf_arch_file_name(const GgufArch *a, const char *hf, char *out, size_t cap,
                         unsigned *change);
bool gguf_arch_hf_name(const GgufArch *a, const char *name, char *out, size_t cap,
                       unsigned *change);
/* The row in the file of row r, counted in Hugging Face's order, and the other way round; `heads`
 * are those of queries. */
uint64_t gguf_arch_row(unsigned change, uint64_t r, uint64_t head_dim, uint64_t heads);
uint64_t gguf_arch_row_of(unsigned change, uint64_t r, uint64_t head_dim, uint64_t heads);

#endif

/* gguf_arch.h - the architectures that GGUF files name, and the names of their tensors.
 *
 * llama (llama and mistral), qwen2, qwen3, gemma2, gemma3, phi3, gpt2.
 *
 * llama's q and k have their rows in another order: rotary pairs are neighbours in the file, halves
 * of a head in Hugging Face's checkpoints.  gpt2's projections are [out, in] in the file.  gemma's
 * norms have the 1 added there.
 */
#ifndef GRPO_GGUF_ARCH_H
#define GRPO_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct GgufArch GgufArch;
/* Finds an architecture by a file's general.architecture, or by config.json's model_type.  NULL:
 * unknown. */
const GgufArch *gguf_arch(const char *name, size_t n);
const GgufArch *gguf_arch_of(const char *model_type);
const char *gguf_arch_name(const GgufArch *a);
const char *gguf_arch_model_type(const GgufArch *a);

typedef enum GgufChange {
  GGUF_PERMUTED_Q = 1, /* rows are permuted within each attention head */
  GGUF_PERMUTED_K = 2, /* and within each key/value head */
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
/* The row in the file of row r, counted in Hugging Face's order. */
static inline uint64_t gguf_arch_permuted_row(uint64_t r, uint64_t head_dim) {
  const uint64_t head = r / head_dim, i = r % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (i % half) + i / half;
}

#endif

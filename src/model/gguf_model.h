/* gguf_model.h - models out of and into GGUF files.
 *
 * Metadata becomes a config.json in memory, which config_from_json reads, so that both kinds of
 * checkpoint are held to the same rules; tensors become a WeightSource under Hugging Face's names.
 * Architectures: llama (llama and mistral), qwen2, qwen3, gemma2, gemma3, phi3, gpt2; others are
 * refused by name.
 *
 * llama's q and k have their rows in another order: rotary pairs are neighbours there, halves of a
 * head here.  gpt2's projections are [out, in] there.  gemma's norms have the 1 added.
 */
#ifndef GRPO_MODEL_GGUF_MODEL_H
#define GRPO_MODEL_GGUF_MODEL_H

#include "formats/gguf.h"
#include "model/model.h"
#include "model/source.h"
#include "text/tokenizer.h"

Status config_from_gguf(Config *out, const Gguf *g);
Status source_open_gguf(WeightSource *out, const char *path);

/* type: GGML_F32 GGML_F16 GGML_BF16 GGML_Q8_0 GGML_Q4_0, of matrices; vectors and gpt2's positions
 * are float32.  Under Q4_0 embedding and head are Q8_0; under both, matrices whose rows are no
 * whole blocks are F16.  The tokenizer (NULL: none) goes into the same file, which appears when
 * complete.  An adapter is merged on the way. */
Status model_save_gguf(const Model *m, const Tokenizer *t, const char *path, GgmlType type);

/* ---- for the files that do this ------------------------------------------------------ */

typedef struct GgufArch GgufArch;
/* By a file's general.architecture, or by config.json's model_type.  NULL: unknown. */
const GgufArch *gguf_arch(const char *name, size_t n);
const GgufArch *gguf_arch_of(const char *model_type);
const char *gguf_arch_name(const GgufArch *a);
const char *gguf_arch_model_type(const GgufArch *a);

typedef enum GgufChange {
  GGUF_PERMUTED_Q = 1, /* by heads */
  GGUF_PERMUTED_K = 2, /* by key/value heads */
  GGUF_PLUS_ONE = 4,
  GGUF_KEEP_F32 = 8,   /* whatever the others are */
  GGUF_VOCABULARY = 16 /* embedding or head */
} GgufChange;

/* Names in the other convention; false: there is none.  `change`: what happens to the values. */
bool gguf_name_of(const GgufArch *a, const char *hf, char *out, size_t cap, unsigned *change);
bool gguf_hf_name_of(const GgufArch *a, const char *name, char *out, size_t cap, unsigned *change);
/* Row r of a head as Hugging Face has it is this row in the file. */
static inline uint64_t gguf_permuted(uint64_t r, uint64_t head_dim) {
  const uint64_t head = r / head_dim, i = r % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (i % half) + i / half;
}

/* A Config's keys. */
void config_put_gguf(const Config *c, const GgufArch *a, GgufMeta *m);
/* rope_freqs.weight: [rotary dimension / 2] divisors; false: the model has none. */
bool gguf_rope_divisors(const Config *c, float *out);

#endif

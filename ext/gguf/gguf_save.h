/* gguf_save.h - writing a model and its tokenizer as one GGUF file. */
#ifndef GRPO_GGUF_SAVE_H
#define GRPO_GGUF_SAVE_H

#include "gguf/ggml.h"
#include "model/model.h"
#include "text/tokenizer.h"

/* type: GGML_F32 GGML_F16 GGML_BF16 GGML_Q8_0 GGML_Q4_0, of matrices; vectors and gpt2's positions
 * are float32.  Under Q4_0 the embedding and the output projection are Q8_0; under both, matrices
 * whose rows are not whole blocks are F16.  The tokenizer (NULL: none) goes into the same file,
 * which appears when complete.  An adapter is merged on the way. */
Status gguf_save(const Model *m, const Tokenizer *t, const char *path, GgmlType type);

#endif

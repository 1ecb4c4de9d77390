/* weights.h - reading checkpoints: tensors of a source matched with the parameters of a model.
 *
 * A checkpoint is a GGUF file, or a directory in Hugging Face's layout: config.json and
 * model.safetensors, or its shards with an index; f32, f16, bf16, or bitsandbytes' NF4.
 */
#ifndef GRPO_CHECKPOINT_WEIGHTS_H
#define GRPO_CHECKPOINT_WEIGHTS_H

#include "model/classifier.h"
#include "model/model.h"

/* The Config of a checkpoint.  From a directory: config.json and, where it exists,
 * generation_config.json. */
Status weights_config(Config *out, const char *path);

/* Weights are converted while they are read, a few rows at a time.  ENOMEM, before any memory is
 * taken, when they exceed what the machine has free; EFORMAT when the files of a checkpoint are not
 * what its manifest says. */
Status weights_load(Model **out, Pool *pool, const char *path, Storage storage);
/* For a model that computes in bf16 from the start: its panels take less memory. */
Status weights_load_compute(Model **out, Pool *pool, const char *path, Storage storage, Compute c);
/* A checkpoint with a sequence-classification head, score.weight, in place of an output projection,
 * in Hugging Face's layout.  EFORMAT when there is none; the functions above refuse one that has
 * it. */
Status weights_load_classifier(Classifier **out, Pool *pool, const char *path, Storage storage,
                               Compute c);

#endif

/* run_checkpoint.h - a run's checkpoints: directories that are complete or not there at all.
 *
 * run_checkpoint_begin() makes an empty directory beside the final one, and its caller fills it.
 * run_checkpoint_commit() lists every file with size and CRC-32C in manifest.json, makes all of it
 * durable and renames the directory.  A kill at any moment leaves either the old state or the new
 * one, and at worst a temporary directory, which the next begin or a resume removes.
 *
 * A checkpoint has files and directories of files (reference/); anything else is refused.
 *
 * Checkpoints of a run are called checkpoints/step-000012, with more digits from a million steps
 * on, so their order is that of the numbers.  Whatever else is in checkpoints/ belongs to the user.
 */
#ifndef GRPO_CHECKPOINT_RUN_CHECKPOINT_H
#define GRPO_CHECKPOINT_RUN_CHECKPOINT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the temporary directory's path to tmp: "run/checkpoints/.tmp-step-000010". */
Status run_checkpoint_begin(const char *dir, Buf *tmp);
/* EARG when dir exists already. */
Status run_checkpoint_commit(const char *tmp, const char *dir);
/* A kill in the middle leaves the whole checkpoint or a temporary directory. */
Status run_checkpoint_remove(const char *dir);
/* ENOENT: no checkpoint; EFORMAT: a file is missing, cut or changed: the message names it. */
Status run_checkpoint_verify(const char *dir);
/* A part of a checkpoint that somebody loads.  The model has no optimizer, no critic, no
 * reference/ and no README.md, which people edit; the tokenizer has no weights either. */
typedef enum CheckpointPart {
  CHECKPOINT_ALL,
  CHECKPOINT_MODEL,
  CHECKPOINT_TOKENIZER
} CheckpointPart;
/* Every function that loads from a path calls this first.  If it is a checkpoint (it has
 * trainer.json and a manifest), the files of the part must be what the manifest says; EFORMAT names
 * one that is not. Any other path passes. */
Status run_checkpoint_check(const char *path, CheckpointPart part);

enum { RUN_CHECKPOINT_NAME_BYTES = 40 };
/* The checkpoint of a step, relative to the run's directory: "checkpoints/step-000012". */
void run_checkpoint_name(char *name /* [RUN_CHECKPOINT_NAME_BYTES] */, int64_t step);
/* Appends the steps of a run's checkpoints to `steps`, each an int64_t, in ascending order. */
Status run_checkpoint_steps(const char *run, Buf *steps);
/* Appends the path of a run's newest checkpoint, or of `latest` where only that is there; ENOENT
 * when there is none.  The link `latest` may be older: it is replaced after the checkpoint. */
Status run_checkpoint_newest(const char *run, Buf *path);

#endif

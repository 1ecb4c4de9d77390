/* run_checkpoint.h - a run's checkpoints: directories that are complete or not there at all.
 *
 * run_checkpoint_begin() makes an empty directory beside the final one, and its caller fills it.
 * run_checkpoint_commit() lists every file with size and CRC-32C in manifest.json, makes all of it
 * durable and renames the directory.  A kill at any moment leaves either the old state or the new
 * one, and at worst a temporary directory that the next begin removes.
 *
 * A checkpoint has files and directories of files (reference/); anything else is refused.
 */
#ifndef GRPO_CHECKPOINT_RUN_CHECKPOINT_H
#define GRPO_CHECKPOINT_RUN_CHECKPOINT_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the temporary directory's path to tmp: "run/checkpoints/.tmp-step-000010". */
Status run_checkpoint_begin(const char *dir, Buf *tmp);
/* EARG when dir exists already. */
Status run_checkpoint_commit(const char *tmp, const char *dir);
/* ENOENT: no checkpoint; EFORMAT: a file is missing, cut or changed: the message names it. */
Status run_checkpoint_verify(const char *dir);

#endif

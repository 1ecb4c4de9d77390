/* hub_cache.h - models and datasets that lie in the Hugging Face cache, found by their names.
 *
 * A name is "organisation/repository" or "repository", perhaps followed by "@" and a revision: a
 * branch, a tag or a commit; without one it is "main".  The cache is a directory that Python tools
 * and `grpo pull` fill:
 *
 *   models--ORG--REPO/refs/REVISION           the commit that a branch or tag stood for when it was
 *                                             downloaded
 *   models--ORG--REPO/snapshots/COMMIT/FILE   links to files in models--ORG--REPO/blobs
 *
 * and datasets--ORG--REPO likewise.  Nothing here uses the network.
 */
#ifndef GRPO_HUB_HUB_CACHE_H
#define GRPO_HUB_HUB_CACHE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

typedef enum HubKind { HUB_MODEL, HUB_DATASET } HubKind;
enum { HUB_COMMIT_BYTES = 41 };

/* Has the text the form of a name?  Paths that begin with / or . do not, nor those of three parts
 * or with the ending of a file that grpo reads. */
bool hub_is_name(const char *text);
/* Appends the directory that holds the cache: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else
 * HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. */
Status hub_cache_dir(Buf *out);
/* Appends CACHE/models--ORG--REPO of a name, which need not be there.  EARG: not a name. */
Status hub_cache_repo(const char *name, HubKind kind, Buf *out);
/* Appends the directory of the snapshot that a name stands for.  ENOENT: the cache does not have
 * it; the message says where it was looked for and which command brings it. */
Status hub_cache_find(const char *name, HubKind kind, Buf *dir, char *commit /* [COMMIT_BYTES] */);
/* ENOENT if a snapshot lacks what a model or an adapter needs: its configuration, a file of weights
 * or one that its index names.  The message says what is missing. */
Status hub_cache_check_model(const char *name, const char *dir);

/* Appends where a model, a tokenizer or an adapter lies: `path` itself if it exists or is not a
 * name, else the snapshot of that name.  A single word that the cache does not have stays a path.
 * whole: the snapshot must be a complete model or adapter.  commit: "" for a path. */
Status hub_cache_place(const char *path, bool whole, Buf *place, char *commit);

#endif

/* panel_cache.h - the CPU's own copies of float32 weights, which its products read: packed panels
 * (kern/panels.h).
 *
 * The owner of weights, a model or an adapter, has a cache of their panels, and Tensor.prepared
 * points into it.  After weights change the cache is stale, and it is renewed before the next
 * forward; for another class of kernels it is laid out again.
 */
#ifndef GRPO_GRAD_PANEL_CACHE_H
#define GRPO_GRAD_PANEL_CACHE_H

#include "base/err.h"
#include "grad/latent.h"
#include "grad/weight.h"

/* A weight as its owner describes it. */
typedef struct PanelWeight {
  Tensor *w;         /* the cache sets its `prepared` and `compute` */
  bool wanted;       /* false: no product reads it from panels */
  bool in_out;       /* stored [in, out] */
  bool trained;      /* backward computes dX, again and again */
  Compute compute;   /* of its products */
  LatentShape heads; /* of a weight that is used head by head; else zeros */
} PanelWeight;

typedef struct PanelWeights {
  const char *where; /* for errors */
  const void *owner;
  int n;
  PanelWeight (*at)(const void *owner, int i);
} PanelWeights;

typedef struct PanelCache {
  Panels *panels; /* [n] */
  void *memory;   /* that holds them all, by mem_alloc_aligned() */
  size_t bytes;   /* of memory */
  const char *of; /* kern_name() that they are laid out for; NULL: there are none */
  bool stale;     /* the weights changed since they were packed */
} PanelCache;

/* Bytes of memory that a class needs. */
size_t panel_cache_bytes(const KernelClass *cpu, PanelWeights of);
/* Takes that memory in place of what there is.  After a failure there are no panels, and
 * panel_cache_renew() makes them. */
Status panel_cache_allocate(PanelCache *c, const KernelClass *cpu, PanelWeights of);
Status panel_cache_renew(PanelCache *c, const Ctx *cx, PanelWeights of);
void panel_cache_free(PanelCache *c);

#endif

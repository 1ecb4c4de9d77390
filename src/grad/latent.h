/* latent.h - the one weight of latent attention that is used head by head.
 *
 * w is [heads (nope + v_dim), rank]: of each head's rows the first `nope` take its query to the
 * latent space, the others take what it read there to its values.  Keys and values themselves are
 * never made: a head's score is (W_k^T q) . latent, its result W_v (sum of p latent).  Training and
 * decoding do the same, so the cache holds latents only and both give the same bits.
 */
#ifndef GRPO_GRAD_LATENT_H
#define GRPO_GRAD_LATENT_H

#include "grad/tensor.h"
#include "kern/kern.h"

typedef struct LatentShape {
  int heads, nope, rope, v_dim, rank; /* widths of a head's parts; rank: of the latent */
} LatentShape;

static inline int latent_key_width(const LatentShape *s) { return s->rank + s->rope; }

/* Panels of all heads' products, and making them from w.  A weight without them is packed again by
 * each operation. */
size_t latent_panel_bytes(const LatentShape *s, Compute compute);
void latent_pack(const Ctx *cx, const LatentShape *s, Compute compute, const real *w, void *packed);

/* A head's product: x [n of rows, k] by its block of w, which is [k, n], or [n, k] with in_out. */
typedef struct LatentProduct {
  int n, k;
  bool in_out;
  size_t at;       /* in w */
  size_t panel_at; /* in its panels: bytes */
} LatentProduct;
/* value: from the latent space to values, else from queries to the latent space. */
LatentProduct latent_product(const LatentShape *s, Compute compute, int head, bool value);
/* The panels of w, which are made in cx's arena when it has none. */
Status latent_ready(const Ctx *cx, const LatentShape *s, const Tensor *w, char **packed);

#endif

/* bnb.h - bitsandbytes' 4-bit layout in safetensors.
 *
 * A weight X [n, k] is stored as X (U8, two codes a byte) beside X.absmax, X.quant_map and
 * X.quant_state.bitsandbytes__nf4, a JSON text as bytes; with double quantisation also
 * X.nested_absmax and X.nested_quant_map.
 */
#ifndef GRPO_CHECKPOINT_BNB_H
#define GRPO_CHECKPOINT_BNB_H

#include "checkpoint/source.h"
#include "formats/safetensors.h"
#include "kern/quant.h"

/* Finds a tensor of the checkpoint by its name; NULL: none. */
typedef const StTensor *(*BnbFind)(const void *arg, const char *name);

/* Is this tensor a part of a packed weight other than its codes? */
bool bnb_is_part(const char *name, BnbFind find, const void *arg);
/* Fills ndim, dim, type and nf4 of *out from the weight's tensor and its parts, which are read; all
 * sizes and both tables are checked. */
Status bnb_describe(const StTensor *weight, const char *file, BnbFind find, const void *arg,
                    SourceTensor *out);
/* Reads values from .. from + n - 1 of the flattened weight. */
Status bnb_read(const SourceNf4 *w, uint64_t from, uint64_t n, float *out);
/* m, an empty QUANT_NF4 of the same shape, takes over the codes and scales. */
Status bnb_import(QuantWeight *m, const SourceNf4 *w);

/* ---- writing: the six tensors of a weight, in the order of BnbParts ---------------------- */
enum { BNB_PARTS = 6, BNB_NAME_BYTES = 160 };
typedef struct BnbParts {
  char name[BNB_PARTS][BNB_NAME_BYTES];
  StEntry entry[BNB_PARTS]; /* its names point into `name`: do not move the struct */
} BnbParts;
void bnb_parts(const char *weight, int rows, int columns, BnbParts *out);
uint64_t bnb_bytes(int rows, int columns); /* of all six parts */
Status bnb_put(StWriter *w, const QuantWeight *m);
/* config.json's "quantization_config" object.  plain: the modules that are not packed, as a list in
 * JSON, or "null" where they are those that every reader knows. */
void bnb_put_config(Buf *b, const char *plain);

#endif

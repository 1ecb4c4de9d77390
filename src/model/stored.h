/* stored.h - a model's weights as the bytes that they are stored in, for a copy of it in another
 * process, whose kernels are of the same class. */
#ifndef GRPO_MODEL_STORED_H
#define GRPO_MODEL_STORED_H

#include "model/model.h"

/* How a parameter is stored: "f32", "f32 packed" (in the kernels' order), "bf16", "f16", "int8",
 * "nf4", "nf4 plain" (without double quantisation).  One that is packed in place is "f32". */
const char *stored_type(const Param *p);
size_t stored_bytes(const Param *p);
/* Bytes from .. from + n - 1 of a parameter, which has them. */
Status stored_read(const Ctx *cx, const Param *p, size_t from, size_t n, char *out);
Status stored_write(Param *p, size_t from, size_t n, const char *bytes);
/* CRC-32C of all bytes. */
Status stored_sum(const Ctx *cx, const Param *p, uint32_t *out);
/* A model whose parameters are stored so; they are zero.  types [nparams]: names as above.  EFORMAT
 * for a type that a parameter cannot have. */
Status stored_new(Model **out, Pool *pool, const Config *c, Compute compute, int ntypes,
                  const char *const *types);

/* ---- the trained numbers, parameter after parameter --------------------------------------- */

/* The parameters that training changes: of the adapter, or else all, which are float32 then. */
size_t stored_trained(const Model *m);
/* Numbers from .. from + n - 1 of them. */
void stored_get(const Model *m, size_t from, size_t n, float *out);
void stored_set(Model *m, size_t from, size_t n, const float *values);

#endif

#include "checkpoint/mxfp4.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES = 32, BYTES = VALUES / 2, BLOCKS = 512 /* read at a time */ };

static const char blocks_end[] = "_blocks", scales_end[] = "_scales";

static bool ends_with(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n > k && strcmp(s + n - k, end) == 0;
}

Mxfp4Part mxfp4_part(const char *name) {
  if (!strstr(name, ".experts.")) return MXFP4_NONE;
  return ends_with(name, blocks_end)   ? MXFP4_BLOCKS
         : ends_with(name, scales_end) ? MXFP4_SCALES
                                       : MXFP4_NONE;
}

Status mxfp4_name(const char *blocks, const char *end, char *out, size_t cap) {
  const int n = (int)(strlen(blocks) - strlen(blocks_end));
  if (snprintf(out, cap, "%.*s%s", n, blocks, end) < (int)cap) return GRPO_OK;
  return fail(GRPO_EFORMAT, "tensor '%.60s...' has a name of more than %zu bytes", blocks, cap - 1);
}

Status mxfp4_describe(const StTensor *blocks, const StTensor *scales, SourceTensor *out) {
  bool fit = scales && blocks->type == ST_U8 &&
             (scales->type == ST_U8 || scales->type == ST_F8_E8M0) && blocks->ndim == 4 &&
             scales->ndim == 3 && blocks->dim[3] == BYTES;
  for (int d = 0; fit && d < 3; d++) fit = blocks->dim[d] == scales->dim[d];
  if (!fit)
    return fail(GRPO_EFORMAT,
                "%s: tensor '%s' is not MXFP4, because it has not 16 bytes a block and a scale "
                "beside it for each",
                out->file, blocks->name);
  out->type = SOURCE_MXFP4;
  out->type_name = "MXFP4";
  out->out_in = true;
  out->ndim = 3;
  out->dim[0] = blocks->dim[0];
  out->dim[1] = blocks->dim[1];
  out->dim[2] = blocks->dim[2] * VALUES;
  out->nf4 = (SourceNf4){.packed = blocks, .absmax = scales};
  return GRPO_OK;
}

static float value_of(unsigned code, int exponent) {
  static const float values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const float v = ldexpf(values[code & 7], exponent);
  return code & 8 ? -v : v;
}

Status mxfp4_read(const SourceTensor *t, uint64_t from, uint64_t n, float *out) {
  unsigned char codes[BLOCKS * BYTES], scales[BLOCKS];
  for (const uint64_t end = from + n; from < end;) {
    const uint64_t first = from / VALUES, left = (end + VALUES - 1) / VALUES - first;
    const uint64_t some = left < BLOCKS ? left : BLOCKS, stop = (first + some) * VALUES;
    try(st_read_bytes(t->nf4.packed, first * BYTES, some * BYTES, codes));
    try(st_read_bytes(t->nf4.absmax, first, some, scales));
    for (; from < end && from < stop; from++) {
      const uint64_t at = from - first * VALUES;
      *out++ = value_of(codes[at / 2] >> 4 * (at % 2), (int)scales[at / VALUES] - 127);
    }
  }
  return GRPO_OK;
}

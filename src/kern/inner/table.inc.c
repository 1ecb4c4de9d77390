/* table.inc.c - everything that stands in inner/, for one instruction set.
 * The file that includes this one has defined TABLE besides what vec.inc.c wants. */
#include "kern/inner/vec.inc.c"

#include "kern/inner/gemm_tile.inc.c"
#include "kern/inner/gemm_few.inc.c"
#include "kern/inner/norm_rope.inc.c"
#include "kern/inner/unpack_quant.inc.c"
#ifdef NARROW_GROUPS
#include "kern/inner/gemm_quant_few.inc.c"
#ifndef NARROW_BY
#define NARROW_BY NARROW_ROWS, NARROW_ROWS, NARROW_ROWS, NARROW_ROWS
#endif
#endif

#include "kern/inner/elementwise.inc.c"
#include "kern/inner/logits.inc.c"
#include "kern/inner/random_normal.inc.c"
#include "kern/inner/quantise_nf4.inc.c"
#include "kern/inner/gemm_few_transposed.inc.c"

#ifndef TURN
#define TURN 256, 128, 192
#endif

const Kernels TABLE = {
    .mr = TILE_MR,
    .ng = TILE_NG,
    .block = block,
    .gemm_block = block,
    .gemm_step = 1,
    .stream = stream,
    .outer = outer,
    .few_rows = few_rows,
    .few_squares = few_squares,
    .add_rows = add_rows,
    .add_to_rows = add_to_rows,
    .pack_columns = pack_columns,
    .pack_tiles = pack_tiles,
    .softmax = softmax,
    .softmax_down = softmax_down,
    .mix = mix,
    .attn_ds = attn_ds,
    .transpose = transpose,
    .widen_bf16 = widen_bf16,
    .round_bf16 = round_bf16,
    .pair_bf16 = pair_bf16,
    .widen_f16 = widen_f16,
    .widen_int8 = widen_int8,
    .widen_nf4 = widen_nf4,
#ifdef NARROW_GROUPS
    .narrow_rows = {0, NARROW_BY},
    .narrow_most = {0, NARROW_MOST},
#ifdef NARROW_KEEPS
    .narrow_keeps = NARROW_KEEPS,
#endif
    .narrow = narrow,
#endif
    .turn = {TURN},
    .dot = dot,
    .rmsnorm = rmsnorm,
    .rmsnorm_dx = rmsnorm_dx,
    .layernorm = layernorm,
    .layernorm_dx = layernorm_dx,
    .norm_dw = norm_dw,
    .rope = rope,
    .exp = exp_all,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .geglu = geglu,
    .geglu_grad = geglu_grad,
    .softcap = softcap,
    .softcap_grad = softcap_grad,
    .gelu = gelu,
    .gelu_grad = gelu_grad,
    .add = add_all,
    .scale = scale_all,
    .lerp = lerp,
    .adamw = adamw,
    .sumsq = sumsq,
    .row_stats = row_stats,
    .probs = probs,
    .logp_grad = logp_grad,
    .kl = kl,
    .kl_grad = kl_grad,
    .normals = normals,
    .nf4_codes = nf4_codes,
};

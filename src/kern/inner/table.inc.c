/* table.inc.c - the table of one instruction set, with everything in inner/.  The file that
 * includes this one has defined TABLE besides what vec.inc.c needs. */
#include "kern/inner/vec.inc.c"

#include "kern/inner/gemm_tile.inc.c"
#include "kern/inner/gemm_few.inc.c"
#include "kern/inner/norm_rope.inc.c"
#include "kern/inner/unpack_quant.inc.c"
#ifdef QUANT_FEW_GROUPS
#include "kern/inner/gemm_quant_few.inc.c"
#ifndef QUANT_FEW_BY
#define QUANT_FEW_BY QUANT_FEW_ROWS, QUANT_FEW_ROWS, QUANT_FEW_ROWS, QUANT_FEW_ROWS
#endif
#endif

#include "kern/inner/elementwise.inc.c"
#include "kern/inner/logits.inc.c"
#include "kern/inner/random_normal.inc.c"
#include "kern/inner/quantise_nf4.inc.c"
#include "kern/inner/gemm_few_transposed.inc.c"
#include "kern/inner/delta.inc.c"

#ifndef DX_BLOCK
#define DX_BLOCK 256, 128, 192
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
    .few_rows_transposed = few_rows_transposed,
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
#ifdef QUANT_FEW_GROUPS
    .quant_few_rows = {0, QUANT_FEW_BY},
    .quant_few_most = {0, QUANT_FEW_MOST},
#ifdef QUANT_FEW_SHARES
    .quant_few_shares = QUANT_FEW_SHARES,
#endif
    .quant_few = quant_few,
#endif
    .dx_block = {DX_BLOCK},
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
    .lion = lion,
    .sumsq = sumsq,
    .row_stats = row_stats,
    .probs = probs,
    .logp_grad = logp_grad,
    .kl = kl,
    .kl_grad = kl_grad,
    .jsd = jsd,
    .jsd_grad = jsd_grad,
    .normals = normals,
    .delta_step = delta_step,
    .delta_step_back = delta_step_back,
    .conv_step = conv_step,
    .conv_step_back = conv_step_back,
    .nf4_codes = nf4_codes,
#ifdef NF4_SCALES
    .nf4_scales = NF4_SCALES,
#endif
};

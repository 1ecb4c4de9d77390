#include "model/config_check.h"

#include <math.h>

#include "base/mem.h"
#include "kern/real.h"
#include "model/config_fields.h"

/* These are for configurations made in code; files were checked while they were read. */
static Status check_ranges(const Config *c, const char *what) {
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(c->family, i);
    const double v = config_get(c, &f);
    if (!*f.key || f.type == FIELD_BOOL || (f.nullable && v == 0)) continue;
    if (v >= f.lo && v <= f.hi) continue;
    return fail(GRPO_EFORMAT, "%s: %s = %g is outside %g .. %g", what, f.common_key, v, f.lo, f.hi);
  }
  return GRPO_OK;
}

static Status check_latent(const Config *c, const char *what) {
  if (c->qk_rope_head_dim % 2)
    return fail(GRPO_EFORMAT, "%s: qk_rope_head_dim %d is odd, rotary positions need it even", what,
                c->qk_rope_head_dim);
  if (c->head_dim != c->kv_lora_rank + c->qk_rope_head_dim || c->num_key_value_heads != 1)
    return fail(GRPO_EFORMAT,
                "%s: latent attention has one key head of kv_lora_rank + "
                "qk_rope_head_dim channels",
                what);
  if (c->head_dim > 1024)
    return fail(GRPO_EFORMAT, "%s: kv_lora_rank + qk_rope_head_dim = %d is more than 1024", what,
                c->head_dim);
  return GRPO_OK;
}

static Status check_heads(const Config *c, const char *what) {
  const Traits traits = config_traits(c);
  if (traits & TRAIT_LATENT) return check_latent(c, what);
  for (int local = 0; local <= 1; local++) {
    const int kv = local || !c->global_kv_heads ? c->num_key_value_heads : c->global_kv_heads;
    const int rotary = config_rotary_dim(c, local);
    if (c->num_attention_heads % kv)
      return fail(GRPO_EFORMAT, "%s: %d attention heads are not a multiple of %d key/value heads",
                  what, c->num_attention_heads, kv);
    if (traits & TRAIT_ROPE && (rotary % 2 || !rotary))
      return fail(GRPO_EFORMAT, "%s: %d channels of a head rotate, want an even number", what,
                  rotary);
  }
  if (DELTANETS >> c->family & 1 && c->linear_num_value_heads % c->linear_num_key_heads)
    return fail(GRPO_EFORMAT, "%s: linear_num_value_heads %d is not a multiple of %d key heads",
                what, c->linear_num_value_heads, c->linear_num_key_heads);
  if (!(traits & TRAIT_CONV1D)) return GRPO_OK;
  if (c->num_key_value_heads != c->num_attention_heads)
    return fail(GRPO_EFORMAT, "%s: gpt2 has no grouped key/value heads", what);
  if (c->num_attention_heads * c->head_dim != c->hidden_size)
    return fail(GRPO_EFORMAT, "%s: gpt2 wants heads times head_dim to be the hidden size %d", what,
                c->hidden_size);
  return GRPO_OK;
}

static Status check_experts(const Config *c, const char *what) {
  const int groups = c->n_group ? c->n_group : 1, top = c->n_group ? c->topk_group : 1;
  const bool routed = MIXTURES >> c->family & 1 || c->enable_moe_block;
  if (routed && (!c->num_experts || !c->num_experts_per_tok || !c->moe_intermediate_size))
    return fail(GRPO_EFORMAT,
                "%s: the number of experts, of those that a token takes and their width must be "
                "numbers; here they are %d, %d and %d",
                what, c->num_experts, c->num_experts_per_tok, c->moe_intermediate_size);
  if (c->num_experts % groups)
    return fail(GRPO_EFORMAT, "%s: %d experts cannot be divided into n_group = %d equal groups",
                what, c->num_experts, groups);
  if (groups > 1 && c->num_experts == groups)
    return fail(GRPO_EFORMAT,
                "%s: n_group = %d leaves 1 expert in a group, whose score would be that of two",
                what, groups);
  if (top > groups)
    return fail(GRPO_EFORMAT, "%s: topk_group = %d is more than n_group = %d", what, top, groups);
  if (c->num_experts_per_tok <= c->num_experts / groups * top || !c->num_experts) return GRPO_OK;
  return fail(
      GRPO_EFORMAT,
      "%s: num_experts_per_tok = %d is more than the %d experts that a token can choose from "
      "(of %d, in %d of %d groups)",
      what, c->num_experts_per_tok, c->num_experts / groups * top, c->num_experts, top, groups);
}

Status config_check(const Config *c, const char *what) {
  try(check_ranges(c, what));
  try(check_heads(c, what));
  try(check_experts(c, what));
  const bool latent = config_traits(c) & TRAIT_LATENT;
  const int wider = c->global_head_dim > c->head_dim ? c->global_head_dim : c->head_dim;
  const int head = latent ? c->qk_nope_head_dim + c->qk_rope_head_dim + c->v_head_dim : wider;
  double h = c->hidden_size, q = (double)c->num_attention_heads * head;
  const int wide =
      config_ffn_size(c, c->num_hidden_layers - 1) + c->num_experts * c->moe_intermediate_size;
  double layer = 4 * h * q + 3 * h * wide + (double)c->vocab_size * c->per_layer_size;
  double all = layer * c->num_hidden_layers + 2 * h * c->vocab_size;
  const double most = fmin(1e11, (double)(MEM_MOST / sizeof(real)));
  if (all > most || (double)c->max_position_embeddings * h > most)
    return fail(GRPO_ELIMIT, "%s: about %.3g parameters; this build stops at %.3g", what, all,
                most);
  return GRPO_OK;
}

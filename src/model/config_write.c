#include "model/config_write.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "formats/json.h"
#include "model/config_fields.h"
#include "model/config_rope.h"

static void put_int(Buf *b, const char *key, long long v) {
  config_put_key(b, key);
  buf_printf(b, "%lld", v);
}

static void put_token(Buf *b, const char *key, int id) {
  config_put_key(b, key);
  if (id < 0)
    buf_puts(b, "null");
  else
    buf_printf(b, "%d", id);
}

static void put_eos(Buf *b, const Config *c) {
  if (c->num_eos <= 1) {
    put_token(b, "eos_token_id", c->num_eos ? c->eos_token_id[0] : -1);
    return;
  }
  config_put_key(b, "eos_token_id");
  for (int i = 0; i < c->num_eos; i++) buf_printf(b, "%s%d", i ? ", " : "[", c->eos_token_id[i]);
  buf_putc(b, ']');
}

static void put_layer_types(Buf *b, const Config *c) {
  config_put_key(b, "layer_types");
  for (int i = 0; i < c->num_hidden_layers; i++)
    buf_printf(b, "%s\"%s\"", i ? ", " : "[", config_layer_word(config_layer_kind(c, i)));
  buf_putc(b, ']');
}

/* 1 for a layer that HAS rotary positions, as smollm3 writes it */
static void put_unrotated(Buf *b, const Config *c) {
  config_put_key(b, "no_rope_layers");
  for (int i = 0; i < c->num_hidden_layers; i++)
    buf_printf(b, "%s%d", i ? ", " : "[", config_layer_rotates(c, i));
  buf_putc(b, ']');
}

static void put_dense_layers(Buf *b, const Config *c) {
  int n = 0;
  config_put_key(b, "mlp_only_layers");
  buf_putc(b, '[');
  for (int i = 0; i < c->num_hidden_layers; i++)
    if (c->layer_dense[i]) buf_printf(b, "%s%d", n++ ? ", " : "", i);
  buf_putc(b, ']');
}

/* transformers takes other defaults: state-space layers, of a size that it checks. */
static void put_granite4(Buf *b, const Config *c) {
  config_put_key(b, "layer_types");
  for (int i = 0; i < c->num_hidden_layers; i++)
    buf_printf(b, "%s\"full_attention\"", i ? ", " : "[");
  buf_puts(b, "]");
  config_put_key(b, "position_embedding_type");
  buf_puts(b, config_layer_rotates(c, 0) ? "\"rope\"" : "null");
  put_int(b, "num_local_experts", 0);
  put_int(b, "mamba_n_heads", 1);
}

/* Factors and soft caps are floats to transformers, which refuses a whole number in their place. */
static bool is_float(const Field *f, double v) {
  return f->type == FIELD_NUM && f->nullable && v == floor(v) && fabs(v) < 1e15 &&
         f->at != offsetof(Config, query_pre_attn_scalar);
}

static void put_field(Buf *b, const Config *c, const Field *f) {
  const double v = config_get(c, f);
  config_put_key(b, f->key);
  if (f->nullable && v == 0)
    buf_puts(b, "null");
  else if (f->type == FIELD_BOOL)
    buf_puts(b, v != 0 ? "true" : "false");
  else {
    json_put_number(b, v);
    if (is_float(f, v)) buf_puts(b, ".0");
  }
}

/* "LlamaForCausalLM", "GPT2LMHeadModel", or the class of the same model with a head for labels. */
static void put_architecture(Buf *b, const Config *c, const char *name) {
  static const char *const heads[] = {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"};
  size_t stem = strlen(name);
  for (size_t i = 0; c->num_labels && i < sizeof heads / sizeof *heads; i++) {
    const char *at = strstr(name, heads[i]);
    if (at) stem = (size_t)(at - name);
  }
  buf_printf(b, "%.*s%s", (int)stem, name, c->num_labels ? "ForSequenceClassification" : "");
}

void config_write(Buf *b, const Config *c) {
  const FamilyRow *family = config_family(c->family);
  buf_puts(b, "{\n  \"architectures\": [\"");
  put_architecture(b, c, family->architecture);
  buf_printf(b, "\"],\n  \"model_type\": \"%s\"", family->type);
  if (c->num_labels) put_int(b, "num_labels", c->num_labels);
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(c->family, i);
    if (*f.key) put_field(b, c, &f);
  }
  if (c->family == FAMILY_SMOLLM3) put_unrotated(b, c);
  if (config_has_layer_types(c) &&
      ((c->use_sliding_window && c->sliding_window) || STATEFUL >> c->family & 1))
    put_layer_types(b, c);
  if (c->family == FAMILY_GRANITE4) put_granite4(b, c);
  if (MIXTURES >> c->family & 1) put_dense_layers(b, c);
  if (config_rotates(c)) config_put_rope(b, c);
  if (c->family == FAMILY_GEMMA4) put_int(b, "vocab_size_per_layer_input", c->vocab_size);
  if (config_traits(c) & TRAIT_CONV1D) put_int(b, "n_ctx", c->max_position_embeddings);
  if (DEEPSEEKS >> c->family & 1) put_int(b, "num_key_value_heads", c->num_attention_heads);
  config_put_key(b, family->activation_key);
  buf_printf(b, "\"%s\"", family->activation);
  put_token(b, "bos_token_id", c->bos_token_id);
  put_token(b, "pad_token_id", c->pad_token_id);
  put_eos(b, c);
  if (c->denoiser) put_token(b, "mask_token_id", c->mask_token_id);
  buf_puts(b, "\n}\n");
}

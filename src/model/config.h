/* config.h - what a decoder looks like, read from Hugging Face's config.json.
 *
 * config.def lists every field once: its C type, its Hugging Face key (and the
 * GPT-2 family's key), default and range.  An unknown model_type, or an option
 * that would change the result and is not supported, is refused by name.
 */
#ifndef GRPO_MODEL_CONFIG_H
#define GRPO_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

typedef enum Family { FAMILY_GPT2, FAMILY_LLAMA } Family;
typedef enum RopeScaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 } RopeScaling;

enum { CONFIG_MAX_EOS = 8 };

typedef struct Config {
  Family family;
  int vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
  double norm_eps, initializer_range;
  bool tie_word_embeddings, attention_bias, mlp_bias;
  double rope_theta;
  RopeScaling rope_scaling;
  double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
  int rope_original_max_position_embeddings;
  int bos_token_id, pad_token_id;            /* -1: none */
  int num_eos, eos_token_id[CONFIG_MAX_EOS]; /* config.json and generation_config.json together */
} Config;

/* `what` names the source in messages. */
Status config_from_json(Config *out, const Json *j, const char *what);
/* config.json and, when there, generation_config.json */
Status config_load(Config *out, const char *dir);
void config_put_json(Buf *b, const Config *c); /* a config.json that transformers loads */
/* Shapes that fit together, within limits. */
Status config_check(const Config *c, const char *what);
bool config_is_eos(const Config *c, int id);

#endif

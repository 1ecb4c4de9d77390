#include "model/config_keys.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "model/config_fields.h"

/* ---- keys that are known -------------------------------------------------------------------- */

typedef struct Others {
  unsigned families;
  const char *keys; /* separated by spaces */
} Others;

static const Others others[] = {
#define OTHER(families, keys) {families, keys},
#include "model/config.def"
};

static bool is_among(const char *keys, const char *key) {
  const size_t n = strlen(key);
  for (const char *at = keys; n && (at = strstr(at, key)); at += n)
    if ((at == keys || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

static bool is_computed(const Config *c, const char *key) {
  if (strcmp(key, config_family(c->family)->activation_key) == 0) return true;
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(c->family, i);
    if (*f.key && (strcmp(key, f.key) == 0 || strcmp(key, f.common_key) == 0)) return true;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].families >> c->family & 1 && is_among(others[i].keys, key)) return true;
  return false;
}

static bool has_word(const char *const *words, const char *key) {
  for (; *words; words++)
    if (strstr(key, *words)) return true;
  return false;
}

/* Training, tokens and the history of a file say nothing about the forward pass. */
static bool is_harmless(const char *key) {
  static const char *const words[] = {"dropout",  "pdrop",        "initializer",     "init_std",
                                      "loss",     "aux_",         "dtype",           "version",
                                      "token_id", "token_index",  "unsloth",         "summary",
                                      "torch",    "transformers", "_implementation", NULL};
  return has_word(words, key);
}

/* Names under which families have parts of their forward pass. */
static bool is_telling(const char *key) {
  static const char *const words[] = {
      "multiplier",   "scal",       "scoring", "softcap",    "soft_cap",
      "clip",         "clamp",      "norm",    "rope",       "rotary",
      "alibi",        "expert",     "moe",     "window",     "bias",
      "residual",     "parallel",   "attn",    "attention",  "mamba",
      "ssm",          "conv_",      "mup",     "head_dim",   "qk_",
      "kv_",          "lora_rank",  "sink",    "swiglu",     "per_layer",
      "gate",         "chunk",      "sparse",  "loop",       "position_embedding",
      "layers_block", "layer_type", "act_fn",  "hidden_act", NULL};
  return has_word(words, key);
}

/* ---- values that are not used ------------------------------------------------------------ */

/* A factor is 1 where it changes nothing, and a size or a count is 0. */
static bool is_neutral_number(const char *key, double v) {
  const bool factor = strstr(key, "multiplier") || strstr(key, "scal");
  return v == 1 || (v == 0 && !factor);
}

/* "no_rope_layers" has a 1 for each layer with rotary positions. */
static bool is_neutral(const char *key, const Json *v) {
  static const char neutral[] = "none default rope rms rmsnorm full";
  switch (json_type(v)) {
  case JSON_NULL:
    return true;
  case JSON_BOOL:
    return !json_bool(v);
  case JSON_NUMBER:
    return is_neutral_number(key, json_number(v));
  case JSON_STRING:
    return !*json_string(v) || is_among(neutral, json_string(v));
  default:
    break;
  }
  for (const Json *e = json_child(v); e; e = json_next(e))
    if (json_number(e) != 1) return false;
  return true;
}

/* ---- all keys -------------------------------------------------------------------------------- */

/* Says it once: a configuration is read several times while a model is loaded. */
static void note(const Config *c, const Buf *names, const char *what) {
  static atomic_uint said;
  unsigned sum = 5381;
  for (const char *p = names->data; *p; p++) sum = sum * 33 + (unsigned char)*p;
  if (atomic_exchange(&said, sum) == sum) return;
  log_message(LOG_WARNING, "%s: not known for %s models and ignored: %s", what,
              config_model_type(c), names->data);
}

Status config_check_keys(const Config *c, const Json *j, const char *what) {
  enum { NOTED = 8 };
  Buf names = {0};
  int n = 0;
  Status s = GRPO_OK;
  for (const Json *v = json_child(j); v && s == GRPO_OK; v = json_next(v)) {
    const char *key = json_key(v);
    if (is_computed(c, key) || is_harmless(key) || is_neutral(key, v)) continue;
    if (is_telling(key))
      s = fail(GRPO_EFORMAT,
               "%s: %.60s: it changes the result and is not computed for %s models; take a model "
               "without it",
               what, key, config_model_type(c));
    else if (n++ < NOTED)
      buf_printf(&names, "%s%.60s", names.len ? ", " : "", key);
  }
  if (n > NOTED) buf_printf(&names, " and %d more", n - NOTED);
  if (s == GRPO_OK) s = buf_status(&names);
  if (s == GRPO_OK && n) note(c, &names, what);
  buf_free(&names);
  return s;
}

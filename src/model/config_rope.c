#include "model/config_rope.h"

#include <math.h>
#include <string.h>

#include "model/config_fields.h"

static Status read_llama3(Config *c, const Json *r, const char *what) {
  const Json *low = json_get(r, "low_freq_factor"), *high = json_get(r, "high_freq_factor");
  const Json *len = json_get(r, "original_max_position_embeddings");
  if (config_absent(low) || config_absent(high) || config_absent(len))
    return fail(GRPO_EFORMAT,
                "%s: llama3 rope scaling needs low_freq_factor, high_freq_factor and "
                "original_max_position_embeddings",
                what);
  try(config_read_num(low, "low_freq_factor", 1e-6, 1e6, what, &c->rope_low_freq_factor));
  try(config_read_num(high, "high_freq_factor", 1e-6, 1e6, what, &c->rope_high_freq_factor));
  if (c->rope_high_freq_factor <= c->rope_low_freq_factor)
    return fail(GRPO_EFORMAT, "%s: high_freq_factor must be greater than low_freq_factor", what);
  return config_read_int(len, "original_max_position_embeddings", 1, 1 << 24, what,
                         &c->rope_original_max_position_embeddings);
}

/* ---- longrope: divisors of frequencies, for short sequences and for long ones ------------- */

static Status read_factors(const Json *r, const char *key, const char *what, int n, double *out) {
  const Json *list = json_get(r, key);
  int at = 0;
  for (const Json *v = config_absent(list) ? NULL : json_child(list); v; v = json_next(v)) {
    if (at == n) break;
    try(config_read_num(v, key, 1e-6, 1e6, what, &out[at]));
    at++;
  }
  if (at != n || json_count(list) != (size_t)n)
    return fail(GRPO_EFORMAT, "%s: %s must list %d numbers, one for each pair that is rotated",
                what, key, n);
  return GRPO_OK;
}

static Status read_long(Config *c, const Json *r, const Json *j, const char *what) {
  const char *const key = "original_max_position_embeddings";
  const Json *len = json_get(r, key), *attention = json_get(r, "attention_factor");
  const Json *factor = json_get(r, "factor");
  c->rope_nfactors = config_rotary_dim(c, false) / 2;
  if (c->family != FAMILY_PHI3)
    return fail(GRPO_EFORMAT, "%s: rope type 'longrope' is supported for phi3 models only", what);
  if (c->rope_nfactors > CONFIG_MAX_ROPE_FACTORS)
    return fail(GRPO_ELIMIT, "%s: longrope with more than %d factors", what,
                CONFIG_MAX_ROPE_FACTORS);
  if (config_absent(len)) len = json_get(j, key);
  c->rope_original_max_position_embeddings = 4096; /* default of the family */
  if (!config_absent(len))
    try(config_read_int(len, key, 2, 1 << 24, what, &c->rope_original_max_position_embeddings));
  if (!config_absent(attention))
    try(config_read_num(attention, "attention_factor", 1e-3, 1e3, what, &c->rope_attention_factor));
  c->rope_factor = (double)c->max_position_embeddings / c->rope_original_max_position_embeddings;
  if (!config_absent(factor) && fabs(json_number(factor) - c->rope_factor) > 1e-6 * c->rope_factor)
    return fail(GRPO_EFORMAT,
                "%s: longrope's factor is supported only as max_position_embeddings "
                "/ %s = %g",
                what, key, c->rope_factor);
  try(read_factors(r, "short_factor", what, c->rope_nfactors, c->rope_short));
  return read_factors(r, "long_factor", what, c->rope_nfactors, c->rope_long);
}

/* ---- YaRN ---- */

/* A number of r, or `otherwise` where it is missing or null. */
static Status read_or(const Json *r, const char *key, double lo, double hi, double otherwise,
                      const char *what, double *out) {
  const Json *v = json_get(r, key);
  *out = otherwise;
  return config_absent(v) ? GRPO_OK : config_read_num(v, key, lo, hi, what, out);
}

static Status read_yarn(Config *c, const Json *r, const char *what) {
  const char *const key = "original_max_position_embeddings";
  const Json *len = json_get(r, key), *truncate = json_get(r, "truncate");
  double mscale, all;
  c->rope_original_max_position_embeddings = c->max_position_embeddings;
  if (!config_absent(len))
    try(config_read_int(len, key, 2, 1 << 24, what, &c->rope_original_max_position_embeddings));
  try(read_or(r, "beta_fast", 1e-3, 1e6, 32, what, &c->rope_beta_fast));
  try(read_or(r, "beta_slow", 1e-3, 1e6, 1, what, &c->rope_beta_slow));
  c->rope_truncate = true;
  if (!config_absent(truncate))
    try(config_read_bool(truncate, "truncate", what, &c->rope_truncate));
  try(read_or(r, "mscale", 0, 1e3, 0, what, &mscale));
  try(read_or(r, "mscale_all_dim", 0, 1e3, 0, what, &all));
  if (LATENTS >> c->family & 1) c->rope_mscale_all_dim = all;
  const double usual = mscale > 0 && all > 0 ? config_yarn_mscale(c->rope_factor, mscale) /
                                                   config_yarn_mscale(c->rope_factor, all)
                                             : config_yarn_mscale(c->rope_factor, 1);
  return read_or(r, "attention_factor", 1e-3, 1e3, usual, what, &c->rope_attention_factor);
}

/* HunYuan's "dynamic" has a fixed base; that of others depends on the length of a row, which grows
 * while it is sampled. */
static Status read_alpha(Config *c, const Json *r, const char *what) {
  const Json *alpha = json_get(r, "alpha");
  if (c->family != FAMILY_HUNYUAN || config_absent(alpha) || json_number(alpha) == 0)
    return fail(GRPO_EFORMAT,
                "%s: rope type 'dynamic' without alpha is not supported, because its frequencies "
                "change while a row grows; set rope_scaling to null for rows within "
                "max_position_embeddings",
                what);
  c->rope_scaling = ROPE_ALPHA;
  return config_read_num(alpha, "alpha", 1, 1e6, what, &c->rope_factor);
}

/* ---- any kind ---- */

static const char *rope_type(const Json *r) {
  const Json *t = json_get(r, "rope_type");
  if (config_absent(t)) t = json_get(r, "type");
  return config_absent(t) ? "default" : json_string(t);
}

static Status read_scaling(Config *c, const Json *r, const Json *j, const char *what) {
  if (json_type(r) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: rope_scaling must be an object or null", what);
  const Json *theta = json_get(r, "rope_theta"), *part = json_get(r, "partial_rotary_factor");
  const char *type = rope_type(r);
  const bool proportional =
      PROPORTIONAL >> c->family & 1 && type && strcmp(type, "proportional") == 0;
  if (!config_absent(theta))
    try(config_read_num(theta, "rope_theta", 1, 1e12, what, &c->rope_theta));
  if (!config_absent(part)) {
    if (!(PARTLY_ROPED >> c->family & 1) && !proportional && json_number(part) != 1)
      return fail(GRPO_EFORMAT, "%s: partial_rotary_factor is supported only as 1", what);
    try(config_read_num(part, "partial_rotary_factor", 1e-3, 1, what, &c->partial_rotary_factor));
  }
  try(read_or(r, "llama_4_scaling_beta", 0, 1e3, 0, what, &c->rope_query_beta));
  if (c->rope_query_beta != 0 && c->family != FAMILY_MINISTRAL3)
    return fail(GRPO_EFORMAT, "%s: llama_4_scaling_beta is not supported for %s models", what,
                config_model_type(c));
  if (type && strcmp(type, "default") == 0) return GRPO_OK;
  if (type && strcmp(type, "dynamic") == 0) return read_alpha(c, r, what);
  if (type && (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)) {
    c->rope_scaling = ROPE_LONG;
    return read_long(c, r, j, what);
  }
  if (proportional) {
    c->rope_scaling = ROPE_PROPORTIONAL;
    return read_or(r, "factor", 1e-3, 1e6, 1, what, &c->rope_factor);
  }
  if (type && strcmp(type, "linear") == 0) c->rope_scaling = ROPE_LINEAR;
  if (type && strcmp(type, "llama3") == 0) c->rope_scaling = ROPE_LLAMA3;
  if (type && strcmp(type, "yarn") == 0) c->rope_scaling = ROPE_YARN;
  if (c->rope_scaling == ROPE_PLAIN)
    return fail(GRPO_EFORMAT,
                "%s: rope type '%s' is not supported (default, linear, llama3, longrope, yarn are)",
                what, type ? type : "?");
  const Json *factor = json_get(r, "factor");
  if (config_absent(factor))
    return fail(GRPO_EFORMAT, "%s: rope scaling '%s' needs a factor", what, type);
  try(config_read_num(factor, "rope scaling factor", 1e-3, 1e6, what, &c->rope_factor));
  if (c->rope_scaling == ROPE_YARN) return read_yarn(c, r, what);
  return c->rope_scaling == ROPE_LLAMA3 ? read_llama3(c, r, what) : GRPO_OK;
}

/* Newer files of gemma3 nest one object for each type of layer. */
static Status read_local(Config *c, const Json *r, const char *what) {
  const Json *theta = json_get(r, "rope_theta");
  const char *type = rope_type(r);
  if (json_type(r) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: sliding_attention must be an object or null", what);
  if (!type || strcmp(type, "default") != 0)
    return fail(GRPO_EFORMAT, "%s: rope type '%s' is not supported for sliding_attention", what,
                type ? type : "?");
  if (config_absent(theta)) return GRPO_OK;
  return config_read_num(theta, "rope_theta", 1, 1e12, what, &c->rope_local_theta);
}

Status config_read_rope(Config *c, const Json *j, const char *what) {
  static const char *const keys[] = {"rope_scaling", "rope_parameters"};
  bool has_local = (PROPORTIONAL | IN(GEMMA3)) >> c->family & 1;
  c->rope_factor = 1;
  if (PROPORTIONAL >> c->family & 1 && config_absent(json_get(j, "rope_parameters"))) {
    c->rope_scaling = ROPE_PROPORTIONAL;
    c->partial_rotary_factor = c->family == FAMILY_LFM3 ? 0.5 : 0.25;
  }
  for (int i = 0; i < 2 && config_rotates(c); i++) {
    const Json *r = json_get(j, keys[i]);
    const Json *full = json_get(r, "full_attention"), *local = json_get(r, "sliding_attention");
    if (config_absent(r)) continue;
    if (!config_has_local_rope(c) && (full || local))
      return fail(GRPO_EFORMAT, "%s: %s for each type of layer is not supported for %s models",
                  what, keys[i], config_model_type(c));
    if (!config_absent(local)) {
      try(read_local(c, local, what));
      has_local = c->rope_local_theta > 0;
    }
    if (!config_absent(full))
      try(read_scaling(c, full, j, what));
    else if (!local)
      try(read_scaling(c, r, j, what));
  }
  if (!has_local) c->rope_local_theta = c->rope_theta;
  return GRPO_OK;
}

/* ---- writing ---- */

static void put_number(Buf *b, const char *before, double v) {
  buf_puts(b, before);
  json_put_number(b, v);
}

static void put_factors(Buf *b, const char *before, const double *v, int n) {
  buf_puts(b, before);
  for (int i = 0; i < n; i++) put_number(b, i ? ", " : "[", v[i]);
  buf_putc(b, ']');
}

static void put_yarn(Buf *b, const Config *c) {
  put_number(b, "{\"rope_type\": \"yarn\", \"factor\": ", c->rope_factor);
  put_number(b, ", \"beta_fast\": ", c->rope_beta_fast);
  put_number(b, ", \"beta_slow\": ", c->rope_beta_slow);
  put_number(b, ", \"attention_factor\": ", c->rope_attention_factor);
  if (c->rope_mscale_all_dim != 0) put_number(b, ", \"mscale_all_dim\": ", c->rope_mscale_all_dim);
  if (c->rope_query_beta != 0) put_number(b, ", \"llama_4_scaling_beta\": ", c->rope_query_beta);
  buf_printf(b, ", \"truncate\": %s, \"original_max_position_embeddings\": %d}",
             c->rope_truncate ? "true" : "false", c->rope_original_max_position_embeddings);
}

static void put_long(Buf *b, const Config *c) {
  buf_puts(b, "{\"type\": \"longrope\"");
  put_factors(b, ", \"short_factor\": ", c->rope_short, c->rope_nfactors);
  put_factors(b, ", \"long_factor\": ", c->rope_long, c->rope_nfactors);
  if (c->rope_attention_factor > 0)
    put_number(b, ", \"attention_factor\": ", c->rope_attention_factor);
  buf_putc(b, '}');
  config_put_key(b, "original_max_position_embeddings");
  buf_printf(b, "%d", c->rope_original_max_position_embeddings);
}

static void put_scaling(Buf *b, const Config *c) {
  switch (c->rope_scaling) {
  case ROPE_PLAIN:
    buf_puts(b, "null");
    break;
  case ROPE_LINEAR:
    put_number(b, "{\"rope_type\": \"linear\", \"factor\": ", c->rope_factor);
    buf_putc(b, '}');
    break;
  case ROPE_LLAMA3:
    put_number(b, "{\"rope_type\": \"llama3\", \"factor\": ", c->rope_factor);
    put_number(b, ", \"low_freq_factor\": ", c->rope_low_freq_factor);
    put_number(b, ", \"high_freq_factor\": ", c->rope_high_freq_factor);
    buf_printf(b, ", \"original_max_position_embeddings\": %d}",
               c->rope_original_max_position_embeddings);
    break;
  case ROPE_LONG:
    put_long(b, c);
    break;
  case ROPE_YARN:
    put_yarn(b, c);
    break;
  case ROPE_PROPORTIONAL:
    put_number(b, "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": ",
               c->partial_rotary_factor);
    if (c->rope_factor != 1) put_number(b, ", \"factor\": ", c->rope_factor);
    buf_putc(b, '}');
    break;
  case ROPE_ALPHA:
    put_number(b, "{\"rope_type\": \"dynamic\", \"factor\": 1, \"alpha\": ", c->rope_factor);
    buf_putc(b, '}');
    break;
  }
}

/* Windowed layers of these families have a base of their own and no scaling. */
static void put_by_layer_type(Buf *b, const Config *c) {
  config_put_key(b, "rope_parameters");
  put_number(b, "{\"full_attention\": {\"rope_theta\": ", c->rope_theta);
  const size_t at = b->len;
  put_scaling(b, c); /* an object, which becomes the rest of this one, or null */
  if (c->rope_scaling == ROPE_PLAIN)
    b->len = at, buf_puts(b, ", \"rope_type\": \"default\"}");
  else if (b->len > at)
    b->data[at] = ',';
  put_number(b, ", \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": ",
             c->rope_local_theta);
  buf_puts(b, "}}");
}

void config_put_rope(Buf *b, const Config *c) {
  if ((PROPORTIONAL | IN(OLMO3)) >> c->family & 1) {
    put_by_layer_type(b, c);
    return;
  }
  config_put_key(b, "rope_scaling");
  put_scaling(b, c);
}

#include "checkpoint/peft_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/regex.h"

enum { NAME_BYTES = 256 };

/* ---- adapter_config.json --------------------------------------------------------- */

/* Is it null, false, 0, "", [] or {}? */
static bool empty(const Json *j) {
  switch (j ? json_type(j) : JSON_NULL) {
  case JSON_NULL:
    return true;
  case JSON_BOOL:
    return !json_bool(j);
  case JSON_NUMBER:
    return json_number(j) == 0;
  case JSON_STRING:
    return !*json_string(j);
  default:
    return !json_child(j);
  }
}

/* Keys that are read, and keys that do not change the result. */
static const char *const understood[] = {"r",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "target_modules",
                                         "exclude_modules",
                                         "bias",
                                         "use_rslora",
                                         "fan_in_fan_out",
                                         "rank_pattern",
                                         "alpha_pattern",
                                         "peft_type",
                                         "task_type",
                                         "init_lora_weights",
                                         "layers_to_transform",
                                         "layers_pattern",
                                         "revision",
                                         "auto_mapping",
                                         "inference_mode",
                                         "base_model_name_or_path",
                                         "peft_version",
                                         "eva_config",
                                         "loftq_config",
                                         "corda_config",
                                         "megatron_config",
                                         "megatron_core",
                                         "qalora_group_size",
                                         "ensure_weight_tying",
                                         "lora_ga_config",
                                         NULL};

static const char *const refused[][2] = {
    {"use_dora", "DoRA is not supported"},
    {"lora_bias", "a bias on B is not supported"},
    {"layer_replication", "replicated layers are not supported"},
    {"target_parameters", "adapters on bare parameters are not supported"},
    {"modules_to_save", "fully trained modules beside the adapter are not supported"},
    {"trainable_token_indices", "trained token rows are not supported"},
    {"use_qalora", "QALoRA is not supported"},
    {"alora_invocation_tokens", "activated LoRA is not supported"},
};

static bool among(const char *word, const char *const *list) {
  for (; *list; list++)
    if (strcmp(word, *list) == 0) return true;
  return false;
}

static Status check_keys(const PeftConfig *c) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!empty(json_get(c->json, refused[i][0])))
      return fail(GRPO_EFORMAT, "%s: %s: %s", c->where, refused[i][0], refused[i][1]);
  for (const Json *j = json_child(c->json); j; j = json_next(j)) {
    bool known = among(json_key(j), understood);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
      known |= strcmp(json_key(j), refused[i][0]) == 0;
    if (!known && !empty(j))
      return fail(GRPO_EFORMAT, "%s: the key '%.80s' is unknown", c->where, json_key(j));
  }
  return GRPO_OK;
}

/* The value must be one of `words`; absent or null means the first. */
static Status check_word(const PeftConfig *c, const char *key, const char *const *words) {
  const Json *j = json_get(c->json, key);
  if (!j || json_type(j) == JSON_NULL) return GRPO_OK;
  if (json_string(j) && among(json_string(j), words)) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s is '%.80s', but only '%s' is supported", c->where, key,
              json_string(j) ? json_string(j) : "(no string)", *words);
}

/* Initialisations that change the base weights: A and B alone do not describe the adapter then. */
static Status check_init(const PeftConfig *c) {
  static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
  const char *how = json_string(json_get(c->json, "init_lora_weights"));
  for (size_t i = 0; how && i < sizeof changing / sizeof *changing; i++)
    if (strncmp(how, changing[i], strlen(changing[i])) == 0)
      return fail(GRPO_EFORMAT,
                  "%s: init_lora_weights is '%.80s', which changes the base weights; convert the "
                  "adapter to plain LoRA when saving it",
                  c->where, how);
  return GRPO_OK;
}

static Status read_number(const PeftConfig *c, const char *key, double otherwise, double low,
                          double high, double *out) {
  const Json *j = json_get(c->json, key);
  *out = j && json_type(j) != JSON_NULL ? json_number(j) : otherwise;
  if (*out >= low && *out <= high) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s must be a number from %g to %g", c->where, key, low, high);
}

/* The value is a list of strings or a string; absent or null is fine. */
static Status check_names(const PeftConfig *c, const char *key) {
  const Json *j = json_get(c->json, key);
  if (!j || json_type(j) == JSON_NULL || json_type(j) == JSON_STRING) return GRPO_OK;
  bool good = json_type(j) == JSON_ARRAY;
  for (const Json *e = json_child(j); good && e; e = json_next(e)) good = json_string(e);
  return good ? GRPO_OK
              : fail(GRPO_EFORMAT, "%s: %s must be a list of names or a pattern", c->where, key);
}

static Status check_pattern(const PeftConfig *c, const char *key) {
  const Json *j = json_get(c->json, key);
  if (empty(j)) return GRPO_OK;
  bool good = json_type(j) == JSON_OBJECT;
  for (const Json *e = json_child(j); good && e; e = json_next(e)) good = json_number(e) > 0;
  return good ? GRPO_OK
              : fail(GRPO_EFORMAT, "%s: %s must map patterns to positive numbers", c->where, key);
}

static Status read_config(PeftConfig *c) {
  static const char *const lora[] = {"LORA", NULL}, *const none[] = {"none", NULL};
  static const char *const causal[] = {"CAUSAL_LM", NULL};
  double rank;
  if (json_type(c->json) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: it is not a JSON object", c->where);
  try(check_word(c, "peft_type", lora));
  try(check_word(c, "task_type", causal));
  try(check_word(c, "bias", none));
  try(check_keys(c));
  try(check_init(c));
  try(read_number(c, "r", 8, 1, 65536, &rank));
  c->rank = (int)rank;
  if (c->rank != rank)
    return fail(GRPO_EFORMAT, "%s: r is %g, but must be a whole number", c->where, rank);
  try(read_number(c, "lora_alpha", 8, 0, 1e9, &c->alpha));
  try(read_number(c, "lora_dropout", 0, 0, 0.999, &c->dropout));
  c->use_rslora = json_bool(json_get(c->json, "use_rslora"));
  if (empty(json_get(c->json, "target_modules")))
    return fail(GRPO_EFORMAT, "%s: target_modules is missing", c->where);
  static const char *const names[] = {"target_modules", "exclude_modules", "layers_pattern"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) try(check_names(c, names[i]));
  try(check_pattern(c, "rank_pattern"));
  return check_pattern(c, "alpha_pattern");
}

Status peft_config_parse(PeftConfig *out, const char *text, size_t len, const char *where) {
  *out = (PeftConfig){.where = where};
  try(json_parse(text, len, where, &out->json));
  const Status s = read_config(out);
  if (s != GRPO_OK) peft_config_free(out);
  return s;
}

void peft_config_free(PeftConfig *c) {
  json_free(c->json);
  c->json = NULL;
}

/* ---- matching -------------------------------------------------------------------- */

/* The path, or the path that it has within a multimodal model, matches. */
static Status matches_whole(const PeftConfig *c, const char *pattern, const char *path, bool *yes) {
  char nested[NAME_BYTES + 32];
  Regex *re;
  const size_t *bounds;
  *yes = false;
  if (regex_compile(&re, pattern, strlen(pattern), REGEX_ANCHORED_FULL) != GRPO_OK)
    return fail(GRPO_EFORMAT, "%s: '%.200s' is not a regular expression", c->where, pattern);
  Status s = regex_exec(re, path, strlen(path), 0, yes, &bounds);
  if (s == GRPO_OK && !*yes && strncmp(path, "model.", 6) == 0) {
    snprintf(nested, sizeof nested, "model.language_model.%s", path + 6);
    s = regex_exec(re, nested, strlen(nested), 0, yes, &bounds);
  }
  regex_free(re);
  return s;
}

/* A string is a pattern for the whole path, a list holds last words. */
static Status matches(const PeftConfig *c, const Json *j, const char *path, bool *yes) {
  *yes = false;
  if (empty(j)) return GRPO_OK;
  if (json_string(j)) return matches_whole(c, json_string(j), path, yes);
  for (const Json *e = json_child(j); e && !*yes; e = json_next(e))
    *yes = lora_name_matches(path, json_string(e));
  return GRPO_OK;
}

/* layers_to_transform is a number or a list of numbers. */
static bool layer_listed(const Json *j, const LoraSite *m) {
  if (!j || json_type(j) == JSON_NULL) return true;
  if (!m->in_layer) return false;
  if (json_type(j) == JSON_NUMBER) return json_number(j) == m->layer;
  for (const Json *e = json_child(j); e; e = json_next(e))
    if (json_number(e) == m->layer) return true;
  return false;
}

/* layers_pattern names the list of layers ("layers", "h"). */
static bool layers_named(const Json *j, const LoraSite *m) {
  char part[NAME_BYTES];
  if (empty(j)) return true;
  const Json *first = json_string(j) ? j : json_child(j);
  for (const Json *e = first; e; e = json_string(j) ? NULL : json_next(e)) {
    snprintf(part, sizeof part, "%.100s.%d.", json_string(e), m->layer);
    if (strstr(m->path, part)) return true;
  }
  return false;
}

Status peft_config_targets(const PeftConfig *c, const LoraSite *m, bool *yes) {
  const Json *t = json_get(c->json, "target_modules");
  const Json *layers = json_get(c->json, "layers_to_transform");
  bool excluded;
  try(matches(c, json_get(c->json, "exclude_modules"), m->path, &excluded));
  if (excluded) {
    *yes = false;
    return GRPO_OK;
  }
  if (json_string(t) && strcmp(json_string(t), "all-linear") == 0)
    *yes = m->in_layer;
  else
    try(matches(c, t, m->path, yes));
  if (*yes && layers && json_type(layers) != JSON_NULL)
    *yes = layer_listed(layers, m) && layers_named(json_get(c->json, "layers_pattern"), m);
  return GRPO_OK;
}

/* Takes the value of the first pattern that matches the end of the path. */
static Status by_pattern(const PeftConfig *c, const char *key, const char *path, double *value) {
  char pattern[NAME_BYTES + 16];
  bool yes = false;
  for (const Json *j = json_child(json_get(c->json, key)); j && !yes; j = json_next(j)) {
    if (snprintf(pattern, sizeof pattern, "(.*\\.)?(%s)", json_key(j)) >= (int)sizeof pattern)
      return fail(GRPO_EFORMAT, "%s: a pattern of %s is too long", c->where, key);
    try(matches_whole(c, pattern, path, &yes));
    if (yes) *value = json_number(j);
  }
  return GRPO_OK;
}

Status peft_config_rank(const PeftConfig *c, const char *path, int *rank, double *alpha) {
  double r = c->rank;
  *alpha = c->alpha;
  try(by_pattern(c, "rank_pattern", path, &r));
  try(by_pattern(c, "alpha_pattern", path, alpha));
  *rank = r < 1e6 ? (int)r : -1;
  return GRPO_OK;
}

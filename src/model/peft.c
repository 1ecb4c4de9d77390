#include "model/peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/regex.h"
#include "formats/safetensors.h"
#include "model/impl.h"
#include "model/lora.h"
#include "os/file.h"

enum { CONFIG_MAX = 16 << 20, NAME_BYTES = 256 };

static const char prefix[] = "base_model.model.";

/* ---- adapter_config.json --------------------------------------------------------- */

/* null, false, 0, "", [] and {} */
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

/* What is read, and what says nothing about the result. */
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
      return fail(GRPO_EFORMAT, "%s: the option '%.80s' is not known", c->where, json_key(j));
  }
  return GRPO_OK;
}

/* A word that must be one of a few; absent or null: the first. */
static Status check_word(const PeftConfig *c, const char *key, const char *const *words) {
  const Json *j = json_get(c->json, key);
  if (!j || json_type(j) == JSON_NULL) return GRPO_OK;
  if (json_string(j) && among(json_string(j), words)) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s is '%.80s', only '%s' is supported", c->where, key,
              json_string(j) ? json_string(j) : "(no string)", *words);
}

/* Starting points that change the base weights: A and B alone are not the adapter then. */
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
  return fail(GRPO_EFORMAT, "%s: %s is not a number from %g to %g", c->where, key, low, high);
}

/* A list of strings, or a string where `or_string`; absent or null is fine. */
static Status check_names(const PeftConfig *c, const char *key) {
  const Json *j = json_get(c->json, key);
  if (!j || json_type(j) == JSON_NULL || json_type(j) == JSON_STRING) return GRPO_OK;
  bool good = json_type(j) == JSON_ARRAY;
  for (const Json *e = json_child(j); good && e; e = json_next(e)) good = json_string(e);
  return good
             ? GRPO_OK
             : fail(GRPO_EFORMAT, "%s: %s is neither a list of names nor a pattern", c->where, key);
}

static Status check_pattern(const PeftConfig *c, const char *key) {
  const Json *j = json_get(c->json, key);
  if (empty(j)) return GRPO_OK;
  bool good = json_type(j) == JSON_OBJECT;
  for (const Json *e = json_child(j); good && e; e = json_next(e)) good = json_number(e) > 0;
  return good ? GRPO_OK
              : fail(GRPO_EFORMAT, "%s: %s is not a table of positive numbers by pattern", c->where,
                     key);
}

static Status read_config(PeftConfig *c) {
  static const char *const lora[] = {"LORA", NULL}, *const none[] = {"none", NULL};
  static const char *const causal[] = {"CAUSAL_LM", NULL};
  double rank;
  if (json_type(c->json) != JSON_OBJECT) return fail(GRPO_EFORMAT, "%s: not an object", c->where);
  try(check_word(c, "peft_type", lora));
  try(check_word(c, "task_type", causal));
  try(check_word(c, "bias", none));
  try(check_keys(c));
  try(check_init(c));
  try(read_number(c, "r", 8, 1, 65536, &rank));
  c->rank = (int)rank;
  if (c->rank != rank) return fail(GRPO_EFORMAT, "%s: r is %g, want an integer", c->where, rank);
  try(read_number(c, "lora_alpha", 8, 0, 1e9, &c->alpha));
  try(read_number(c, "lora_dropout", 0, 0, 0.999, &c->dropout));
  c->use_rslora = json_bool(json_get(c->json, "use_rslora"));
  if (empty(json_get(c->json, "target_modules")))
    return fail(GRPO_EFORMAT, "%s: no target_modules", c->where);
  static const char *const names[] = {"target_modules", "exclude_modules", "layers_pattern"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) try(check_names(c, names[i]));
  try(check_pattern(c, "rank_pattern"));
  return check_pattern(c, "alpha_pattern");
}

Status peft_parse(PeftConfig *out, const char *text, size_t len, const char *where) {
  *out = (PeftConfig){.where = where};
  try(json_parse(text, len, where, &out->json));
  const Status s = read_config(out);
  if (s != GRPO_OK) peft_free(out);
  return s;
}

void peft_free(PeftConfig *c) {
  json_free(c->json);
  c->json = NULL;
}

/* ---- matching -------------------------------------------------------------------- */

bool peft_name_matches(const char *path, const char *name) {
  const size_t n = strlen(path), k = strlen(name);
  if (k > n || !k || strcmp(path + n - k, name) != 0) return false;
  return k == n || path[n - k - 1] == '.';
}

static Status matches_whole(const PeftConfig *c, const char *pattern, const char *path, bool *yes) {
  Regex *re;
  const size_t *bounds;
  *yes = false;
  if (regex_compile(&re, pattern, strlen(pattern), REGEX_ANCHORED_FULL) != GRPO_OK)
    return fail(GRPO_EFORMAT, "%s: '%.200s' is not a regular expression", c->where, pattern);
  const Status s = regex_exec(re, path, strlen(path), 0, yes, &bounds);
  regex_free(re);
  return s;
}

/* A string is a pattern of the whole path, a list holds last words. */
static Status matches(const PeftConfig *c, const Json *j, const char *path, bool *yes) {
  *yes = false;
  if (empty(j)) return GRPO_OK;
  if (json_string(j)) return matches_whole(c, json_string(j), path, yes);
  for (const Json *e = json_child(j); e && !*yes; e = json_next(e))
    *yes = peft_name_matches(path, json_string(e));
  return GRPO_OK;
}

/* layers_to_transform: a number or a list of them. */
static bool layer_listed(const Json *j, const PeftModule *m) {
  if (!j || json_type(j) == JSON_NULL) return true;
  if (!m->in_layer) return false;
  if (json_type(j) == JSON_NUMBER) return json_number(j) == m->layer;
  for (const Json *e = json_child(j); e; e = json_next(e))
    if (json_number(e) == m->layer) return true;
  return false;
}

/* layers_pattern: what the list of layers is called ("layers", "h"). */
static bool layers_named(const Json *j, const PeftModule *m) {
  char part[NAME_BYTES];
  if (empty(j)) return true;
  const Json *first = json_string(j) ? j : json_child(j);
  for (const Json *e = first; e; e = json_string(j) ? NULL : json_next(e)) {
    snprintf(part, sizeof part, "%.100s.%d.", json_string(e), m->layer);
    if (strstr(m->path, part)) return true;
  }
  return false;
}

Status peft_targets(const PeftConfig *c, const PeftModule *m, bool *yes) {
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

/* The first pattern that ends the path. */
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

Status peft_rank(const PeftConfig *c, const char *path, int *rank, double *alpha) {
  double r = c->rank;
  *alpha = c->alpha;
  try(by_pattern(c, "rank_pattern", path, &r));
  try(by_pattern(c, "alpha_pattern", path, alpha));
  *rank = r < 1e6 ? (int)r : -1;
  return GRPO_OK;
}

/* ---- loading --------------------------------------------------------------------- */

/* The parameter of a tensor's name: with or without PEFT's prefix, the adapter's name
 * ("lora_A.default.weight") and the causal model's own prefix. */
static int param_of(const Lora *l, const char *name) {
  static const char *const own[] = {"", "model.", "transformer."};
  char rest[NAME_BYTES], full[NAME_BYTES + 16];
  if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  if (snprintf(rest, sizeof rest, "%s", name) >= (int)sizeof rest) return -1;
  char *named = strstr(rest, ".default");
  if (named) memmove(named, named + 8, strlen(named + 8) + 1);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    snprintf(full, sizeof full, "%s%s", own[i], rest);
    const int k = lora_index(l, full);
    if (k >= 0) return k;
  }
  return -1;
}

static Status check_tensor(const char *path, const StTensor *t, const Tensor *want) {
  if (!st_type_is_float(t->type))
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' is %s; F32, F16 and BF16 are supported", path,
                t->name, st_type_name(t->type));
  if (t->ndim == 2 && t->dim[0] == (uint64_t)want->dim[0] && t->dim[1] == (uint64_t)want->dim[1])
    return GRPO_OK;
  if (t->ndim != 2)
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has %d dimensions, want [%d, %d]", path, t->name,
                t->ndim, want->dim[0], want->dim[1]);
  return fail(GRPO_EFORMAT,
              "%s: tensor '%.200s' has shape [%llu, %llu], this model and adapter_config.json want "
              "[%d, %d]",
              path, t->name, (unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
              want->dim[0], want->dim[1]);
}

static Status match_tensors(const Lora *l, const Safetensors *f, const StTensor **found) {
  for (size_t k = 0; k < f->count; k++) {
    const StTensor *t = &f->tensor[k];
    const int i = param_of(l, t->name);
    if (i < 0)
      return fail(GRPO_EFORMAT,
                  "%s: tensor '%.200s' belongs to none of this model's target_modules", f->path,
                  t->name);
    if (found[i]) return fail(GRPO_EFORMAT, "%s: tensor '%.200s' occurs twice", f->path, t->name);
    try(check_tensor(f->path, t, &l->param[i].t));
    found[i] = t;
  }
  int missing = 0, first = 0;
  for (int i = l->nparams; i-- > 0;)
    if (!found[i]) {
      missing++;
      first = i;
    }
  if (!missing) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: tensor '%s%s' is missing (%d of %d are)", f->path, prefix,
              l->param[first].name, missing, l->nparams);
}

/* Shapes are checked before memory is taken: a lying rank costs nothing. */
static Status read_tensors(Model *m, const char *dir) {
  Lora *l = m->lora;
  char path[PATH_BYTES];
  Safetensors f;
  try(join_path(path, dir, "adapter_model.safetensors"));
  try(safetensors_open(&f, path));
  const StTensor **found = mem_zalloc((size_t)l->nparams * sizeof *found);
  Status s = found ? match_tensors(l, &f, found) : fail(GRPO_ENOMEM, "%s", path);
  if (s == GRPO_OK) s = lora_allocate(m);
  for (int i = 0; s == GRPO_OK && i < l->nparams; i++)
    st_read(found[i], 0, found[i]->n, l->param[i].t.data);
  mem_free(found);
  safetensors_close(&f);
  return s;
}

static Status check_folder(const char *dir) {
  char path[PATH_BYTES];
  try(join_path(path, dir, "adapter_model.safetensors"));
  if (file_exists(path)) return GRPO_OK;
  try(join_path(path, dir, "adapter_model.bin"));
  if (file_exists(path))
    return fail(GRPO_EFORMAT,
                "%s: a pickle can run code and is not read; save the adapter as safetensors", path);
  return fail(GRPO_ENOENT, "%s: no adapter_model.safetensors", dir);
}

Status lora_load(Model *m, const char *dir) {
  char path[PATH_BYTES];
  Buf text = {0};
  try(join_path(path, dir, "adapter_config.json"));
  try(check_folder(dir));
  Status s = file_read(path, CONFIG_MAX, &text);
  if (s == GRPO_OK) s = lora_attach(m, text.data ? text.data : "", text.len, path);
  buf_free(&text);
  try(s);
  s = read_tensors(m, dir);
  if (s != GRPO_OK && m->lora) { /* nobody has seen it yet */
    lora_free(m->lora);
    m->lora = NULL;
  }
  return s;
}

/* ---- saving ---------------------------------------------------------------------- */

static void indent(Buf *b, int depth) {
  buf_putc(b, '\n');
  for (int i = 0; i < depth; i++) buf_puts(b, "  ");
}

/* A value as Python writes it with indent=2. */
static void put_value(Buf *b, const Json *j, int depth) {
  const JsonType type = j ? json_type(j) : JSON_NULL;
  if (type == JSON_STRING) {
    json_put_string(b, json_string(j), strlen(json_string(j)));
  } else if (type == JSON_NUMBER) {
    json_put_number(b, json_number(j));
  } else if (type == JSON_BOOL || type == JSON_NULL) {
    buf_puts(b, type == JSON_NULL ? "null" : json_bool(j) ? "true" : "false");
  } else {
    const bool object = type == JSON_OBJECT;
    buf_putc(b, object ? '{' : '[');
    for (const Json *e = json_child(j); e; e = json_next(e)) {
      if (e != json_child(j)) buf_putc(b, ',');
      indent(b, depth + 1);
      if (object) {
        json_put_string(b, json_key(e), strlen(json_key(e)));
        buf_puts(b, ": ");
      }
      put_value(b, e, depth + 1);
    }
    if (json_child(j)) indent(b, depth);
    buf_putc(b, object ? '}' : ']');
  }
}

static int by_text(const void *x, const void *y) {
  return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* "all-linear" is written as what it stood for: the last words of the modules. */
static Status put_targets(Buf *b, const Lora *l, const Json *targets) {
  const char *all = json_string(targets);
  if (!all || strcmp(all, "all-linear") != 0) {
    put_value(b, targets, 1);
    return GRPO_OK;
  }
  const char **word = mem_alloc((size_t)l->nmodules * sizeof *word);
  if (!word) return fail(GRPO_ENOMEM, "adapter_config.json");
  for (int i = 0; i < l->nmodules; i++) { /* "...mlp.up_proj.weight": between the last two dots */
    const char *name = l->module[i].base->name, *end = strrchr(name, '.');
    while (end > name && end[-1] != '.') end--;
    word[i] = end;
  }
  qsort(word, (size_t)l->nmodules, sizeof *word, by_text);
  for (int i = 0; i < l->nmodules; i++) {
    if (i && strcmp(word[i], word[i - 1]) == 0) continue;
    buf_puts(b, i ? "," : "[");
    indent(b, 2);
    json_put_string(b, word[i], strcspn(word[i], "."));
  }
  indent(b, 1);
  buf_putc(b, ']');
  mem_free(word);
  return GRPO_OK;
}

/* Every key that PEFT writes, in its order, and its value where none was loaded. */
static const char *const written[][2] = {
    {"alpha_pattern", "{}"},
    {"auto_mapping", "null"},
    {"base_model_name_or_path", "\"\""},
    {"bias", "\"none\""},
    {"exclude_modules", NULL},
    {"fan_in_fan_out", "false"},
    {"inference_mode", "true"},
    {"init_lora_weights", "true"},
    {"layer_replication", "null"},
    {"layers_pattern", "null"},
    {"layers_to_transform", "null"},
    {"loftq_config", "{}"},
    {"lora_alpha", "8"},
    {"lora_bias", "false"},
    {"lora_dropout", "0"},
    {"megatron_config", "null"},
    {"megatron_core", "\"megatron.core\""},
    {"modules_to_save", "null"},
    {"peft_type", "\"LORA\""},
    {"r", "8"},
    {"rank_pattern", "{}"},
    {"revision", "null"},
    {"target_modules", NULL},
    {"task_type", "\"CAUSAL_LM\""},
    {"use_dora", "false"},
    {"use_rslora", "false"},
};

static Status put_config(Buf *b, const Lora *l, const Json *j, const char *base_name) {
  buf_putc(b, '{');
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    const char *key = written[i][0];
    const Json *value = json_get(j, key);
    const bool targets = strcmp(key, "target_modules") == 0;
    if (!value && !written[i][1]) continue;
    if (i) buf_putc(b, ',');
    indent(b, 1);
    buf_printf(b, "\"%s\": ", key);
    if (strcmp(key, "base_model_name_or_path") == 0 && base_name)
      json_put_string(b, base_name, strlen(base_name));
    else if (strcmp(key, "inference_mode") == 0)
      buf_puts(b, "true");
    else if (targets)
      try(put_targets(b, l, value));
    else if (value)
      put_value(b, value, 1);
    else
      buf_puts(b, written[i][1]);
  }
  buf_puts(b, "\n}\n");
  return buf_status(b);
}

static Status write_config(const Lora *l, const char *dir, const char *base_name) {
  char path[PATH_BYTES];
  Buf b = {0};
  Json *j;
  try(join_path(path, dir, "adapter_config.json"));
  try(json_parse(l->config, strlen(l->config), path, &j));
  Status s = put_config(&b, l, j, base_name);
  json_free(j);
  if (s == GRPO_OK) s = file_replace(path, b.data, b.len);
  buf_free(&b);
  return s;
}

static Status write_tensors(const Lora *l, const char *dir) {
  char path[PATH_BYTES];
  const size_t n = (size_t)l->nparams;
  try(join_path(path, dir, "adapter_model.safetensors"));
  StEntry *e = mem_zalloc(n * sizeof *e);
  char *names = mem_alloc(n * NAME_BYTES);
  StWriter *w = NULL;
  Status s = e && names ? GRPO_OK : fail(GRPO_ENOMEM, "%s", path);
  for (size_t i = 0; s == GRPO_OK && i < n; i++) {
    const Tensor *t = &l->param[l->by_name[i].index].t;
    char *name = names + i * NAME_BYTES;
    snprintf(name, NAME_BYTES, "%s%s", prefix, l->by_name[i].name);
    e[i] = (StEntry){name, ST_F32, 2, {(uint64_t)t->dim[0], (uint64_t)t->dim[1]}};
  }
  if (s == GRPO_OK) s = st_writer_open(&w, path, n, e, NULL);
  mem_free(e);
  mem_free(names);
  try(s);
  for (size_t i = 0; s == GRPO_OK && i < n; i++) {
    const Tensor *t = &l->param[l->by_name[i].index].t;
    s = st_writer_put(w, t->data, t->n);
  }
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

Status lora_save(const Model *m, const char *dir, const char *base_name) {
  if (!m->lora) return fail(GRPO_EARG, "%s: the model has no adapter to save", dir);
  try(file_mkdirs(dir));
  try(write_tensors(m->lora, dir));
  return write_config(m->lora, dir, base_name);
}

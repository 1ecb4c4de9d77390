#include "checkpoint/peft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/mem.h"
#include "checkpoint/peft_config.h"
#include "checkpoint/run_checkpoint.h"
#include "formats/named_place.h"
#include "formats/safetensors.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "os/file.h"

enum { CONFIG_MAX = 16 << 20, NAME_BYTES = 256 };

static const char prefix[] = "base_model.model.";

/* ---- loading --------------------------------------------------------------------- */

/* The parameter that a tensor's name means, with or without PEFT's prefix, the adapter's name
 * ("lora_A.default.weight") and the prefix of the causal model; or within a multimodal model. */
static int param_of(const Lora *l, const char *name) {
  static const char *const own[] = {"", "model.", "transformer."};
  static const char outer[] = "model.language_model.";
  char rest[NAME_BYTES], full[NAME_BYTES + 16];
  if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  const bool nested = strncmp(name, outer, sizeof outer - 1) == 0;
  const char *after = nested ? name + sizeof outer - 1 : name;
  if (snprintf(rest, sizeof rest, "%s%s", nested ? "model." : "", after) >= (int)sizeof rest)
    return -1;
  char *named = strstr(rest, ".default");
  if (named) memmove(named, named + 8, strlen(named + 8) + 1);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    snprintf(full, sizeof full, "%s%s", own[i], rest);
    const int k = lora_weights_index(l, full);
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
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has %d dimensions, but the model wants [%d, %d]",
                path, t->name, t->ndim, want->dim[0], want->dim[1]);
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

/* Shapes are checked before memory is taken, so that a wrong rank costs nothing. */
static Status read_tensors(Model *m, const char *dir) {
  Lora *l = m->lora;
  char path[FILE_PATH_BYTES];
  Safetensors f;
  try(file_join(path, dir, "adapter_model.safetensors"));
  try(safetensors_open(&f, path));
  const StTensor **found = mem_zalloc((size_t)l->nparams * sizeof *found);
  Status s = found ? match_tensors(l, &f, found)
                   : fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  if (s == GRPO_OK) s = lora_allocate(m);
  for (int i = 0; s == GRPO_OK && i < l->nparams; i++)
    s = st_read(found[i], 0, found[i]->n, l->param[i].t.data);
  mem_free(found);
  safetensors_close(&f);
  return s;
}

static Status check_folder(const char *dir) {
  char path[FILE_PATH_BYTES];
  try(file_join(path, dir, "adapter_model.safetensors"));
  if (file_exists(path)) return GRPO_OK;
  try(file_join(path, dir, "adapter_model.bin"));
  if (file_exists(path))
    return fail(
        GRPO_EFORMAT,
        "%s: it is a pickle, which can run code and is not read; save the adapter as safetensors",
        path);
  return fail(GRPO_ENOENT, "%s: adapter_model.safetensors is missing", dir);
}

static Status wants(const void *user, const LoraSite *s, bool *yes) {
  return peft_config_targets(user, s, yes);
}

static Status rank_of(const void *user, const char *path, int *rank, double *alpha) {
  return peft_config_rank(user, path, rank, alpha);
}

Status peft_attach(Model *m, const char *config, size_t len, const char *where) {
  PeftConfig c;
  try(peft_config_parse(&c, config, len, where));
  const LoraPlan plan = {.where = where,
                         .config = config,
                         .config_len = len,
                         .rank = c.rank,
                         .dropout = c.dropout,
                         .use_rslora = c.use_rslora,
                         .wants = wants,
                         .rank_of = rank_of,
                         .user = &c};
  const Status s = lora_attach(m, &plan);
  peft_config_free(&c);
  return s;
}

Status peft_load(Model *m, const char *dir) {
  char path[FILE_PATH_BYTES];
  Buf text = {0};
  try(file_join(path, dir, "adapter_config.json"));
  try(check_folder(dir));
  try(run_checkpoint_check(dir, CHECKPOINT_MODEL));
  Status s = file_read(path, CONFIG_MAX, &text);
  if (s == GRPO_OK) s = peft_attach(m, text.data ? text.data : "", text.len, path);
  buf_free(&text);
  try(s);
  s = read_tensors(m, dir);
  if (s != GRPO_OK && m->lora) lora_detach(m);
  return s;
}

/* ---- saving ---------------------------------------------------------------------- */

static void indent(Buf *b, int depth) {
  buf_putc(b, '\n');
  for (int i = 0; i < depth; i++) buf_puts(b, "  ");
}

/* Writes a value like Python's json.dump with indent=2. */
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

/* "all-linear" is written as the last words of the modules that it stood for. */
static Status put_targets(Buf *b, const Lora *l, const Json *targets) {
  const char *all = json_string(targets);
  if (!all || strcmp(all, "all-linear") != 0) {
    put_value(b, targets, 1);
    return GRPO_OK;
  }
  const char **word = mem_alloc((size_t)l->nmodules * sizeof *word);
  if (!word) return fail(GRPO_ENOMEM, "adapter_config.json: no memory for the names of modules");
  for (int i = 0; i < l->nmodules; i++) { /* "up_proj" of "...mlp.up_proj.lora_A.weight" */
    const char *name = l->module[i].a->name, *end = strstr(name, ".lora_");
    while (end > name && end[-1] != '.') end--;
    word[i] = end;
  }
  qsort(word, (size_t)l->nmodules, sizeof *word, by_name);
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

/* Every key that PEFT writes, in its order, with the value for an adapter that was not loaded. */
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

/* A base_name may have a revision behind "@", which is a field of its own. */
static Status put_config(Buf *b, const Lora *l, const Json *j, const char *base_name) {
  const char *at = base_name && named_place_is_name(base_name) ? strchr(base_name, '@') : NULL;
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
      json_put_string(b, base_name, strlen(base_name) - (at ? strlen(at) : 0));
    else if (strcmp(key, "revision") == 0 && at)
      json_put_string(b, at + 1, strlen(at + 1));
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
  char path[FILE_PATH_BYTES];
  Buf b = {0};
  Json *j;
  try(file_join(path, dir, "adapter_config.json"));
  try(json_parse(l->config, strlen(l->config), path, &j));
  Status s = put_config(&b, l, j, base_name);
  json_free(j);
  if (s == GRPO_OK) s = file_replace(path, b.data, b.len);
  buf_free(&b);
  return s;
}

static Status write_tensors(const Lora *l, const char *dir) {
  char path[FILE_PATH_BYTES];
  const size_t n = (size_t)l->nparams;
  try(file_join(path, dir, "adapter_model.safetensors"));
  StEntry *e = mem_zalloc(n * sizeof *e);
  char *names = mem_alloc(n * NAME_BYTES);
  StWriter *w = NULL;
  Status s =
      e && names ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
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

Status peft_save(const Model *m, const char *dir, const char *base_name) {
  if (!m->lora) return fail(GRPO_EARG, "%s: the model has no adapter to save", dir);
  try(file_mkdirs(dir));
  try(write_tensors(m->lora, dir));
  return write_config(m->lora, dir, base_name);
}

#include "checkpoint/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exponential.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "checkpoint/param_fill.h"
#include "checkpoint/run_checkpoint.h"
#include "checkpoint/safetensors_source.h"
#include "formats/model_format.h"
#include "model/config_read.h"
#include "model/frozen.h"
#include "model/layout.h"
#include "model/model_memory.h"
#include "os/file.h"

/* ---- the configuration ------------------------------------------------------------------- */

enum { CONFIG_FILE_MAX = 16 << 20 };

/* Python wrote the file, and may have written infinities into it. */
static Status load_json(const char *path, Json **out) {
  Buf text = {0};
  Status s = file_read(path, CONFIG_FILE_MAX, &text);
  if (s == GRPO_OK) s = json_parse_rows(text.len ? text.data : "", text.len, path, out);
  buf_free(&text);
  return s;
}

Status weights_config(Config *out, const char *dir) {
  char path[FILE_PATH_BYTES];
  Json *j = NULL;
  Config c;
  const ModelFormat *format = model_format_of(dir);
  if (format) return format->config(out, dir);
  if (file_exists(dir) && !file_is_dir(dir)) {
    try(model_format_check(dir));
    return fail(GRPO_EFORMAT,
                "%s: it is neither a model directory nor a GGUF file; name the "
                "directory that it is in",
                dir);
  }
  if (!file_is_dir(dir)) return fail(GRPO_ENOENT, "%s: no such model directory", dir);
  try(file_join(path, dir, "config.json"));
  if (!file_exists(path)) try(safetensors_source_refuse(dir));
  try(load_json(path, &j));
  Status s = config_read(&c, j, path);
  json_free(j);
  try(s);
  try(file_join(path, dir, "generation_config.json"));
  if (file_exists(path)) {
    try(load_json(path, &j));
    s = config_read_generation(&c, j, path);
    json_free(j);
    try(s);
  }
  *out = c;
  return GRPO_OK;
}

/* ---- matching tensors with parameters ----------------------------------------------------- */

static bool ends_with(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

static bool starts_with(const char *s, const char *begin) {
  return strncmp(s, begin, strlen(begin)) == 0;
}

/* Parts of a checkpoint beside the decoder: for images, and heads that predict several tokens. */
static bool is_beside(const char *name) {
  static const char *const parts[] = {"vision_tower.", "multi_modal_projector.", "visual.",
                                      "mtp.",          "audio_tower.",           "embed_vision.",
                                      "embed_audio."};
  if (starts_with(name, "model.")) name += strlen("model.");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (starts_with(name, parts[i])) return true;
  return false;
}

/* Published files hold keys and values of layers that read those of others. */
static bool is_unread(const Config *c, const char *name) {
  static const char *const parts[] = {"k_proj.weight", "v_proj.weight", "k_norm.weight"};
  const char *at = strstr(name, "layers.");
  const int first = c->num_hidden_layers - c->num_kv_shared_layers;
  if (!c->num_kv_shared_layers || !at || atoi(at + strlen("layers.")) < first) return false;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (ends_with(name, parts[i])) return true;
  return false;
}

/* Buffers that older checkpoints hold beside the weights, and a tied output projection that is
 * stored again. */
static bool ignored(const Config *c, const char *name) {
  if (c->tie_word_embeddings && ends_with(name, "lm_head.weight")) return true;
  if (is_beside(name) || is_unread(c, name)) return true;
  return config_traits(c) & TRAIT_CONV1D
             ? ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias")
             : ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".attention.bias") ||
                   ends_with(name, ".attention.masked_bias");
}

/* The parameter of a tensor's name.  Some checkpoints use other names: without gpt2's prefix, or
 * within a multimodal model. */
static int parameter_of(const Model *m, const char *name) {
  static const struct {
    const char *from, *to;
  } renames[] = {
      {"", "transformer."}, {"language_model.", ""}, {"model.language_model.", "model."}};
  char full[128];
  int i = layout_index(m, name);
  for (size_t k = 0; i < 0 && k < sizeof renames / sizeof *renames; k++) {
    const char *from = renames[k].from;
    if (!starts_with(name, from)) continue;
    const int n = snprintf(full, sizeof full, "%s%s", renames[k].to, name + strlen(from));
    if (n < (int)sizeof full) i = layout_index(m, full);
  }
  return i;
}

/* The first of the parameters that a tensor for all experts holds; -1: no such tensor. */
static int stack_of(const Model *m, const char *name) {
  char first[PARAM_NAME_BYTES];
  return param_first_of_stack(name, first) ? parameter_of(m, first) : -1;
}

static Status check_shape(const SourceTensor *t, const Param *p) {
  const Tensor *want = &p->t;
  const bool transposed = p->in_out && t->out_in;
  bool same = t->ndim == want->ndim;
  for (int d = 0; same && d < want->ndim; d++)
    same = t->dim[d] == (uint64_t)want->dim[transposed ? 1 - d : d];
  if (same) return GRPO_OK;
  char has[96] = "";
  for (int d = 0, at = 0; d < t->ndim && d < SOURCE_DIMS; d++)
    at += snprintf(has + at, sizeof has - (size_t)at, "%s%llu", d ? ", " : "",
                   (unsigned long long)t->dim[d]);
  if (want->ndim == 3)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has shape [%s], but config.json wants [%d, %d, %d]",
                t->file, t->name, has, want->dim[0], want->dim[1], want->dim[2]);
  if (want->ndim == 1)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has shape [%s], but config.json wants [%d]", t->file,
                t->name, has, want->dim[0]);
  return fail(GRPO_EFORMAT, "%s: tensor '%s' has shape [%s], but config.json wants [%d, %d]",
              t->file, t->name, has, want->dim[transposed], want->dim[!transposed]);
}

/* Does a tensor hold this parameter of every expert? */
static Status check_stack(const Model *m, const SourceTensor *t, const Param *first) {
  SourceTensor one = *t;
  if (t->ndim != first->t.ndim + 1 || t->dim[0] != (uint64_t)m->config.num_experts)
    return fail(
        GRPO_EFORMAT,
        "%s: tensor '%s' must have %d dimensions, the first of %d experts, because config.json "
        "says so; it has %d, the first of %llu",
        t->file, t->name, first->t.ndim + 1, m->config.num_experts, t->ndim,
        t->ndim ? (unsigned long long)t->dim[0] : 0);
  one.ndim--;
  memmove(one.dim, one.dim + 1, sizeof one.dim - sizeof *one.dim);
  return check_shape(&one, first);
}

static const char score_name[] = "score.weight"; /* the head of a sequence classifier */

/* The tensors of a source that belong to a model. */
typedef struct Matches {
  const SourceTensor **param; /* [nparams] */
  const SourceTensor **score; /* NULL: of a language model, which has no such head */
} Matches;

static Status match_score(const Matches *found, const SourceTensor *t) {
  if (found->score) return *found->score = t, GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: it is a classifier or a reward model, because it has '%s', and predicts no "
              "tokens; grpo.reward_model loads it",
              t->file, t->name);
}

static Status match_one(const Model *m, const SourceTensor *t, const Matches *matches) {
  const SourceTensor **found = matches->param;
  if (!strcmp(t->name, score_name)) return match_score(matches, t);
  if (ignored(&m->config, t->name)) return GRPO_OK;
  const int alone = parameter_of(m, t->name), i = alone < 0 ? stack_of(m, t->name) : alone;
  if (i < 0)
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' does not belong to this kind of model", t->file,
                t->name);
  if (found[i])
    return fail(GRPO_EFORMAT, "%s: tensor '%s' occurs twice in the checkpoint", t->file, t->name);
  if (t->type == SOURCE_OTHER)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' is %s; F32, F16 and BF16 are supported", t->file,
                t->name, t->type_name);
  try(alone < 0 ? check_stack(m, t, &m->param[i]) : check_shape(t, &m->param[i]));
  const int n = alone < 0 ? m->config.num_experts : 1;
  for (int k = 0; k < n; k++) found[i + k] = t;
  return GRPO_OK;
}

static Status match_all(const Model *m, const WeightSource *s, const char *dir,
                        const Matches *found) {
  int missing = 0, first = 0, beside = 0;
  for (size_t i = 0; i < s->count; i++) {
    try(match_one(m, &s->tensor[i], found));
    beside += is_beside(s->tensor[i].name);
  }
  if (beside)
    log_message(
        LOG_INFO,
        "%s: weights for images or for predicting several tokens are not loaded: %d tensors", dir,
        beside);
  if (found->score && !*found->score)
    return fail(GRPO_EFORMAT,
                "%s: it has no '%s', so it is neither a classifier nor a reward model; "
                "grpo.model.load loads language models",
                dir, score_name);
  for (int i = m->nparams; i-- > 0;)
    if (!found->param[i]) {
      missing++;
      first = i;
    }
  if (!missing) return GRPO_OK;
  char name[PARAM_NAME_BYTES];
  const Param *p = &m->param[first];
  if (p->stacked) param_stack_name(p, name);
  return fail(GRPO_EFORMAT, "%s: tensor '%s' is missing (%d of %d are missing)", dir,
              p->stacked ? name : p->name, missing, m->nparams);
}

/* ---- loading ---------------------------------------------------------------------- */

/* The type that a weight of the source has in a model; block formats other than NF4 become
 * float32. */
static QuantType stored_type(const SourceTensor *t) {
  return t->type == SOURCE_F16                               ? QUANT_F16
         : t->type == SOURCE_BF16 || t->type == SOURCE_MXFP4 ? QUANT_BF16
         : t->type == SOURCE_NF4                             ? QUANT_NF4
                                                             : QUANT_F32;
}

static Status make_parameters(Model *m, const SourceTensor *const *found) {
  for (int i = 0; i < m->nparams && m->storage != STORE_F32; i++) {
    if (!layout_is_matrix(m, i)) continue;
    const bool projection = layout_is_projection(m, i);
    try(frozen_quantise(m, i, param_storage_type(m->storage, projection, stored_type(found[i]))));
  }
  return model_allocate(m);
}

static Status fill_parameters(Model *m, const WeightSource *s, const SourceTensor *const *found) {
  Arena arena = {0};
  const Ctx cx = {.pool = m->pool, .arena = &arena};
  Status st = GRPO_OK;
  for (int i = 0; i < m->nparams && st == GRPO_OK; i++) {
    st = progress_reached("load", i, m->nparams);
    if (st == GRPO_OK) st = param_fill(&cx, m, i, s, found[i]);
  }
  arena_free(&arena);
  return st;
}

/* The decay of DeltaNet's states is exp(-exp(A_log) ...).  The bias of a router's choice reaches no
 * result in which it could be noticed. */
static Status check_decays(const Model *m, const char *dir) {
  for (int i = 0; i < m->nparams; i++) {
    const Param *p = &m->param[i];
    for (size_t k = 0; p->is_buffer && k < p->t.n; k++)
      if (!isfinite((double)p->t.data[k]))
        return fail(GRPO_EFORMAT,
                    "%s: tensor '%s' cannot be used, because it holds %g; take the published file",
                    dir, p->name, (double)p->t.data[k]);
    for (size_t k = 0; ends_with(p->name, ".A_log") && k < p->t.n; k++)
      if (!isfinite((float)math_exp((double)p->t.data[k])))
        return fail(GRPO_EFORMAT,
                    "%s: tensor '%s' cannot be used, because it holds %g, whose exponential is not "
                    "finite",
                    dir, p->name, (double)p->t.data[k]);
  }
  return GRPO_OK;
}

/* The bytes of the weights in one form. */
static Status measure_form(const Model *like, const SourceTensor *const *found, Storage storage,
                           size_t *bytes) {
  const size_t before = mem_live_bytes();
  Model *m;
  try(model_layout(&m, NULL, &like->config));
  m->storage = storage;
  m->compute = like->compute;
  Status s = make_parameters(m, found);
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++)
    if (m->quant[i]) s = quant_done(&(Ctx){0}, m->quant[i]);
  *bytes = mem_live_bytes() - before;
  model_release(m);
  return s;
}

/* Refuses weights that are larger than what is free. */
static Status check_memory(const Model *m, const SourceTensor *const *found, const char *dir) {
  size_t bytes[STORAGES];
  const size_t free = mem_available();
  mem_measure_begin();
  Status s = measure_form(m, found, m->storage, &bytes[m->storage]);
  for (int i = 0; i < STORAGES && s == GRPO_OK && bytes[m->storage] > free; i++)
    s = measure_form(m, found, (Storage)i, &bytes[i]);
  mem_measure_end();
  if (s != GRPO_OK || !free || bytes[m->storage] <= free) return s;
  return model_refuse(dir, m->storage, bytes);
}

/* Shapes are checked before memory is taken, so that a wrong config.json costs nothing. */
static Status read_weights(Model *m, const WeightSource *s, const char *dir,
                           const SourceTensor **score) {
  const SourceTensor **found = mem_zalloc((size_t)m->nparams * sizeof *found);
  if (!found) return fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", dir);
  Status st = match_all(m, s, dir, &(Matches){found, score});
  if (st == GRPO_OK) st = check_memory(m, found, dir);
  if (st == GRPO_OK) st = make_parameters(m, found);
  if (st == GRPO_OK) st = fill_parameters(m, s, found);
  if (st == GRPO_OK) st = check_decays(m, dir);
  mem_free(found);
  return st;
}

static Status open_model(const char *path, const Config *c, Model **out, Pool *pool,
                         WeightSource *s) {
  try(model_layout(out, pool, c));
  const ModelFormat *format = model_format_of(path);
  const Status st = format ? format->open(s, path) : safetensors_source_open(s, path);
  if (st != GRPO_OK) model_release(*out);
  return st;
}

Status weights_load(Model **out, Pool *pool, const char *dir, Storage storage) {
  return weights_load_compute(out, pool, dir, storage, COMPUTE_F32);
}

/* score: where the head of a classifier is wanted, and read by `finish`; else NULL. */
typedef Status (*Finish)(void *to, Model *m, const WeightSource *s, const SourceTensor *score);

static Status load(Model **out, Pool *pool, const char *dir, const Config *config, Storage storage,
                   Compute compute, Finish finish, void *to) {
  Model *m;
  WeightSource s;
  const SourceTensor *score = NULL;
  try(run_checkpoint_check(dir, CHECKPOINT_MODEL));
  try(open_model(dir, config, &m, pool, &s));
  m->storage = storage;
  m->compute = compute;
  Status st = read_weights(m, &s, dir, finish ? &score : NULL);
  if (st == GRPO_OK && finish) st = finish(to, m, &s, score);
  source_close(&s);
  if (st != GRPO_OK)
    model_release(m);
  else
    *out = m;
  return st;
}

Status weights_load_compute(Model **out, Pool *pool, const char *dir, Storage storage, Compute c) {
  Config config;
  try(weights_config(&config, dir));
  return load(out, pool, dir, &config, storage, c, NULL, NULL);
}

/* ---- classifiers ------------------------------------------------------------------ */

enum { LABELS_MAX = 65536 };

static Status read_head(void *to, Model *m, const WeightSource *s, const SourceTensor *t) {
  const uint64_t width = (uint64_t)model_config(m)->hidden_size;
  Classifier **out = to;
  if (t->ndim != 2 || t->dim[0] < 1 || t->dim[0] > LABELS_MAX || t->dim[1] != width)
    return fail(GRPO_EFORMAT, "%s: '%s' does not have the shape [labels, %d]", t->file, t->name,
                (int)width);
  if (t->type != SOURCE_F32 && t->type != SOURCE_F16 && t->type != SOURCE_BF16)
    return fail(GRPO_EFORMAT, "%s: '%s' is %s; F32, F16 and BF16 are supported", t->file, t->name,
                t->type_name);
  try(classifier_new(out, model_retain(m), (int)t->dim[0]));
  return s->read(s, t, 0, t->dim[0] * width, (*out)->score);
}

Status weights_load_classifier(Classifier **out, Pool *pool, const char *dir, Storage storage,
                               Compute c) {
  Config config;
  Model *m;
  Classifier *made = NULL;
  try(weights_config(&config, dir));
  config.tie_word_embeddings = true; /* such a checkpoint has no output projection */
  const Status s = load(&m, pool, dir, &config, storage, c, read_head, &made);
  if (s != GRPO_OK) {
    classifier_free(made);
    return s;
  }
  model_release(m);
  *out = made;
  return GRPO_OK;
}

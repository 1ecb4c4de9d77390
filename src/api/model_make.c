/* model_make.c - models: making, loading, copying and freeing them. */
#include "api/model_make.h"

#include <string.h>

#include "base/mem.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_base.h"
#include "checkpoint/run_checkpoint.h"
#include "checkpoint/weights.h"
#include "formats/json.h"
#include "formats/named_place.h"
#include "model/config_check.h"
#include "model/config_read.h"
#include "model/model_copy.h"
#include "model/model_memory.h"
#include "model/resize.h"
#include "os/file.h"
#include "text/tokenizer_files.h"

/* ---- handles ---------------------------------------------------------------------- */

static void destroy(grpo_model *h) {
  model_release(h->m);
  tokenizer_free(h->tok);
  mem_free(h->tok_path);
  mem_free(h->base);
  mem_free(h);
}

void grpo_model_free(grpo_model *m) {
  if (!m || free_refused(m->c, __func__)) return;
  grpo_context *c = m->c;
  destroy(m);
  context_release(c);
}

/* Completes a handle that has a model: it is the host's from now on. */
static void hand_over(grpo_context *c, grpo_model *h, grpo_model **out) {
  h->c = context_retain(c);
  *out = h;
}

/* Copies `text`, which may be NULL. */
static Status copy_text(const char *text, char **out) {
  if (!text) return GRPO_OK;
  *out = mem_strdup(text);
  return *out ? GRPO_OK : fail(GRPO_ENOMEM, "model");
}

/* Makes a handle with what `fill` puts into it. */
typedef Status (*Fill)(void *what, grpo_model *h);
static Status make_handle(grpo_context *c, Fill fill, void *what, grpo_model **out) {
  grpo_model *h = mem_zalloc(sizeof *h);
  if (!h) return fail(GRPO_ENOMEM, "model");
  const Status s = fill(what, h);
  if (s == GRPO_OK)
    hand_over(c, h, out);
  else
    destroy(h);
  return s;
}

/* ---- options ---------------------------------------------------------------------- */

static const grpo_model_options defaults = {
    .size = sizeof(grpo_model_options), .storage = "f32", .compute = "f32"};

grpo_status grpo_model_options_init(grpo_model_options *o, size_t size) {
  return options_init(o, size, &defaults, sizeof defaults);
}

Status model_settings_take(const grpo_model_options *o, ModelSettings *out) {
  static const Storage storages[] = {STORE_F32, STORE_AUTO, STORE_BF16, STORE_INT8, STORE_NF4};
  static const Compute computes[] = {COMPUTE_F32, COMPUTE_BF16};
  grpo_model_options own = defaults;
  int storage = 0, compute = 0;
  try(options_take(&own, sizeof own, o, "grpo_model_options"));
  if (own.storage) try(choice_of("storage", own.storage, "f32|auto|bf16|int8|nf4", &storage));
  if (own.compute) try(choice_of("compute", own.compute, "f32|bf16", &compute));
  *out = (ModelSettings){storages[storage], computes[compute], own.seed};
  return GRPO_OK;
}

/* ---- load ------------------------------------------------------------------------- */

Status model_directory(const char *path, Buf *found) {
  char version[NAMED_PLACE_VERSION];
  buf_printf(found, "%s/run.json", path);
  try(buf_status(found));
  const bool run = file_exists(found->data);
  buf_clear(found);
  if (run) return run_checkpoint_newest(path, found);
  return named_place_find(path, true, found, version);
}

typedef struct Loading {
  Pool *pool;
  const char *path;
  ModelSettings settings;
  Buf found, named, base; /* the directory; for an adapter, its base as it names it, and found */
} Loading;

static Status find_places(Loading *l) {
  try(model_directory(l->path, &l->found));
  if (!peft_is_adapter(l->found.data)) return GRPO_OK;
  try(peft_base(l->found.data, &l->named));
  return model_directory(l->named.data, &l->base);
}

/* The adapter of a model whose tokenizer may have more tokens than the base, as in `grpo run`. */
static Status load_adapter(const char *adapter, grpo_model *h) {
  if (h->tok_path) try(tokenizer_load(&h->tok, h->tok_path));
  const int tokens = h->tok ? tokenizer_size(h->tok) : 0;
  if (tokens > model_config(h->m)->vocab_size) try(resize_vocab(h->m, tokens));
  return peft_load(h->m, adapter);
}

static Status fill_loaded(void *what, grpo_model *h) {
  Loading *l = what;
  try(find_places(l));
  const char *adapter = l->base.data ? l->found.data : NULL;
  const char *weights = adapter ? l->base.data : l->found.data;
  const char *beside = adapter && tokenizer_is_in(adapter) ? adapter : weights;
  try(weights_load_compute(&h->m, l->pool, weights, l->settings.storage, l->settings.compute));
  try(copy_text(weights, &h->base));
  if (tokenizer_is_in(beside)) try(copy_text(beside, &h->tok_path));
  return adapter ? load_adapter(adapter, h) : GRPO_OK;
}

static Status load(grpo_context *c, const char *path, const grpo_model_options *o,
                   grpo_model **out) {
  Loading l = {.path = path};
  try(need(path, "path"));
  try(need(out, "out"));
  try(model_settings_take(o, &l.settings));
  try(context_pool(c, &l.pool));
  const Status s = make_handle(c, fill_loaded, &l, out);
  buf_free(&l.found);
  buf_free(&l.named);
  buf_free(&l.base);
  return s;
}

grpo_status grpo_model_load(grpo_context *c, const char *path, const grpo_model_options *o,
                            grpo_model **out) {
  Call k;
  try(call_begin(&k, c));
  return call_end(&k, load(c, path, o, out));
}

/* ---- new, clone ------------------------------------------------------------------- */

/* Completes a configuration from the tokenizer. */
static Status complete(const Json *j, const Tokenizer *t, Config *config) {
  if (!t) return GRPO_OK;
  if (!json_get(j, "vocab_size")) config->vocab_size = tokenizer_size(t);
  if (config->vocab_size < tokenizer_size(t))
    return fail(GRPO_EARG, "config: vocab_size is %d, but the tokenizer has %d tokens",
                config->vocab_size, tokenizer_size(t));
  if (!json_get(j, "eos_token_id") && tokenizer_eos(t) >= 0) {
    config->num_eos = 1;
    config->eos_token_id[0] = tokenizer_eos(t);
  }
  if (!json_get(j, "bos_token_id")) config->bos_token_id = tokenizer_bos(t);
  return GRPO_OK;
}

static Status read_config(const char *text, const Tokenizer *t, Config *config) {
  Json *j;
  try(json_parse(text, strlen(text), "config", &j));
  Status s = config_read(config, j, "config");
  if (s == GRPO_OK) s = complete(j, t, config);
  if (s == GRPO_OK) s = config_check(config, "config");
  json_free(j);
  return s;
}

typedef struct Making {
  Pool *pool;
  Config config;
  ModelSettings settings;
  Tokenizer *tok;
} Making;

static Status fill_new(void *what, grpo_model *h) {
  const Making *k = what;
  if (k->tok) tokenizer_retain(h->tok = k->tok);
  try(model_check_new(&k->config));
  try(model_new(&h->m, k->pool, &k->config, k->settings.seed));
  return model_set_compute(h->m, k->settings.compute);
}

static Status make(grpo_context *c, const char *text, grpo_tokenizer *t,
                   const grpo_model_options *o, grpo_model **out) {
  Making k = {.tok = t ? t->t : NULL};
  try(need(text, "config"));
  try(need(out, "out"));
  if (t) try(same_context(t->c, c, "model: the tokenizer"));
  try(model_settings_take(o, &k.settings));
  try(read_config(text, k.tok, &k.config));
  try(context_pool(c, &k.pool));
  return make_handle(c, fill_new, &k, out);
}

grpo_status grpo_model_new(grpo_context *c, const char *config, grpo_tokenizer *t,
                           const grpo_model_options *o, grpo_model **out) {
  in_call(call_begin, c, make(c, config, t, o, out));
}

static Status fill_clone(void *what, grpo_model *h) {
  const grpo_model *from = what;
  if (from->tok) tokenizer_retain(h->tok = from->tok);
  try(copy_text(from->tok_path, &h->tok_path));
  try(copy_text(from->base, &h->base));
  return model_copy(&h->m, from->m);
}

static Status clone(grpo_model *m, grpo_model **out) {
  try(need(out, "out"));
  return make_handle(m->c, fill_clone, m, out);
}

grpo_status grpo_model_clone(grpo_model *m, grpo_model **out) {
  in_call(call_begin, m ? m->c : NULL, clone(m, out));
}

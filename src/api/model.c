/* model.c - models: facts, adapters, saving, logits of a sequence, parameters. */
#include <string.h>

#include "api/model_make.h"
#include "base/mem.h"
#include "checkpoint/export.h"
#include "checkpoint/peft.h"
#include "checkpoint/save.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/lora.h"
#include "os/file.h"
#include "text/tokenizer_files.h"

/* ---- facts ------------------------------------------------------------------------ */

/* Elements that a trainer would change. */
static uint64_t count_trained(Model *m) {
  uint64_t n = 0;
  for (int i = 0; i < model_num_params(m); i++)
    if (model_trains(m, i)) n += model_param(m, i)->t.n;
  return n;
}

static Status facts(grpo_model *m, grpo_model_facts *f) {
  const Config *c = model_config(m->m);
  const grpo_model_facts v = {.size = sizeof v,
                              .vocab_size = c->vocab_size,
                              .hidden_size = c->hidden_size,
                              .layers = c->num_hidden_layers,
                              .max_position_embeddings = c->max_position_embeddings,
                              .parameters = model_count(m->m),
                              .trainable = count_trained(m->m)};
  return struct_put(f, &v, sizeof v, "grpo_model_facts");
}

grpo_status grpo_model_facts_get(grpo_model *m, grpo_model_facts *f) {
  in_call(call_begin, m ? m->c : NULL, facts(m, f));
}

/* ---- adapters, saving ------------------------------------------------------------ */

enum { MOST_TARGETS = 64 };

/* Cuts "a, b" into names, which point into `text`. */
static int cut_names(char *text, const char **names) {
  int n = 0;
  char *rest = text;
  for (char *word; n < MOST_TARGETS && (word = strtok_r(rest, ", ", &rest)) != NULL;)
    names[n++] = word;
  return n;
}

static Status add_lora(grpo_model *m, LoraOptions *o, const char *targets, uint64_t seed) {
  const char *names[MOST_TARGETS];
  if (o->rank < 1 || !(o->alpha >= 0) || !(o->dropout >= 0 && o->dropout < 1))
    return fail(GRPO_EARG,
                "lora: rank %d, alpha %g, dropout %g: want rank >= 1, alpha >= 0 and "
                "dropout from 0 to below 1",
                o->rank, o->alpha, o->dropout);
  char *text = mem_strdup(targets ? targets : "all-linear");
  if (!text) return fail(GRPO_ENOMEM, "lora");
  o->ntargets = cut_names(text, names);
  o->targets = names;
  const Status s = o->ntargets ? lora_add(m->m, o, seed)
                               : fail(GRPO_EARG, "lora: targets is empty; try \"all-linear\"");
  mem_free(text);
  return s;
}

grpo_status grpo_model_add_lora(grpo_model *m, int32_t rank, double alpha, double dropout,
                                const char *targets, uint64_t seed) {
  LoraOptions o = {.rank = rank, .alpha = alpha, .dropout = dropout};
  in_call(call_begin, m ? m->c : NULL, add_lora(m, &o, targets, seed));
}

static Status load_adapter(grpo_model *m, const char *directory) {
  Buf found = {0};
  try(need(directory, "directory"));
  Status s = model_directory(directory, &found);
  if (s == GRPO_OK) s = peft_load(m->m, found.data);
  buf_free(&found);
  return s;
}

grpo_status grpo_model_load_adapter(grpo_model *m, const char *directory) {
  in_call(call_begin, m ? m->c : NULL, load_adapter(m, directory));
}

/* Reads the model's tokenizer from its files, if nobody needed it before; there may be none. */
static Status want_tokenizer(grpo_model *m) {
  return !m->tok && m->tok_path ? tokenizer_load(&m->tok, m->tok_path) : GRPO_OK;
}

static Status save(grpo_model *m, const char *directory, const char *dtype) {
  static const WeightType types[] = {WEIGHT_F32, WEIGHT_BF16, WEIGHT_F16};
  int type = 0;
  try(need(directory, "directory"));
  if (dtype) try(choice_of("dtype", dtype, "f32|bf16|f16", &type));
  try(file_mkdirs(directory));
  try(want_tokenizer(m));
  if (m->tok) try(tokenizer_save(m->tok, directory));
  return save_model(m->m, directory, types[type], 0);
}

grpo_status grpo_model_save(grpo_model *m, const char *directory, const char *dtype) {
  in_call(call_begin, m ? m->c : NULL, save(m, directory, dtype));
}

static Status save_adapter(grpo_model *m, const char *directory) {
  try(need(directory, "directory"));
  if (!lora_attached(m->m)) return fail(GRPO_EARG, "save_adapter: the model has no adapter");
  try(file_mkdirs(directory));
  return peft_save(m->m, directory, m->base);
}

grpo_status grpo_model_save_adapter(grpo_model *m, const char *directory) {
  in_call(call_begin, m ? m->c : NULL, save_adapter(m, directory));
}

/* ---- exports --------------------------------------------------------------------- */

grpo_status grpo_export_options_init(grpo_export_options *o, size_t size) {
  const grpo_export_options d = {.size = sizeof d};
  return options_init(o, size, &d, sizeof d);
}

/* The format that a path's ending stands for, of an adapter alone where nothing is merged. */
static const char *format_of(const grpo_model *m, const char *path, bool merge) {
  const ModelFormat *f = model_format_ending(path);
  if (lora_attached(m->m) && !merge) return "adapter";
  return f ? f->name : "hf";
}

static Status export(grpo_model *m, const char *path, const grpo_export_options *o) {
  grpo_export_options own = {.size = sizeof own};
  try(need(path, "path"));
  try(options_take(&own, sizeof own, o, "grpo_export_options"));
  if (own.tokenizer) try(same_context(own.tokenizer->c, m->c, "export: the tokenizer"));
  const ExportOptions e = {
      .format = own.format ? own.format : format_of(m, path, own.merge != 0),
      .dtype = own.dtype,
      .merge = own.merge != 0,
      .shard_bytes = own.shard_bytes,
      .base_name = own.base_name ? own.base_name : m->base,
  };
  try(export_check(m->m, path, &e, "export"));
  if (!own.tokenizer) try(want_tokenizer(m));
  return export_model(m->m, own.tokenizer ? own.tokenizer->t : m->tok, path, &e, "export");
}

grpo_status grpo_model_export(grpo_model *m, const char *path, const grpo_export_options *o) {
  in_call(call_begin, m ? m->c : NULL, export(m, path, o));
}

/* ---- one sequence ---------------------------------------------------------------- */

static Status check_ids(const grpo_model *m, const int32_t *ids, size_t n, size_t least) {
  const Config *c = model_config(m->m);
  try(need(ids, "ids"));
  if (n < least || n > (size_t)c->max_position_embeddings)
    return fail(GRPO_EARG, "ids: got %zu ids, want %zu to %d", n, least,
                c->max_position_embeddings);
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= c->vocab_size)
      return fail(GRPO_EARG, "ids[%zu]: %d is outside the vocabulary of %d", i, (int)ids[i],
                  c->vocab_size);
  return GRPO_OK;
}

static Status check_capacity(size_t want, size_t capacity) {
  if (capacity >= want) return GRPO_OK;
  return fail(GRPO_ELIMIT, "out: it has room for %zu numbers, want %zu", capacity, want);
}

/* *out becomes the logits of all rows, or the log-probabilities of ids[1..]; row i predicts the
 * token after ids[i]. */
static Status run_forward(Model *m, Tape *t, const int32_t *ids, int n, bool logits, Tensor **out) {
  Pack pack;
  Tensor *hidden;
  if (!logits) {
    const int32_t *rest = ids + 1;
    const int len = n - 1;
    const PackGroup g = {
        .prompt = ids, .prompt_len = 1, .n = 1, .completion = &rest, .completion_len = &len};
    try(pack_groups(&t->arena, model_config(m), 1, &g, &pack));
    try(forward_hidden(m, t, &pack, &hidden));
    return forward_logp(m, t, &pack, hidden, 1, NULL, NULL, out);
  }
  int32_t *pos = arena_alloc(&t->arena, (size_t)n * sizeof *pos);
  PackSpan *span = arena_alloc(&t->arena, sizeof *span);
  if (!pos || !span) return fail(GRPO_ENOMEM, "logits of %d tokens", n);
  for (int i = 0; i < n; i++) pos[i] = i;
  *span = (PackSpan){.n = n, .prefix = -1};
  pack = (Pack){.nrows = n, .ids = ids, .pos = pos, .nspans = 1, .spans = span};
  return forward_logits(m, t, &pack, out);
}

static Status forward(grpo_model *m, const int32_t *ids, size_t n, bool logits, float *out,
                      size_t capacity) {
  const size_t vocab = (size_t)model_config(m->m)->vocab_size;
  Tape tape;
  Tensor *y = NULL;
  Pool *pool;
  try(check_ids(m, ids, n, logits ? 1 : 2));
  try(need(out, "out"));
  const size_t want = logits ? n * vocab : n - 1;
  try(check_capacity(want, capacity));
  try(context_pool(m->c, &pool));
  try(tape_init(&tape, pool));
  tape.off = true;
  const Status s = run_forward(m->m, &tape, ids, (int)n, logits, &y);
  if (s == GRPO_OK) memcpy(out, y->data, want * sizeof *out);
  tape_free(&tape);
  return s;
}

grpo_status grpo_model_logits(grpo_model *m, const int32_t *ids, size_t count, float *out,
                              size_t capacity) {
  in_call(call_begin, m ? m->c : NULL, forward(m, ids, count, true, out, capacity));
}

grpo_status grpo_model_logprobs(grpo_model *m, const int32_t *ids, size_t count, float *out,
                                size_t capacity) {
  in_call(call_begin, m ? m->c : NULL, forward(m, ids, count, false, out, capacity));
}

/* ---- parameters ------------------------------------------------------------------ */

static Status count(grpo_model *m, int32_t *n) {
  try(need(n, "count"));
  *n = model_num_params(m->m);
  return GRPO_OK;
}

grpo_status grpo_model_parameter_count(grpo_model *m, int32_t *n) {
  in_call(call_begin, m ? m->c : NULL, count(m, n));
}

static Status at(grpo_model *m, int32_t i, const char **name, size_t *elements) {
  if (i < 0 || i >= model_num_params(m->m))
    return fail(GRPO_EARG, "parameter %d: there are %d parameters", i, model_num_params(m->m));
  const Param *p = model_param(m->m, i);
  if (name) *name = p->name;
  if (elements) *elements = p->t.n;
  return GRPO_OK;
}

grpo_status grpo_model_parameter_at(grpo_model *m, int32_t i, const char **name, size_t *elements) {
  in_call(call_begin, m ? m->c : NULL, at(m, i, name, elements));
}

static Status find_param(grpo_model *m, const char *name, Param **out) {
  try(need(name, "name"));
  *out = model_find(m->m, name);
  return *out ? GRPO_OK : fail(GRPO_EARG, "the model has no parameter '%.100s'", name);
}

static Status get(grpo_model *m, const char *name, float *out, size_t capacity) {
  Param *p;
  const Ctx *cx;
  try(find_param(m, name, &p));
  try(need(out, "out"));
  try(check_capacity(p->t.n, capacity));
  try(context_ctx(m->c, &cx));
  return param_values(cx, p, out);
}

grpo_status grpo_model_parameter_get(grpo_model *m, const char *name, float *out, size_t capacity) {
  in_call(call_begin, m ? m->c : NULL, get(m, name, out, capacity));
}

static Status set(grpo_model *m, const char *name, const float *values, size_t n) {
  Param *p;
  const Ctx *cx;
  try(find_param(m, name, &p));
  try(need(values, "values"));
  if (n != p->t.n) return fail(GRPO_ESHAPE, "%s has %zu elements, got %zu", name, p->t.n, n);
  try(context_ctx(m->c, &cx));
  try(param_set(cx, p, values));
  model_updated(m->m);
  return GRPO_OK;
}

grpo_status grpo_model_parameter_set(grpo_model *m, const char *name, const float *values,
                                     size_t elements) {
  in_call(call_begin, m ? m->c : NULL, set(m, name, values, elements));
}

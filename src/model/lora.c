#include "model/lora.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/impl.h"
#include "model/peft.h"

enum { NAME_BYTES = 128, MAX_RANK = 65536 };

/* ---- which weights can have an adapter ------------------------------------------- */

typedef enum Place { IN_LAYER, EMBEDDING, HEAD } Place;

typedef struct Candidate {
  Param *base;
  Place place;
  int layer, slot;       /* IN_LAYER */
  char path[NAME_BYTES]; /* the module's: "model.layers.0.self_attn.q_proj" */
} Candidate;

static bool find_slot(const Model *m, const Tensor *t, Candidate *c) {
  for (int i = 0; i < m->config.num_hidden_layers; i++)
    for (int s = 0; s < L_COUNT; s++)
      if (m->layer[i].t[s] == t) {
        c->layer = i;
        c->slot = s;
        return true;
      }
  return false;
}

/* Parameter i as a candidate; one after the last stands for a tied head.  false: it is none. */
static bool candidate(Model *m, int i, Candidate *c) {
  const bool tied = m->t[M_HEAD] == m->t[M_EMBED];
  *c = (Candidate){0};
  if (i == m->nparams) {
    if (!tied) return false;
    c->base = (Param *)(void *)((char *)m->t[M_EMBED] - offsetof(Param, t));
    c->place = HEAD;
    snprintf(c->path, sizeof c->path, "lm_head");
    return true;
  }
  c->base = &m->param[i];
  const Tensor *t = &c->base->t;
  const size_t len = strlen(c->base->name), suffix = strlen(".weight");
  if (t->ndim != 2 || t == m->t[M_POSITION] || len <= suffix || len >= NAME_BYTES) return false;
  memcpy(c->path, c->base->name, len - suffix);
  if (find_slot(m, t, c)) return true;
  c->place = t == m->t[M_EMBED] ? EMBEDDING : HEAD;
  return true;
}

static void sizes(const Candidate *c, int *out, int *in) {
  const bool first_in = c->base->in_out || c->place == EMBEDDING;
  *out = c->base->t.dim[first_in ? 1 : 0];
  *in = c->base->t.dim[first_in ? 0 : 1];
}

/* ---- making ---------------------------------------------------------------------- */

typedef struct Attach {
  Model *m;
  const PeftConfig *config;
  Lora *l;
} Attach;

static Status wanted(const Attach *a, const Candidate *c, bool *yes) {
  const PeftModule pm = {c->path, c->place == IN_LAYER && !c->base->by_head, c->layer};
  return peft_targets(a->config, &pm, yes);
}

static Status count_modules(Attach *a) {
  Candidate c;
  bool yes;
  for (int i = 0; i <= a->m->nparams; i++) {
    if (!candidate(a->m, i, &c)) continue;
    try(wanted(a, &c, &yes));
    a->l->nmodules += yes;
  }
  return GRPO_OK;
}

static void set_param(Lora *l, const Candidate *c, const char *what, int rows, int cols) {
  char *name = l->names + (size_t)l->nparams * NAME_BYTES;
  const bool e = c->place == EMBEDDING;
  snprintf(name, NAME_BYTES, e ? "%s.lora_embedding_%s" : "%s.lora_%s.weight", c->path, what);
  const int dim[2] = {rows, cols};
  l->param[l->nparams++] = (Param){.name = name, .t = tensor_view(NULL, 2, dim)};
}

static Status add_module(Attach *a, const Candidate *c) {
  Lora *l = a->l;
  int out, in, rank;
  double alpha;
  sizes(c, &out, &in);
  if (c->base->by_head)
    return fail(GRPO_EARG,
                "%s: an adapter on %s is not supported: latent attention uses its weight head by "
                "head",
                a->config->where, c->path);
  try(peft_rank(a->config, c->path, &rank, &alpha));
  if (rank < 1 || rank > MAX_RANK)
    return fail(GRPO_EFORMAT, "%s: rank %d of %s is outside 1 .. %d", a->config->where, rank,
                c->path, MAX_RANK);
  LoraModule *mod = &l->module[l->nparams / 2];
  *mod = (LoraModule){.base = c->base,
                      .a = &l->param[l->nparams],
                      .b = &l->param[l->nparams + 1],
                      .scale = alpha / (a->config->use_rslora ? sqrt(rank) : rank),
                      .id = (uint32_t)(l->nparams / 2)};
  set_param(l, c, "A", rank, in);
  set_param(l, c, "B", out, rank);
  if (c->place == EMBEDDING)
    l->embedding = mod;
  else if (c->place == HEAD)
    l->head = mod;
  else
    l->at[c->layer * L_COUNT + c->slot] = mod;
  return GRPO_OK;
}

static Status add_modules(Attach *a) {
  Lora *l = a->l;
  const size_t n = 2 * (size_t)l->nmodules;
  const size_t slots = (size_t)a->m->config.num_hidden_layers * L_COUNT;
  Candidate c;
  bool yes;
  l->module = mem_zalloc((size_t)l->nmodules * sizeof *l->module);
  l->at = mem_zalloc(slots * sizeof *l->at);
  l->param = mem_zalloc(n * sizeof *l->param);
  l->by_name = mem_alloc(n * sizeof *l->by_name);
  l->names = mem_alloc(n * NAME_BYTES);
  if (!l->module || !l->at || !l->param || !l->by_name || !l->names)
    return fail(GRPO_ENOMEM, "adapter: table of %zu parameters", n);
  for (int i = 0; i <= a->m->nparams; i++) {
    if (!candidate(a->m, i, &c)) continue;
    try(wanted(a, &c, &yes));
    if (yes) try(add_module(a, &c));
  }
  names_sort(l->by_name, l->param, l->nparams);
  return GRPO_OK;
}

/* An embedding's A is looked up, not multiplied with. */
static size_t panel_reals(const Lora *l, int i) {
  const Tensor *t = &l->param[i].t;
  if (l->embedding && &l->param[i] == l->embedding->a) return 0;
  return padded_reals(gemm_packed_size(t->dim[0], t->dim[1]));
}

static Status allocate_panels(Lora *l) {
  size_t at = 0, n = 0;
  for (int i = 0; i < l->nparams; i++) n += panel_reals(l, i);
  mem_free_aligned(l->panels);
  l->panels_of = NULL;
  l->panels = mem_alloc_aligned(n * sizeof *l->panels);
  if (!l->panels) return fail(GRPO_ENOMEM, "adapter: %zu MiB of panels", n * sizeof(real) >> 20);
  for (int i = 0; i < l->nparams; i++) {
    const size_t size = panel_reals(l, i);
    l->param[i].t.packed = size ? l->panels + at : NULL;
    at += size;
  }
  l->panels_of = kern_name();
  l->stale = true;
  return GRPO_OK;
}

static Status take_memory(Lora *l) {
  size_t at = 0;
  for (int i = 0; i < l->nparams; i++) l->reals += padded_reals(l->param[i].t.n);
  l->weights = mem_alloc_aligned(l->reals * sizeof *l->weights);
  if (!l->weights)
    return fail(GRPO_ENOMEM, "adapter: %zu MiB of weights", l->reals * sizeof(real) >> 20);
  memset(l->weights, 0, l->reals * sizeof *l->weights);
  for (int i = 0; i < l->nparams; i++) {
    l->param[i].t.data = l->weights + at;
    at += padded_reals(l->param[i].t.n);
  }
  return allocate_panels(l);
}

/* "q_proj, k_proj, ...": the last words of the modules that exist, each once. */
static void name_modules(Model *m, char *text, size_t cap) {
  Candidate c;
  size_t len = 0;
  text[0] = '\0';
  for (int i = 0; i <= m->nparams; i++) {
    if (!candidate(m, i, &c)) continue;
    const char *last = strrchr(c.path, '.') ? strrchr(c.path, '.') + 1 : c.path;
    const size_t n = strlen(last);
    bool seen = false;
    for (const char *p = text; !seen && (p = strstr(p, last)); p += n)
      seen = (p == text || p[-1] == ' ') && (p[n] == ',' || !p[n]);
    if (!seen && len + n + 3 < cap)
      len += (size_t)snprintf(text + len, cap - len, "%s%s", len ? ", " : "", last);
  }
}

static Status none_found(Model *m, const char *where) {
  char names[512];
  name_modules(m, names, sizeof names);
  return fail(GRPO_EARG, "%s: target_modules match nothing in this model; it has %s", where, names);
}

static Status build(Attach *a) {
  try(count_modules(a));
  if (!a->l->nmodules) return none_found(a->m, a->config->where);
  return add_modules(a);
}

Status lora_attach(Model *m, const char *config, size_t len, const char *where) {
  PeftConfig c;
  if (m->lora)
    return fail(GRPO_EARG, "%s: the model has an adapter already; merge it first", where);
  try(peft_parse(&c, config, len, where));
  Lora *l = mem_zalloc(sizeof *l);
  Status s = l ? GRPO_OK : fail(GRPO_ENOMEM, "%s", where);
  if (s == GRPO_OK) {
    *l = (Lora){.rank = c.rank, .dropout = c.dropout};
    l->config = mem_alloc(len + 1);
    if (!l->config) s = fail(GRPO_ENOMEM, "%s", where);
  }
  if (s == GRPO_OK) {
    memcpy(l->config, config, len);
    l->config[len] = '\0';
    s = build(&(Attach){m, &c, l});
  }
  peft_free(&c);
  if (s == GRPO_OK) s = model_set_trainable(m, false); /* all of it: from now on A and B only */
  if (s != GRPO_OK) {
    lora_free(l);
    return s;
  }
  m->lora = l;
  return GRPO_OK;
}

Status lora_allocate(Model *m) {
  m->version++;
  Status s = take_memory(m->lora);
  if (s == GRPO_OK) s = model_pack_in_place(m);
  if (s == GRPO_OK) return GRPO_OK;
  lora_free(m->lora);
  m->lora = NULL;
  return s;
}

void lora_free(Lora *l) {
  while (l) {
    Lora *gone = l->gone;
    mem_free(l->config);
    mem_free(l->module);
    mem_free(l->at);
    mem_free(l->param);
    mem_free(l->by_name);
    mem_free(l->names);
    mem_free_aligned(l->weights);
    mem_free_aligned(l->grads);
    mem_free_aligned(l->panels);
    mem_free(l);
    l = gone;
  }
}

void lora_drop(Model *m) {
  Lora *l = m->lora;
  if (!l) return;
  m->version++;
  l->gone = m->gone;
  m->gone = l;
  m->lora = NULL;
}

/* ---- a fresh adapter ------------------------------------------------------------- */

static Status check_options(Model *m, const LoraOptions *o) {
  bool found;
  char names[512];
  Candidate c;
  if (o->rank < 1 || o->rank > MAX_RANK)
    return fail(GRPO_EARG, "lora.rank: %d is outside 1 .. %d", o->rank, MAX_RANK);
  if (!(o->alpha >= 0) || isinf(o->alpha))
    return fail(GRPO_EARG, "lora.alpha: %g, want a number >= 0", o->alpha);
  if (!(o->dropout >= 0 && o->dropout <= 0.999))
    return fail(GRPO_EARG, "lora.dropout: %g, want 0 to 0.999", o->dropout);
  if (o->ntargets < 1) return fail(GRPO_EARG, "lora.targets: no names");
  if (o->ntargets == 1 && strcmp(o->targets[0], "all-linear") == 0) return GRPO_OK;
  for (int t = 0; t < o->ntargets; t++) {
    found = false;
    for (int i = 0; i <= m->nparams && !found; i++)
      found = candidate(m, i, &c) && peft_name_matches(c.path, o->targets[t]);
    if (found) continue;
    name_modules(m, names, sizeof names);
    return fail(GRPO_EARG, "lora.targets: '%.80s' matches nothing in this model; it has %s",
                o->targets[t], names);
  }
  return GRPO_OK;
}

static void put_options(Buf *b, const Model *m, const LoraOptions *o) {
  buf_printf(
      b, "{\"peft_type\":\"LORA\",\"task_type\":\"CAUSAL_LM\",\"r\":%d,\"lora_alpha\":", o->rank);
  json_put_number(b, o->alpha);
  buf_puts(b, ",\"lora_dropout\":");
  json_put_number(b, o->dropout);
  buf_printf(b, ",\"use_rslora\":%s,\"fan_in_fan_out\":%s,\"target_modules\":",
             o->use_rslora ? "true" : "false",
             config_traits(&m->config) & TRAIT_CONV1D ? "true" : "false");
  if (o->ntargets == 1 && strcmp(o->targets[0], "all-linear") == 0) {
    buf_puts(b, "\"all-linear\"}");
    return;
  }
  for (int i = 0; i < o->ntargets; i++) {
    buf_putc(b, i ? ',' : '[');
    json_put_string(b, o->targets[i], strlen(o->targets[i]));
  }
  buf_puts(b, "]}");
}

static void initialise(Lora *l, uint64_t seed) {
  for (int i = 0; i < l->nmodules; i++) {
    const LoraModule *mod = &l->module[i];
    const RngKey key = {.seed = seed, .stream = RNG_INIT, .prompt = (uint32_t)i, .sample = 1};
    const double bound = 1 / sqrt(mod->a->t.dim[1]);
    Tensor *t = mod == l->embedding ? &mod->b->t : &mod->a->t;
    for (size_t k = 0; k < t->n; k++)
      t->data[k] = (real)(mod == l->embedding ? rng_normal(&key, k)
                                              : bound * (2 * rng_uniform(&key, k) - 1));
  }
  l->stale = true;
}

Status model_add_lora(Model *m, const LoraOptions *o, uint64_t seed) {
  Buf b = {0};
  try(check_options(m, o));
  put_options(&b, m, o);
  Status s = buf_status(&b);
  if (s == GRPO_OK) s = lora_attach(m, b.data, b.len, "lora");
  if (s == GRPO_OK) s = lora_allocate(m);
  if (s == GRPO_OK) initialise(m->lora, seed);
  buf_free(&b);
  return s;
}

/* ---- in use ---------------------------------------------------------------------- */

int lora_index(const Lora *l, const char *name) { return names_find(l->by_name, l->nparams, name); }

bool model_has_lora(const Model *m) { return m->lora; }
double model_lora_dropout(const Model *m) { return m->lora ? m->lora->dropout : 0; }
int model_lora_rank(const Model *m) { return m->lora ? m->lora->rank : 0; }
const Lora *lora_active(const Model *m) { return m->lora && !m->lora->off ? m->lora : NULL; }

bool model_use_lora(Model *m, bool on) {
  const bool was = lora_active(m);
  if (m->lora) m->lora->off = !on;
  if (was != (lora_active(m) != NULL)) m->version++;
  return was;
}

Status lora_trainable(Lora *l, bool on) {
  size_t at = 0;
  if (on && !l->grads) {
    l->grads = mem_alloc_aligned(l->reals * sizeof *l->grads);
    if (!l->grads)
      return fail(GRPO_ENOMEM, "adapter: %zu MiB of gradients", l->reals * sizeof(real) >> 20);
  } else if (!on) {
    mem_free_aligned(l->grads);
    l->grads = NULL;
  }
  for (int i = 0; i < l->nparams; i++) {
    Param *p = &l->param[i];
    p->trainable = p->t.needs_grad = on;
    p->t.grad = on ? l->grads + at : NULL;
    at += padded_reals(p->t.n);
  }
  return GRPO_OK;
}

Status lora_pack(Lora *l, const Ctx *cx) {
  if (l->panels_of != kern_name()) try(allocate_panels(l));
  if (!l->stale) return GRPO_OK;
  for (int i = 0; i < l->nparams; i++) {
    const Tensor *t = &l->param[i].t;
    if (t->packed) gemm_pack(cx, t->dim[0], t->dim[1], t->data, false, t->packed);
  }
  l->stale = false;
  return GRPO_OK;
}

/* `low` of every module is kept; dropout makes a copy of the widest input, its backward another. */
size_t lora_step_bytes(const Model *m, int nrows, bool train) {
  const Lora *l = m->lora;
  size_t kept = 0, rank = 0, widest = 0;
  for (int i = 0; l && i < l->nmodules; i++) {
    const Tensor *a = &l->module[i].a->t;
    kept += (size_t)a->dim[0];
    if ((size_t)a->dim[0] > rank) rank = (size_t)a->dim[0];
    if ((size_t)a->dim[1] > widest && &l->module[i] != l->embedding) widest = (size_t)a->dim[1];
  }
  if (!l) return 0;
  const size_t copies = train ? (l->dropout > 0 ? 2 : 1) : 0; /* the product for dA packs one */
  return (size_t)nrows * ((train ? kept : rank) + 3 * rank + copies * widest) * sizeof(real) +
         (train ? (size_t)l->nmodules * 256 : 0) + 4096;
}

/* ---- merging --------------------------------------------------------------------- */

typedef struct Merge {
  const LoraModule *mod;
  bool first_in; /* rows of the weight are inputs */
  int row, cols;
  real *w; /* [rows, cols] */
  double *sum;
} Merge;

static const LoraModule *module_of(const Model *m, const Param *p) {
  const Lora *l = m->lora;
  for (int i = 0; l && i < l->nmodules; i++)
    if (l->module[i].base == p) return &l->module[i];
  return NULL;
}

bool lora_adapts(const Model *m, const Param *p) { return module_of(m, p) != NULL; }

static void merge_row(void *arg, int chunk, int worker) {
  const Merge *j = arg;
  const Tensor *a = &j->mod->a->t, *b = &j->mod->b->t;
  const size_t cols = (size_t)j->cols, row = (size_t)(j->row + chunk), rank = (size_t)a->dim[0];
  double *sum = j->sum + (size_t)worker * cols;
  real *w = j->w + (size_t)chunk * cols;
  memset(sum, 0, cols * sizeof *sum);
  for (size_t r = 0; r < rank; r++) {
    if (j->first_in) {
      const double x = (double)a->data[r * (size_t)a->dim[1] + row];
      for (size_t i = 0; i < cols; i++) sum[i] += x * (double)b->data[i * rank + r];
    } else {
      const double x = (double)b->data[row * rank + r];
      const real *y = a->data + r * cols;
      for (size_t i = 0; i < cols; i++) sum[i] += x * (double)y[i];
    }
  }
  for (size_t i = 0; i < cols; i++) w[i] = (real)((double)w[i] + j->mod->scale * sum[i]);
}

static Status merge_scratch(const Model *m, int cols, double **sum) {
  *sum = mem_alloc((size_t)pool_threads(m->pool) * (size_t)cols * sizeof **sum);
  return *sum ? GRPO_OK : fail(GRPO_ENOMEM, "merge: no memory for %d columns", cols);
}

static void merge_rows(const Model *m, const LoraModule *mod, int row, int rows, real *w,
                       double *sum) {
  const bool first_in = mod->base->in_out || mod == m->lora->embedding;
  Merge j = {mod, first_in, row, mod->base->t.dim[1], w, sum};
  pool_run(m->pool, rows, merge_row, &j);
}

Status lora_merge_rows(const Model *m, const Param *p, int row, int rows, real *w) {
  const LoraModule *mod = module_of(m, p);
  double *sum;
  if (!mod) return GRPO_OK;
  try(merge_scratch(m, p->t.dim[1], &sum));
  merge_rows(m, mod, row, rows, w, sum);
  mem_free(sum);
  return GRPO_OK;
}

Status lora_check_merge(const Model *m) {
  const Lora *l = m->lora;
  if (!l) return fail(GRPO_EARG, "merge: the model has no adapter");
  if (m->config.tie_word_embeddings && (l->embedding || l->head))
    return fail(GRPO_EARG, "merge: the head is tied to the embedding and the adapter changes only "
                           "one of them; save it with format = \"adapter\"");
  return GRPO_OK;
}

Status model_merge_lora(Model *m, const Ctx *cx) {
  (void)cx;
  try(lora_check_merge(m));
  if (m->shared || m->views)
    return fail(GRPO_EARG, "merge: the weights are shared with a frozen view (a reference); close "
                           "it first, or save with merge = true");
  try(model_widen(m));
  int cols = 0;
  double *sum; /* all memory before the first change */
  for (int i = 0; i < m->lora->nmodules; i++) {
    const Tensor *t = &m->lora->module[i].base->t;
    if (t->dim[1] > cols) cols = t->dim[1];
  }
  try(merge_scratch(m, cols, &sum));
  for (int i = 0; i < m->lora->nmodules; i++) {
    const LoraModule *mod = &m->lora->module[i];
    merge_rows(m, mod, 0, mod->base->t.dim[0], mod->base->t.data, sum);
  }
  mem_free(sum);
  lora_drop(m);
  m->trainable = false;
  model_updated(m);
  return GRPO_OK;
}

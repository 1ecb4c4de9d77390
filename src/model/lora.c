#include "model/lora.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "formats/json.h"
#include "model/frozen.h"
#include "model/model_struct.h"

enum { MAX_RANK = 65536 };

/* ---- which weights can have an adapter ------------------------------------------- */

typedef enum Place { IN_LAYER, EMBEDDING, HEAD } Place;

typedef struct Target {
  Param *base;
  Place place;
  int layer, slot;            /* IN_LAYER */
  char path[LORA_NAME_BYTES]; /* of the module: "model.layers.0.self_attn.q_proj" */
} Target;

static bool find_slot(const Model *m, const Tensor *t, Target *c) {
  for (int i = 0; i < m->config.num_hidden_layers; i++)
    for (int s = 0; s < L_COUNT; s++)
      if (m->layer[i].t[s] == t) {
        c->layer = i;
        c->slot = s;
        return true;
      }
  c->layer = m->config.num_hidden_layers; /* slots of the model follow those of its layers */
  c->slot = M_OWN_W;
  return t == m->t[M_OWN_W];
}

/* A module that PEFT knows by another name than files have: LFM3's gate of attention. */
static void name_module(char *path) {
  static const char file[] = ".self_attn.gate_proj", module[] = ".self_attn.g_proj";
  char *at = strstr(path, file);
  if (at) memcpy(at, module, sizeof module);
}

/* Parameter i as a target; the number after the last stands for a tied output projection.  false:
 * it cannot have an adapter. */
static bool target_of(Model *m, int i, Target *c) {
  const bool tied = m->t[M_HEAD] == m->t[M_EMBED];
  *c = (Target){0};
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
  if (t->ndim != 2 || t == m->t[M_POSITION] || t == m->t[M_OWN_EMBED] || len <= suffix ||
      len >= LORA_NAME_BYTES || c->base->is_expert || c->base->is_router)
    return false;
  memcpy(c->path, c->base->name, len - suffix);
  name_module(c->path);
  if (find_slot(m, t, c)) return true;
  c->place = t == m->t[M_EMBED] ? EMBEDDING : HEAD;
  return true;
}

static void sizes(const Target *c, int *out, int *in) {
  const bool first_in = c->base->in_out || c->place == EMBEDDING;
  *out = c->base->t.dim[first_in ? 1 : 0];
  *in = c->base->t.dim[first_in ? 0 : 1];
}

bool lora_name_matches(const char *path, const char *name) {
  const size_t n = strlen(path), k = strlen(name);
  if (k > n || !k || strcmp(path + n - k, name) != 0) return false;
  return k == n || path[n - k - 1] == '.';
}

/* ---- making ---------------------------------------------------------------------- */

typedef struct Attach {
  Model *m;
  const LoraPlan *plan;
  Lora *l;
} Attach;

static Status wanted(const Attach *a, const Target *c, bool *yes) {
  const LoraSite site = {c->path, c->place == IN_LAYER && !c->base->by_head, c->layer};
  return a->plan->wants(a->plan->user, &site, yes);
}

static Status count_modules(const Attach *a, int *n) {
  Target c;
  bool yes;
  for (int i = 0; i <= a->m->nparams; i++) {
    if (!target_of(a->m, i, &c)) continue;
    try(wanted(a, &c, &yes));
    *n += yes;
  }
  return GRPO_OK;
}

static void set_param(Lora *l, const Target *c, const char *what, int rows, int cols) {
  char *name = l->names + (size_t)l->nparams * LORA_NAME_BYTES;
  const bool e = c->place == EMBEDDING;
  snprintf(name, LORA_NAME_BYTES, e ? "%s.lora_embedding_%s" : "%s.lora_%s.weight", c->path, what);
  const int dim[2] = {rows, cols};
  l->param[l->nparams++] = (Param){.name = name, .t = tensor_view(NULL, 2, dim)};
}

static Status add_module(const Attach *a, const Target *c) {
  Lora *l = a->l;
  int out, in, rank;
  double alpha;
  sizes(c, &out, &in);
  if (c->base->by_head)
    return fail(
        GRPO_EARG,
        "%s: an adapter on %s is not supported, because latent attention uses its weight head by "
        "head",
        a->plan->where, c->path);
  try(a->plan->rank_of(a->plan->user, c->path, &rank, &alpha));
  if (rank < 1 || rank > MAX_RANK)
    return fail(GRPO_EFORMAT, "%s: rank %d of %s is outside 1 .. %d", a->plan->where, rank, c->path,
                MAX_RANK);
  LoraModule *mod = &l->module[l->nparams / 2];
  *mod = (LoraModule){.base = c->base,
                      .a = &l->param[l->nparams],
                      .b = &l->param[l->nparams + 1],
                      .scale = alpha / (a->plan->use_rslora ? sqrt(rank) : rank),
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

static Status add_modules(const Attach *a) {
  Target c;
  bool yes;
  for (int i = 0; i <= a->m->nparams; i++) {
    if (!target_of(a->m, i, &c)) continue;
    try(wanted(a, &c, &yes));
    if (yes) try(add_module(a, &c));
  }
  param_names_sort(a->l->by_name, a->l->param, a->l->nparams);
  return GRPO_OK;
}

/* "q_proj, k_proj, ...": the last word of each module that exists, once each. */
static void name_modules(Model *m, char *text, size_t cap) {
  Target c;
  size_t len = 0;
  text[0] = '\0';
  for (int i = 0; i <= m->nparams; i++) {
    if (!target_of(m, i, &c)) continue;
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

static Status build(const Attach *a) {
  int n = 0;
  a->l->config = mem_strndup(a->plan->config, a->plan->config_len);
  if (!a->l->config) return fail(GRPO_ENOMEM, "%s", a->plan->where);
  try(count_modules(a, &n));
  if (!n) return none_found(a->m, a->plan->where);
  try(lora_weights_tables(a->l, n, a->m->config.num_hidden_layers * L_COUNT + M_COUNT));
  return add_modules(a);
}

Status lora_attach(Model *m, const LoraPlan *plan) {
  if (m->lora)
    return fail(GRPO_EARG, "%s: the model has an adapter already; merge it first", plan->where);
  Lora *l = mem_zalloc(sizeof *l);
  if (!l) return fail(GRPO_ENOMEM, "%s", plan->where);
  *l = (Lora){.rank = plan->rank, .dropout = plan->dropout};
  Status s = build(&(Attach){m, plan, l});
  if (s == GRPO_OK) s = model_set_trainable(m, false); /* from now on only A and B train */
  if (s != GRPO_OK) {
    lora_weights_free(l);
    return s;
  }
  m->lora = l;
  return GRPO_OK;
}

void lora_detach(Model *m) {
  lora_weights_free(m->lora);
  m->lora = NULL;
}

Status lora_allocate(Model *m) {
  m->version++;
  Status s = lora_weights_allocate(m->lora);
  if (s == GRPO_OK) s = frozen_pack_in_place(m);
  if (s != GRPO_OK) lora_detach(m);
  return s;
}

void lora_drop(Model *m) {
  Lora *l = m->lora;
  if (!l) return;
  m->version++;
  l->dropped = m->dropped;
  m->dropped = l;
  m->lora = NULL;
}

/* ---- a fresh adapter ------------------------------------------------------------- */

static bool all_linear(const LoraOptions *o) {
  return o->ntargets == 1 && strcmp(o->targets[0], "all-linear") == 0;
}

static Status option_wants(const void *user, const LoraSite *s, bool *yes) {
  const LoraOptions *o = user;
  *yes = all_linear(o) && s->in_layer;
  for (int i = 0; i < o->ntargets && !all_linear(o); i++)
    *yes |= lora_name_matches(s->path, o->targets[i]);
  return GRPO_OK;
}

static Status option_rank(const void *user, const char *path, int *rank, double *alpha) {
  const LoraOptions *o = user;
  (void)path;
  *rank = o->rank;
  *alpha = o->alpha;
  return GRPO_OK;
}

static Status check_options(Model *m, const LoraOptions *o) {
  bool found;
  char names[512];
  Target c;
  if (o->rank < 1 || o->rank > MAX_RANK)
    return fail(GRPO_EARG, "lora.rank: %d is outside 1 .. %d", o->rank, MAX_RANK);
  if (!(o->alpha >= 0 && o->alpha <= 1e9))
    return fail(GRPO_EARG, "lora.alpha: %g, want a number from 0 to 1e9", o->alpha);
  if (!(o->dropout >= 0 && o->dropout <= 0.999))
    return fail(GRPO_EARG, "lora.dropout: %g, want 0 to 0.999", o->dropout);
  if (o->ntargets < 1) return fail(GRPO_EARG, "lora.targets is empty; name at least one module");
  if (all_linear(o)) return GRPO_OK;
  for (int t = 0; t < o->ntargets; t++) {
    found = false;
    for (int i = 0; i <= m->nparams && !found; i++)
      found = target_of(m, i, &c) && lora_name_matches(c.path, o->targets[t]);
    if (found) continue;
    name_modules(m, names, sizeof names);
    return fail(GRPO_EARG, "lora.targets: '%.80s' matches nothing in this model%s; it has %s",
                o->targets[t],
                m->config.num_experts ? ", whose experts and routers take no adapter" : "", names);
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
  if (all_linear(o)) {
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
  l->panels.stale = true;
}

Status lora_add(Model *m, const LoraOptions *o, uint64_t seed) {
  Buf b = {0};
  try(check_options(m, o));
  put_options(&b, m, o);
  const LoraPlan plan = {.where = "lora",
                         .config = b.data,
                         .config_len = b.len,
                         .rank = o->rank,
                         .dropout = o->dropout,
                         .use_rslora = o->use_rslora,
                         .wants = option_wants,
                         .rank_of = option_rank,
                         .user = o};
  Status s = buf_status(&b);
  if (s == GRPO_OK) s = lora_attach(m, &plan);
  if (s == GRPO_OK) s = lora_allocate(m);
  if (s == GRPO_OK) initialise(m->lora, seed);
  buf_free(&b);
  return s;
}

/* ---- in use ---------------------------------------------------------------------- */

bool lora_attached(const Model *m) { return m->lora; }
const Lora *lora_of(const Model *m) { return m->lora; }
double lora_dropout(const Model *m) { return m->lora ? m->lora->dropout : 0; }
int lora_rank(const Model *m) { return m->lora ? m->lora->rank : 0; }
const Lora *lora_active(const Model *m) { return m->lora && !m->lora->off ? m->lora : NULL; }

bool lora_switch(Model *m, bool on) {
  const bool was = lora_active(m);
  if (m->lora) m->lora->off = !on;
  if (was != (lora_active(m) != NULL)) m->version++;
  return was;
}

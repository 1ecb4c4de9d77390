/* model.c - a model's memory: making, copying, sharing, training on and off, panels. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/impl.h"

enum { ALIGN_REALS = 16 };

/* ---- weights, gradients, panels -------------------------------------------------- */

size_t padded_reals(size_t n) { return (n + ALIGN_REALS - 1) / ALIGN_REALS * ALIGN_REALS; }

bool model_is_matrix(const Model *m, int i) {
  const Tensor *t = &m->param[i].t;
  return t->ndim == 2 && t != m->t[M_POSITION] && !m->param[i].by_head;
}

bool model_is_projection(const Model *m, int i) {
  const Tensor *t = &m->param[i].t;
  return model_is_matrix(m, i) && t != m->t[M_EMBED] && t != m->t[M_HEAD];
}

/* Matrices that a product reads; embeddings only when they are the head. */
static bool has_panels(const Model *m, const Tensor *t) {
  return !t->quant && t->ndim == 2 && t != m->t[M_POSITION] &&
         (t != m->t[M_EMBED] || t == m->t[M_HEAD]);
}

void param_outputs_inputs(const Param *p, int *n, int *k) {
  *n = p->t.dim[p->in_out ? 1 : 0];
  *k = p->t.dim[p->in_out ? 0 : 1];
}

/* Room for panels, where quant_pack_in_place may make them. */
size_t param_room(const Param *p) {
  int n, k;
  if (p->t.ndim != 2 || p->by_head) return padded_reals(p->t.n);
  param_outputs_inputs(p, &n, &k);
  return padded_reals(gemm_packed_size(n, k));
}

/* Reals of the model's own memory that a parameter takes. */
static size_t own_reals(const Param *p) {
  return p->t.quant && !p->t.quant->borrowed ? 0 : param_room(p);
}

static size_t whole_lines(size_t bytes) {
  const size_t line = ALIGN_REALS * sizeof(real);
  return (bytes + line - 1) / line * line;
}

/* Backward reads float32 rows as they are, if they are an output's; bf16 would be transposed for each unit. */
size_t model_transposed_bytes(const Model *m, int i) {
  const Param *p = &m->param[i];
  int n, k;
  if (!has_panels(m, &p->t) || p->by_head) return 0;
  param_outputs_inputs(p, &n, &k);
  if (m->compute == COMPUTE_BF16)
    return kern_bf16() ? whole_lines(gemm_bf16_packed_size(k, n) * sizeof(uint16_t)) : 0;
  return p->in_out ? whole_lines(gemm_packed_size(k, n) * sizeof(real)) : 0;
}

size_t model_panel_bytes(const Model *m, int i) {
  const Param *p = &m->param[i];
  int n, k;
  if (!has_panels(m, &p->t)) return 0;
  param_outputs_inputs(p, &n, &k);
  const LatentShape s = model_latent(&m->config);
  const size_t numbers = p->by_head                   ? latent_panels(&s, m->compute)
                         : m->compute == COMPUTE_BF16 ? gemm_bf16_packed_size(n, k)
                                                      : gemm_packed_size(n, k);
  return whole_lines(numbers * (m->compute == COMPUTE_BF16 ? sizeof(uint16_t) : sizeof(real)));
}

static void place_panels(const Model *m, int i, void *panels, void *transposed) {
  Tensor *t = &m->param[i].t;
  const bool bf16 = m->compute == COMPUTE_BF16;
  t->compute = m->compute;
  t->packed = bf16 ? NULL : panels;
  t->packed_bf16 = bf16 ? panels : NULL;
  t->transposed = bf16 ? NULL : transposed;
  t->transposed_bf16 = bf16 ? transposed : NULL;
}

static size_t transposed_bytes(const Model *m, int i) {
  return m->trainable && !m->lora ? model_transposed_bytes(m, i) : 0;
}

/* After a failure there are none, and the next model_pack makes them. */
static Status allocate_panels(Model *m) {
  size_t at = 0, n = 0;
  for (int i = 0; i < m->nparams; i++) n += model_panel_bytes(m, i) + transposed_bytes(m, i);
  mem_free_aligned(m->panels);
  m->panels_of = NULL;
  m->panels = mem_alloc_aligned(n);
  if (!m->panels) return fail(GRPO_ENOMEM, "model: %zu MiB of panels", n >> 20);
  for (int i = 0; i < m->nparams; i++) {
    const size_t size = model_panel_bytes(m, i), transposed = transposed_bytes(m, i);
    char *panels = (char *)m->panels + at;
    place_panels(m, i, size ? panels : NULL, transposed ? panels + size : NULL);
    at += size + transposed;
  }
  m->panels_of = kern_name();
  m->stale = true;
  return GRPO_OK;
}

Status model_make_compact(Model *m, int i, QuantType type) {
  Param *p = &m->param[i];
  int n, k;
  param_outputs_inputs(p, &n, &k);
  try(quant_new(&m->quant[i], type, n, k));
  p->t.quant = m->quant[i];
  return GRPO_OK;
}

Status model_allocate(Model *m) {
  size_t at = 0;
  m->weight_reals = 0;
  for (int i = 0; i < m->nparams; i++) m->weight_reals += own_reals(&m->param[i]);
  m->weights = mem_alloc_aligned(m->weight_reals * sizeof *m->weights);
  if (!m->weights)
    return fail(GRPO_ENOMEM, "model: %zu MiB of weights", m->weight_reals * sizeof(real) >> 20);
  for (int i = 0; i < m->nparams; i++) {
    if (!m->param[i].t.quant) m->param[i].t.data = m->weights + at;
    at += own_reals(&m->param[i]);
  }
  try(rope_new(&m->rope));
  return allocate_panels(m);
}

void model_destroy(Model *m) {
  if (!m) return;
  lora_drop(m);
  lora_free(m->gone);
  if (m->shared) { /* everything else is the other's */
    m->shared->views--;
    model_release(m->shared);
    mem_free(m);
    return;
  }
  for (int i = 0; m->quant && i < m->nparams; i++) quant_free(m->quant[i]);
  mem_free(m->quant);
  mem_free_aligned(m->weights);
  mem_free_aligned(m->grads);
  mem_free_aligned(m->panels);
  rope_free(m->rope);
  mem_free(m->param);
  mem_free(m->by_name);
  mem_free(m->names);
  mem_free(m->layer);
  mem_free(m);
}

/* With an adapter the base does not change. */
void model_updated(Model *m) {
  m->version++;
  if (m->lora)
    m->lora->stale = true;
  else
    m->stale = true;
}

uint64_t model_version(const Model *m) {
  return 1 + m->version + (m->shared ? m->shared->version : 0);
}

Status model_pack(Model *m, const Ctx *cx) {
  if (m->lora) try(lora_pack(m->lora, cx));
  if (m->shared) return model_pack(m->shared, cx);
  if (m->panels_of != kern_name()) try(allocate_panels(m));
  if (!m->stale) return GRPO_OK;
  const LatentShape latent = model_latent(&m->config);
  for (int i = 0; i < m->nparams; i++) {
    const Param *p = &m->param[i];
    int n, k;
    if (p->by_head) {
      latent_pack(cx, &latent, p->t.data, p->t.packed, p->t.packed_bf16);
      continue;
    }
    param_outputs_inputs(p, &n, &k);
    if (p->t.packed) gemm_pack(cx, n, k, p->t.data, p->in_out, p->t.packed);
    if (p->t.packed_bf16) gemm_bf16_pack(cx, n, k, p->t.data, p->in_out, p->t.packed_bf16);
    if (p->t.transposed) gemm_pack(cx, k, n, p->t.data, !p->in_out, p->t.transposed);
    if (p->t.transposed_bf16) gemm_bf16_pack(cx, k, n, p->t.data, !p->in_out, p->t.transposed_bf16);
  }
  m->stale = false;
  return GRPO_OK;
}

const char *compute_name(Compute c) { return c == COMPUTE_BF16 ? "bf16" : "f32"; }

Compute model_compute(const Model *m) { return m->compute; }

size_t model_cache_bytes(const Model *m, bool every_head) {
  const AttnShape s = model_attention(&m->config, m->compute);
  return config_cache_reals(&m->config, every_head) *
         (kv_in_words(&s) ? sizeof(uint16_t) : sizeof(real));
}

Status model_set_compute(Model *m, Compute compute) {
  if (compute == m->compute) return GRPO_OK;
  if (m->shared || m->views)
    return fail(GRPO_EARG, "model: its weights are shared with a frozen view (a reference)");
  const Compute was = m->compute;
  m->compute = compute;
  const Status s = allocate_panels(m);
  if (s == GRPO_OK)
    m->version++;
  else
    m->compute = was;
  return s;
}

/* On failure nothing has changed. */
static Status turn_training(Model *m, bool on) {
  size_t transposed = 0;
  for (int i = 0; i < m->nparams; i++) transposed += model_transposed_bytes(m, i);
  m->trainable = on;
  const Status s = transposed ? allocate_panels(m) : GRPO_OK;
  if (s != GRPO_OK) m->trainable = !on;
  return s;
}

Status model_set_trainable(Model *m, bool on) {
  if (on == m->trainable) return GRPO_OK;
  size_t at = 0;
  real *grads = NULL;
  if (m->lora) {
    try(lora_trainable(m->lora, on));
    m->trainable = on;
    model_zero_grad(m);
    return GRPO_OK;
  }
  if (m->shared)
    return fail(GRPO_EARG, "model: a frozen view shares its weights; it cannot be trained");
  if (on && model_is_packed_in_place(m)) try(model_widen(m));
  if (on && model_is_compact(m))
    return fail(GRPO_EARG, "model: its weights are kept in a compact form and cannot be trained; "
                           "load with dtype = \"f32\", or add an adapter");
  if (on) grads = mem_alloc_aligned(m->weight_reals * sizeof *grads);
  if (on && !grads)
    return fail(GRPO_ENOMEM, "model: %zu MiB of gradients", m->weight_reals * sizeof(real) >> 20);
  const Status s = turn_training(m, on);
  if (s != GRPO_OK) {
    mem_free_aligned(grads);
    return s;
  }
  mem_free_aligned(m->grads);
  m->grads = grads;
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    m->param[i].trainable = t->needs_grad = on;
    t->grad = on ? m->grads + at : NULL;
    at += param_room(&m->param[i]);
  }
  model_zero_grad(m);
  return GRPO_OK;
}

Status model_reserve_positions(Model *m, int positions) {
  return rope_reserve(m->rope, &m->config, positions);
}

void model_set_checkpointing(Model *m, bool on) { m->checkpointing = on; }

void model_set_mask(Model *m, int id) {
  m->config.denoiser = id >= 0;
  m->config.mask_token_id = id >= 0 ? id : 0;
}

void model_zero_grad(Model *m) {
  Lora *l = m->lora;
  if (l && l->grads) memset(l->grads, 0, l->reals * sizeof *l->grads);
  for (int i = 0; l && i < l->nparams; i++) l->param[i].t.grad_live = false;
  if (l || m->shared) return;
  if (m->grads) memset(m->grads, 0, m->weight_reals * sizeof *m->grads);
  for (int i = 0; i < m->nparams; i++) m->param[i].t.grad_live = false;
}

bool model_is_compact(const Model *m) {
  for (int i = 0; i < m->nparams; i++)
    if (m->param[i].t.quant) return true;
  return false;
}

Storage model_storage(const Model *m) { return m->storage; }

/* ---- random weights ----------------------------------------------------------------- */

static void initialise(Model *m, uint64_t seed) {
  const Config *c = &m->config;
  const unsigned traits = config_traits(c);
  const double residual = traits & TRAIT_CONV1D ? 1 / sqrt(2.0 * c->num_hidden_layers) : 1;
  const real norm = traits & TRAIT_PLUS_ONE ? 0 : 1;
  for (int i = 0; i < m->nparams; i++) {
    Param *p = &m->param[i];
    if (p->is_bias || p->is_norm) {
      for (size_t k = 0; k < p->t.n; k++) p->t.data[k] = p->is_bias ? 0 : norm;
      continue;
    }
    const RngKey key = {.seed = seed, .stream = RNG_INIT, .prompt = (uint32_t)i};
    const double std = c->initializer_range * (strstr(p->name, "c_proj") ? residual : 1);
    fill_normal(&(Ctx){.pool = m->pool}, &key, p->t.n, std, p->t.data);
  }
}

Status model_new(Model **out, Pool *pool, const Config *c, uint64_t seed) {
  Model *m;
  try(model_layout(&m, pool, c));
  Status s = model_allocate(m);
  if (s != GRPO_OK) {
    model_destroy(m);
    return s;
  }
  initialise(m, seed);
  *out = m;
  return GRPO_OK;
}

/* ---- a frozen base in panels alone --------------------------------------------------------- */

bool model_packs_in_place(const Model *m, int i) {
  return model_is_matrix(m, i) && has_panels(m, &m->param[i].t) && !m->param[i].in_out;
}

bool model_is_packed_in_place(const Model *m) {
  for (int i = 0; i < m->nparams; i++)
    if (m->param[i].t.quant && m->param[i].t.quant->borrowed) return true;
  return false;
}

static Status settle_all(const Ctx *cx, Model *m) {
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    if (!model_packs_in_place(m, i)) continue;
    try(quant_pack_in_place(cx, &m->quant[i], t->dim[0], t->dim[1], t->data));
    t->quant = m->quant[i];
    t->data = NULL;
  }
  return GRPO_OK;
}

/* Tensors of a script may show the weights of a model that somebody else holds too. */
Status model_pack_in_place(Model *m) {
  if (m->shared || m->views || m->refs > 1 || m->trainable || m->compute != COMPUTE_F32 ||
      model_is_compact(m))
    return GRPO_OK;
  Arena arena = {0};
  mem_free_aligned(m->panels);
  m->panels = NULL;
  m->panels_of = NULL;
  Status s = settle_all(&(Ctx){.pool = m->pool, .arena = &arena}, m);
  arena_free(&arena);
  if (s == GRPO_OK) s = allocate_panels(m);
  return s;
}

static Status unsettle(Model *m) {
  Arena arena = {0};
  const Ctx cx = {.pool = m->pool, .arena = &arena};
  Status s = GRPO_OK;
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++) {
    Tensor *t = &m->param[i].t;
    if (!t->quant || !t->quant->borrowed) continue;
    real *w = t->quant->data;
    s = quant_unpack_in_place(&cx, m->quant[i]);
    if (s != GRPO_OK) break;
    t->quant = m->quant[i] = NULL;
    t->data = w;
  }
  arena_free(&arena);
  return s == GRPO_OK ? allocate_panels(m) : s;
}

/* ---- from compact to float32 -------------------------------------------------------------- */

static void adopt_wide(Model *m, real *wide) {
  size_t at = 0;
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    quant_free(m->quant[i]);
    m->quant[i] = NULL;
    t->quant = NULL;
    t->data = wide + at;
    at += param_room(&m->param[i]);
  }
  mem_free_aligned(m->weights);
  m->weights = wide;
  m->weight_reals = at;
  m->storage = STORE_F32;
}

Status model_widen(Model *m) {
  const Ctx cx = {.pool = m->pool};
  size_t at = 0, n = 0;
  if (!model_is_compact(m)) return GRPO_OK;
  if (m->shared || m->views)
    return fail(GRPO_EARG, "model: its weights are shared with a frozen view (a reference)");
  if (model_is_packed_in_place(m)) return unsettle(m);
  for (int i = 0; i < m->nparams; i++) n += param_room(&m->param[i]);
  real *wide = mem_alloc_aligned(n * sizeof *wide);
  if (!wide) return fail(GRPO_ENOMEM, "model: %zu MiB of weights", n * sizeof(real) >> 20);
  for (int i = 0; i < m->nparams; i++) {
    const Status s = param_values(&cx, &m->param[i], wide + at);
    if (s != GRPO_OK) {
      mem_free_aligned(wide);
      return s;
    }
    at += param_room(&m->param[i]);
  }
  adopt_wide(m, wide);
  return allocate_panels(m);
}

/* ---- sharing and copying ---------------------------------------------------------------- */

Status model_view(Model **out, const Model *of) {
  Model *root = of->shared ? of->shared : (Model *)(uintptr_t)of, *m = mem_alloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "model");
  *m = *root;
  m->refs = 1;
  m->views = 0;
  m->shared = model_retain(root);
  m->lora = m->gone = NULL;
  m->trainable = m->checkpointing = false;
  root->views++;
  *out = m;
  return GRPO_OK;
}

static Status clone_adapter(Model **out, const Model *from) {
  const Lora *l = from->lora;
  try(model_view(out, from));
  Status s = lora_attach(*out, l->config, strlen(l->config), "model");
  if (s == GRPO_OK) s = lora_allocate(*out);
  if (s != GRPO_OK) {
    model_release(*out);
    return s;
  }
  memcpy((*out)->lora->weights, l->weights, l->reals * sizeof *l->weights);
  return GRPO_OK;
}

Status model_clone(Model **out, const Model *from) {
  Model *m;
  if (from->lora) return clone_adapter(out, from);
  if (model_is_compact(from) && !model_is_packed_in_place(from)) return model_view(out, from);
  try(model_layout(&m, from->pool, &from->config));
  m->compute = from->compute;
  Status s = model_allocate(m);
  if (s == GRPO_OK) s = model_copy_weights(m, from);
  if (s != GRPO_OK) {
    model_destroy(m);
    return s;
  }
  *out = m;
  return GRPO_OK;
}

Model *model_retain(Model *m) {
  m->refs++;
  return m;
}

void model_release(Model *m) {
  if (m && --m->refs == 0) model_destroy(m);
}

static const Model *owner(const Model *m) { return m->shared ? m->shared : m; }

/* What copying goes over: of two models on the same base, the adapters. */
static int first_param(const Model *a, const Model *b) {
  return owner(a) == owner(b) ? a->nparams : 0;
}

static Status same_adapters(const Model *a, const Model *b) {
  bool same = model_num_params(a) == model_num_params(b);
  for (int i = a->nparams; same && i < model_num_params(a); i++) {
    const Param *p = model_param((Model *)(uintptr_t)a, i);
    const Param *q = model_param((Model *)(uintptr_t)b, i);
    same = strcmp(p->name, q->name) == 0 && p->t.dim[0] == q->t.dim[0] && p->t.n == q->t.n;
  }
  return same ? GRPO_OK : fail(GRPO_ESHAPE, "model: the two models have different adapters");
}

static Status same_shapes(const Model *a, const Model *b) {
  bool same = a->nparams == b->nparams;
  for (int i = 0; same && i < a->nparams; i++) {
    const Param *p = &a->param[i], *q = &b->param[i];
    same = strcmp(p->name, q->name) == 0 && p->t.dim[0] == q->t.dim[0] && p->t.n == q->t.n;
  }
  if (!same) return fail(GRPO_ESHAPE, "model: the two models have different shapes");
  return same_adapters(a, b);
}

/* Of two models on the same base only the adapter changes. */
static Status can_change(const Model *to, const Model *from) {
  if (owner(to) == owner(from)) return GRPO_OK;
  if (!to->shared && (!model_is_compact(to) || model_is_packed_in_place(to))) return GRPO_OK;
  return fail(GRPO_EARG, "model: %s cannot be changed",
              to->shared ? "a view's weights" : "weights in a compact form");
}

Status param_set(const Ctx *cx, Param *p, const real *values) {
  QuantWeight *quant = (QuantWeight *)(uintptr_t)p->t.quant;
  if (quant && !quant->borrowed)
    return fail(GRPO_EARG, "%s is frozen in a compact storage", p->name);
  if (quant) return quant_put(cx, quant, 0, quant->n, values);
  memcpy(p->t.data, values, p->t.n * sizeof *values);
  return GRPO_OK;
}

/* to = from, or with alpha below 1 alpha from + (1 - alpha) to */
static Status mix_param(const Ctx *cx, const Param *from, double alpha, Param *to) {
  const size_t n = to->t.n;
  real *x = NULL, *y = NULL;
  Status s = GRPO_OK;
  if (from->t.quant) {
    x = mem_alloc_aligned(n * sizeof *x);
    s = x ? param_values(cx, from, x) : fail(GRPO_ENOMEM, "model: %s in float32", from->name);
  }
  if (s == GRPO_OK && alpha < 1 && to->t.quant) {
    y = mem_alloc_aligned(n * sizeof *y);
    s = y ? param_values(cx, to, y) : fail(GRPO_ENOMEM, "model: %s in float32", to->name);
  }
  const real *values = x ? x : from->t.data;
  real *mixed = y ? y : to->t.data;
  if (s == GRPO_OK && alpha < 1) vec_lerp(cx, n, values, (real)alpha, mixed);
  if (s == GRPO_OK && (alpha >= 1 || y)) s = param_set(cx, to, alpha < 1 ? y : values);
  mem_free_aligned(x);
  mem_free_aligned(y);
  return s;
}

static Status mix_params(const Ctx *cx, Model *to, const Model *from, double alpha) {
  try(same_shapes(to, from));
  try(can_change(to, from));
  for (int i = first_param(to, from); i < model_num_params(to); i++)
    try(mix_param(cx, model_param((Model *)(uintptr_t)from, i), alpha, model_param(to, i)));
  model_updated(to);
  return GRPO_OK;
}

Status model_copy_weights(Model *to, const Model *from) {
  return mix_params(&(Ctx){.pool = to->pool}, to, from, 1);
}

Status model_lerp_weights(Model *to, const Model *from, double alpha, const Ctx *cx) {
  return mix_params(cx, to, from, alpha);
}

/* ---- looking in ------------------------------------------------------------------------------ */

const Config *model_config(const Model *m) { return &m->config; }
int model_num_params(const Model *m) { return m->nparams + (m->lora ? m->lora->nparams : 0); }
Param *model_param(Model *m, int i) {
  return i < m->nparams ? &m->param[i] : &m->lora->param[i - m->nparams];
}

Param *model_find(Model *m, const char *name) {
  int i = model_index(m, name);
  if (i >= 0) return &m->param[i];
  i = m->lora ? lora_index(m->lora, name) : -1;
  return i < 0 ? NULL : &m->lora->param[i];
}

static uint64_t count(const Model *m, bool trainable) {
  uint64_t n = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param((Model *)(uintptr_t)m, i);
    if (!trainable || p->trainable) n += p->t.n;
  }
  return n;
}
bool model_trains(const Model *m, int i) { return m->lora ? i >= m->nparams : !m->shared; }
uint64_t model_count(const Model *m) { return count(m, false); }
/* A view sees its owner's parameters, but none of them is its to train. */
uint64_t model_count_trainable(const Model *m) { return m->trainable ? count(m, true) : 0; }

#include "model/model_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/pool.h"
#include "kern/gemm.h"
#include "model/frozen.h"
#include "model/layout.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/panels.h"

/* Scratch memory of a thread: for unpacking quantised weights (gemm_quant.c), or for transposing
 * weights that are packed in place. */
enum { UNPACK_REALS = 1 << 14, TRANSPOSE_REALS = 75 << 10, SLACK = 16 << 10 };

void model_plan_of_config(ModelPlan *p, const Config *c) { *p = (ModelPlan){.config = *c}; }

static QuantType type_of(const Tensor *t) {
  return t->quant && t->quant->type != QUANT_INT8 ? t->quant->type : QUANT_F32;
}

static void add_lora_matrix(ModelPlan *p, size_t n) {
  p->lora_params += n;
  if (n < MOMENTS8_MIN) p->lora_small += n;
}

void model_plan_of_model(ModelPlan *p, const Model *m) {
  *p = (ModelPlan){.config = m->config,
                   .storage = m->storage,
                   .compute = m->compute,
                   .packed_in_place = frozen_is_packed_in_place(m),
                   .shared = m->shared != NULL};
  p->stored_embedding = type_of(m->t[M_EMBED]);
  for (int i = m->nparams; i-- > 0;)
    if (layout_is_projection(m, i)) p->stored = type_of(&m->param[i].t);
  if (!m->lora) return;
  p->lora_rank = m->lora->rank;
  p->lora_modules = m->lora->nmodules;
  p->lora_dropout = m->lora->dropout;
  for (int i = 0; i < m->lora->nparams; i++) {
    const Tensor *t = &m->lora->param[i].t;
    add_lora_matrix(p, t->n);
    p->lora_panels += gemm_packed_size(t->dim[0], t->dim[1]);
  }
}

/* A model without memory for weights, for its names and shapes; the caller releases it. */
static Status outline(const ModelPlan *p, Model **out) {
  try(model_layout(out, NULL, &p->config));
  (*out)->compute = p->compute;
  return GRPO_OK;
}

static bool is_target(const Model *m, int i, int ntargets, const char *const *targets) {
  const char *name = m->param[i].name, *end = strrchr(name, '.');
  char path[LORA_NAME_BYTES];
  if (!layout_is_matrix(m, i) || !end) return false;
  snprintf(path, sizeof path, "%.*s", (int)(end - name), name);
  for (int k = 0; k < ntargets; k++) {
    if (strcmp(targets[k], "all-linear") == 0 && layout_is_projection(m, i)) return true;
    if (lora_name_matches(path, targets[k])) return true;
  }
  return false;
}

Status model_plan_add_lora(ModelPlan *p, int rank, int ntargets, const char *const *targets) {
  Model *m;
  try(outline(p, &m));
  p->packed_in_place = p->storage == STORE_F32 && p->compute == COMPUTE_F32;
  p->lora_rank = rank;
  for (int i = 0; i < m->nparams; i++) {
    int n, k;
    param_outputs_inputs(&m->param[i], &n, &k);
    if (!is_target(m, i, ntargets, targets)) continue;
    p->lora_modules++;
    add_lora_matrix(p, (size_t)rank * (size_t)n);
    add_lora_matrix(p, (size_t)rank * (size_t)k);
    p->lora_panels += gemm_packed_size(rank, k) + gemm_packed_size(n, rank);
  }
  model_release(m);
  return GRPO_OK;
}

size_t model_plan_weight_bytes(const ModelPlan *p, bool train) {
  Model *m;
  size_t plain = 0, panels = 0, quantised = 0;
  const size_t adapter = p->lora_params * sizeof(real);
  const size_t lora = adapter * (train ? 2 : 1) + p->lora_panels * sizeof(real);
  if (p->shared || outline(p, &m) != GRPO_OK) return lora;
  for (int i = 0; i < m->nparams; i++) {
    int n, k;
    param_outputs_inputs(&m->param[i], &n, &k);
    const bool projection = layout_is_projection(m, i);
    if (p->storage != STORE_F32 && layout_is_matrix(m, i)) {
      const QuantType stored = projection ? p->stored : p->stored_embedding;
      quantised += quant_bytes(param_storage_type(p->storage, projection, stored), n, k);
    } else {
      plain += param_room(&m->param[i]);
      if (!p->packed_in_place || !frozen_packs_in_place(m, i)) panels += panels_bytes(m, i);
      if (train && !p->lora_rank) panels += panels_transposed_bytes(m, i);
    }
  }
  model_release(m);
  return mem_aligned_size(plain * sizeof(real)) * (train && !p->lora_rank ? 2 : 1) +
         mem_aligned_size(panels) + quantised + lora;
}

uint64_t model_plan_trained(const ModelPlan *p) {
  Model *m;
  uint64_t n = 0;
  if (p->lora_rank) return p->lora_params;
  if (outline(p, &m) != GRPO_OK) return 0;
  for (int i = 0; i < m->nparams; i++) n += m->param[i].t.n;
  model_release(m);
  return n;
}

/* Every matrix of an adapter ends in an incomplete block and incomplete lines of memory. */
static size_t lora_moment_bytes(const ModelPlan *p, OptimizerKind kind) {
  enum { ROUNDING = MOMENT_ARRAYS * 64 };
  const size_t large = p->lora_params - p->lora_small, matrices = 2 * (size_t)p->lora_modules;
  return moments_bytes(moments_kind(kind, large), large) + matrices * ROUNDING +
         p->lora_small * (kind == OPTIMIZER_LION ? 1 : 2) * sizeof(real);
}

size_t model_plan_optimizer_bytes(const ModelPlan *p, OptimizerKind kind) {
  Model *m;
  size_t bytes = 0;
  if (p->lora_rank) return mem_aligned_size(lora_moment_bytes(p, kind));
  if (outline(p, &m) != GRPO_OK) return 0;
  for (int i = 0; i < m->nparams; i++) {
    const size_t n = m->param[i].t.n;
    bytes += moments_bytes(moments_kind(kind, n), n);
  }
  model_release(m);
  return mem_aligned_size(bytes);
}

size_t model_plan_step_bytes(const ModelPlan *p, int nrows, StepMemory kind) {
  const Config *c = &p->config;
  const size_t rank = (size_t)p->lora_rank, modules = (size_t)p->lora_modules;
  const size_t block =
      p->packed_in_place || p->storage == STORE_AUTO ? TRANSPOSE_REALS : UNPACK_REALS;
  const bool unpacks = p->packed_in_place || p->storage != STORE_F32;
  const size_t scratch = unpacks ? (size_t)pool_cores() * block * sizeof(real) : 0;
  if (!rank) return scratch;
  const bool train = kind != STEP_FORWARD;
  const size_t layers = kind == STEP_CHECKPOINTED ? (size_t)c->num_hidden_layers : 1;
  const size_t low = train ? rank * modules / layers : rank;
  const size_t widest = max_size(max_size((size_t)c->intermediate_size, (size_t)c->hidden_size),
                                 (size_t)c->num_attention_heads * (size_t)c->head_dim);
  return (size_t)nrows * (low + 3 * rank + (train ? 2 * widest : 0)) * sizeof(real) +
         (train ? modules * 256 : 0) + scratch + SLACK;
}

/* ---- refusing ----------------------------------------------------------------------------- */

/* Appends "dtype = "bf16" (450 MiB)" to the list of forms that fit. */
static void add_form(Buf *list, const char *how, size_t bytes) {
  buf_printf(list, "%s%s (%zu MiB)", list->len ? ", " : "", how, bytes >> 20);
}

Status model_plan_check_memory(const ModelPlan *p, const char *path) {
  static const Storage smaller[] = {STORE_AUTO, STORE_BF16, STORE_INT8, STORE_NF4};
  static const char *const how[] = {"dtype = \"auto\"", "dtype = \"bf16\"", "quantize = \"int8\"",
                                    "quantize = \"nf4\""};
  enum { FORMS = sizeof smaller / sizeof *smaller };
  const size_t need = model_plan_weight_bytes(p, false), free = mem_available();
  if (!free || need <= free) return GRPO_OK;
  Buf fitting = {0}, all = {0};
  for (int i = 0; i < FORMS; i++) {
    ModelPlan q = *p;
    q.storage = smaller[i];
    q.packed_in_place = false;
    const size_t bytes = model_plan_weight_bytes(&q, false);
    if (bytes >= need) continue;
    add_form(&all, how[i], bytes);
    if (bytes <= free / 10 * 9) add_form(&fitting, how[i], bytes);
  }
  const Status s =
      fitting.len
          ? fail(GRPO_ENOMEM,
                 "%s: the weights take %zu MiB in the form '%s' and %zu MiB are free; frozen, "
                 "beside an adapter or to generate, they fit with %s",
                 path, need >> 20, param_storage_name(p->storage), free >> 20, fitting.data)
          : fail(GRPO_ENOMEM,
                 "%s: the weights take %zu MiB in the form '%s' and %zu MiB are free; no form of "
                 "them fits%s%s%s, so take a smaller model",
                 path, need >> 20, param_storage_name(p->storage), free >> 20, all.len ? ", " : "",
                 all.len ? "not even " : "", all.len ? all.data : "");
  buf_free(&fitting);
  buf_free(&all);
  return s;
}

Status model_plan_check_new(const Config *c) {
  ModelPlan p, smaller;
  model_plan_of_config(&p, c);
  const size_t need = model_plan_weight_bytes(&p, false), free = mem_available();
  if (!free || need <= free) return GRPO_OK;
  mem_refuses(need); /* for the advice about a limit */
  for (int layers = c->num_hidden_layers / 2; layers >= 1; layers /= 2) {
    smaller = p;
    smaller.config.num_hidden_layers = layers;
    const size_t bytes = model_plan_weight_bytes(&smaller, false);
    if (bytes <= free / 10 * 9)
      return fail(GRPO_ENOMEM,
                  "model.config: its weights take %zu MiB and %zu MiB are free; it fits with "
                  "num_hidden_layers = %d (%zu MiB)",
                  need >> 20, free >> 20, layers, bytes >> 20);
  }
  return fail(GRPO_ENOMEM,
              "model.config: its weights take %zu MiB and %zu MiB are free; no number of layers "
              "fits, so make hidden_size, intermediate_size or vocab_size smaller",
              need >> 20, free >> 20);
}

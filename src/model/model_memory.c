#include "model/model_memory.h"

#include "base/buf.h"
#include "base/mem.h"
#include "model/frozen.h"
#include "model/layout.h"

/* ---- outlines ----------------------------------------------------------------------------- */

const Model *model_owner(const Model *m) { return m->shared ? m->shared : m; }

static Status quantise(Model *m, int i, QuantType type, bool plain) {
  try(frozen_quantise(m, i, type));
  return plain ? GRPO_OK : quant_done(&(Ctx){0}, m->quant[i]);
}

/* Parameter i takes the form that it has in `from`, or would have in another storage. */
static Status outline_param(Model *m, int i, const Model *from, const Storage *storage) {
  const QuantWeight *q = from->param[i].t.quant;
  if (q && q->borrowed) q = NULL;
  if (!storage) return q ? quantise(m, i, q->type, q->plain_absmax) : GRPO_OK;
  if (*storage == STORE_F32 || !layout_is_matrix(m, i)) return GRPO_OK;
  const QuantType stored = q && q->type != QUANT_INT8 ? q->type : QUANT_F32;
  return quantise(m, i, param_storage_type(*storage, layout_is_projection(m, i), stored), false);
}

static Status outline_lora(Model *m, const Model *from) {
  const Model *owner = model_owner(from);
  if (!from->lora) return GRPO_OK;
  try(lora_weights_copy(&m->lora, from->lora));
  for (int i = 0; i < m->lora->nmodules; i++) {
    LoraModule *mod = &m->lora->module[i];
    mod->base = m->param + (mod->base - owner->param);
  }
  return GRPO_OK;
}

static Status fill_outline(Model *m, const Model *from, const ModelForm *form) {
  const Storage *storage = form ? form->storage : NULL;
  const Model *owner = model_owner(from);
  m->compute = from->compute;
  m->cpu = from->cpu;
  m->storage = storage ? *storage : from->storage;
  for (int i = 0; i < m->nparams; i++) try(outline_param(m, i, owner, storage));
  try(model_allocate(m));
  if (!from->shared) try(outline_lora(m, from));
  if (form && form->lora) return lora_add(m, form->lora, 0);
  return frozen_is_packed_in_place(owner) && !storage ? frozen_pack_in_place(m) : GRPO_OK;
}

/* After a failure *m is NULL, so that whoever holds it can release it again. */
static Status or_release(Status s, Model **m) {
  if (s == GRPO_OK) return s;
  model_release(*m);
  *m = NULL;
  return s;
}

Status model_outline(Model **out, const Model *m, const ModelForm *form) {
  try(model_layout(out, m->pool, &m->config));
  return or_release(fill_outline(*out, m, form), out);
}

Status model_outline_view(Model **out, Model *base, const Model *m) {
  try(model_view(out, base));
  return or_release(outline_lora(*out, m), out);
}

static Status measure_new(const Config *c, size_t *bytes) {
  const size_t before = mem_live_bytes();
  Model *m;
  try(model_layout(&m, NULL, c));
  const Status s = model_allocate(m);
  *bytes = mem_live_bytes() - before;
  model_release(m);
  return s;
}

Status model_new_bytes(const Config *c, size_t *bytes) {
  mem_measure_begin();
  const Status s = measure_new(c, bytes);
  mem_measure_end();
  return s;
}

/* ---- refusing ----------------------------------------------------------------------------- */

/* Appends "dtype = "bf16" (450 MiB)" to the list of forms that fit. */
static void add_form(Buf *list, const char *how, size_t bytes) {
  buf_printf(list, "%s%s (%zu MiB)", list->len ? ", " : "", how, bytes >> 20);
}

Status model_refuse(const char *path, Storage storage, const size_t bytes[STORAGES]) {
  static const char *const how[STORAGES] = {[STORE_AUTO] = "dtype = \"auto\"",
                                            [STORE_BF16] = "dtype = \"bf16\"",
                                            [STORE_INT8] = "quantize = \"int8\"",
                                            [STORE_NF4] = "quantize = \"nf4\""};
  const size_t need = bytes[storage], free = mem_available();
  Buf fitting = {0}, all = {0};
  for (int i = STORE_AUTO; i < STORAGES; i++) {
    if (bytes[i] >= need) continue;
    add_form(&all, how[i], bytes[i]);
    if (bytes[i] <= free / 10 * 9) add_form(&fitting, how[i], bytes[i]);
  }
  const Status s =
      fitting.len
          ? fail(GRPO_ENOMEM,
                 "%s: the weights take %zu MiB in the form '%s' and %zu MiB are free; frozen, "
                 "beside an adapter or to generate, they fit with %s",
                 path, need >> 20, param_storage_name(storage), free >> 20, fitting.data)
          : fail(GRPO_ENOMEM,
                 "%s: the weights take %zu MiB in the form '%s' and %zu MiB are free; no form of "
                 "them fits%s%s%s, so take a smaller model",
                 path, need >> 20, param_storage_name(storage), free >> 20, all.len ? ", " : "",
                 all.len ? "not even " : "", all.len ? all.data : "");
  buf_free(&fitting);
  buf_free(&all);
  return s;
}

Status model_check_new(const Config *c) {
  size_t need, bytes;
  try(model_new_bytes(c, &need));
  const size_t free = mem_available();
  if (!free || need <= free) return GRPO_OK;
  mem_refuses(need); /* for the advice about a limit */
  Config smaller = *c;
  for (int layers = c->num_hidden_layers / 2; layers >= 1; layers /= 2) {
    smaller.num_hidden_layers = layers;
    try(model_new_bytes(&smaller, &bytes));
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

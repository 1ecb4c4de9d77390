/* layout.c - which parameters a family has: names, shapes, roles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/impl.h"

/* The sizes that parameters are made of. */
typedef enum Dim { NONE, VOCAB, POSITIONS, HIDDEN, QKV, HEADS, KV, FFN } Dim;
enum { BIAS = 1, NORM = 2, IN_OUT = 4, ATTN_BIAS = 8, MLP_BIAS = 16, UNTIED = 32 };

typedef struct Row {
  int slot;
  const char *name; /* after the layer's prefix, for a layer's parameters */
  Dim dim[2];
  int flags;
} Row;

static const Row gpt2_begin[] = {
    {M_EMBED, "transformer.wte.weight", {VOCAB, HIDDEN}, 0},
    {M_POSITION, "transformer.wpe.weight", {POSITIONS, HIDDEN}, 0},
    {0},
};
static const Row gpt2_layer[] = {
    {L_NORM1_W, "ln_1.weight", {HIDDEN}, NORM},
    {L_NORM1_B, "ln_1.bias", {HIDDEN}, NORM | BIAS},
    {L_QKV_W, "attn.c_attn.weight", {HIDDEN, QKV}, IN_OUT},
    {L_QKV_B, "attn.c_attn.bias", {QKV}, BIAS},
    {L_O_W, "attn.c_proj.weight", {HEADS, HIDDEN}, IN_OUT},
    {L_O_B, "attn.c_proj.bias", {HIDDEN}, BIAS},
    {L_NORM2_W, "ln_2.weight", {HIDDEN}, NORM},
    {L_NORM2_B, "ln_2.bias", {HIDDEN}, NORM | BIAS},
    {L_UP_W, "mlp.c_fc.weight", {HIDDEN, FFN}, IN_OUT},
    {L_UP_B, "mlp.c_fc.bias", {FFN}, BIAS},
    {L_DOWN_W, "mlp.c_proj.weight", {FFN, HIDDEN}, IN_OUT},
    {L_DOWN_B, "mlp.c_proj.bias", {HIDDEN}, BIAS},
    {0},
};
static const Row gpt2_end[] = {
    {M_NORM_W, "transformer.ln_f.weight", {HIDDEN}, NORM},
    {M_NORM_B, "transformer.ln_f.bias", {HIDDEN}, NORM | BIAS},
    {M_HEAD, "lm_head.weight", {VOCAB, HIDDEN}, UNTIED},
    {0},
};

static const Row llama_begin[] = {
    {M_EMBED, "model.embed_tokens.weight", {VOCAB, HIDDEN}, 0},
    {0},
};
static const Row llama_layer[] = {
    {L_Q_W, "self_attn.q_proj.weight", {HEADS, HIDDEN}, 0},
    {L_Q_B, "self_attn.q_proj.bias", {HEADS}, BIAS | ATTN_BIAS},
    {L_K_W, "self_attn.k_proj.weight", {KV, HIDDEN}, 0},
    {L_K_B, "self_attn.k_proj.bias", {KV}, BIAS | ATTN_BIAS},
    {L_V_W, "self_attn.v_proj.weight", {KV, HIDDEN}, 0},
    {L_V_B, "self_attn.v_proj.bias", {KV}, BIAS | ATTN_BIAS},
    {L_O_W, "self_attn.o_proj.weight", {HIDDEN, HEADS}, 0},
    {L_O_B, "self_attn.o_proj.bias", {HIDDEN}, BIAS | ATTN_BIAS},
    {L_GATE_W, "mlp.gate_proj.weight", {FFN, HIDDEN}, 0},
    {L_GATE_B, "mlp.gate_proj.bias", {FFN}, BIAS | MLP_BIAS},
    {L_UP_W, "mlp.up_proj.weight", {FFN, HIDDEN}, 0},
    {L_UP_B, "mlp.up_proj.bias", {FFN}, BIAS | MLP_BIAS},
    {L_DOWN_W, "mlp.down_proj.weight", {HIDDEN, FFN}, 0},
    {L_DOWN_B, "mlp.down_proj.bias", {HIDDEN}, BIAS | MLP_BIAS},
    {L_NORM1_W, "input_layernorm.weight", {HIDDEN}, NORM},
    {L_NORM2_W, "post_attention_layernorm.weight", {HIDDEN}, NORM},
    {0},
};
static const Row llama_end[] = {
    {M_NORM_W, "model.norm.weight", {HIDDEN}, NORM},
    {M_HEAD, "lm_head.weight", {VOCAB, HIDDEN}, UNTIED},
    {0},
};

typedef struct Table {
  const Row *begin, *layer, *end;
  const char *layer_prefix;
} Table;

static const Table tables[] = {
    [FAMILY_GPT2] = {gpt2_begin, gpt2_layer, gpt2_end, "transformer.h."},
    [FAMILY_LLAMA] = {llama_begin, llama_layer, llama_end, "model.layers."},
};

enum { NAME_MAX_BYTES = 80 };

static int size_of(const Config *c, Dim d) {
  switch (d) {
  case VOCAB:
    return c->vocab_size;
  case POSITIONS:
    return c->max_position_embeddings;
  case HIDDEN:
    return c->hidden_size;
  case QKV:
    return 3 * c->hidden_size;
  case HEADS:
    return c->num_attention_heads * c->head_dim;
  case KV:
    return c->num_key_value_heads * c->head_dim;
  case FFN:
    return c->intermediate_size;
  case NONE:
    break;
  }
  return 0;
}

static bool present(const Config *c, const Row *r) {
  if (r->flags & UNTIED) return !c->tie_word_embeddings;
  if (r->flags & ATTN_BIAS) return c->attention_bias;
  if (r->flags & MLP_BIAS) return c->mlp_bias;
  return true;
}

static int count_rows(const Config *c, const Row *r) {
  int n = 0;
  for (; r->name; r++) n += present(c, r);
  return n;
}

static void add_rows(Model *m, const Row *r, const char *prefix, Tensor **slots) {
  for (; r->name; r++) {
    if (!present(&m->config, r)) continue;
    char *name = m->names + (size_t)m->nparams * NAME_MAX_BYTES;
    snprintf(name, NAME_MAX_BYTES, "%.32s%.46s", prefix, r->name);
    int dim[2] = {size_of(&m->config, r->dim[0]), size_of(&m->config, r->dim[1])};
    Param *p = &m->param[m->nparams++];
    *p = (Param){.name = name,
                 .t = tensor_view(NULL, dim[1] ? 2 : 1, dim),
                 .in_out = r->flags & IN_OUT,
                 .is_bias = r->flags & BIAS,
                 .is_norm = r->flags & NORM};
    slots[r->slot] = &p->t;
  }
}

static int by_name(const void *x, const void *y) {
  const NameRef *a = x, *b = y;
  return strcmp(a->name, b->name);
}

static void sort_names(Model *m) {
  for (int i = 0; i < m->nparams; i++) m->by_name[i] = (NameRef){m->param[i].name, i};
  qsort(m->by_name, (size_t)m->nparams, sizeof *m->by_name, by_name);
}

int model_index(const Model *m, const char *name) {
  const NameRef key = {name, 0};
  const NameRef *r = bsearch(&key, m->by_name, (size_t)m->nparams, sizeof key, by_name);
  return r ? r->index : -1;
}

Status model_layout(Model **out, Pool *pool, const Config *c) {
  try(config_check(c, "model"));
  const Table *t = &tables[c->family];
  const int layers = c->num_hidden_layers;
  const size_t n = (size_t)(count_rows(c, t->begin) + count_rows(c, t->end)) +
                   (size_t)count_rows(c, t->layer) * (size_t)layers;
  Model *m = mem_zalloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "model");
  *m = (Model){.refs = 1, .pool = pool, .config = *c, .stale = true};
  m->param = mem_zalloc(n * sizeof *m->param);
  m->by_name = mem_alloc(n * sizeof *m->by_name);
  m->names = mem_alloc(n * NAME_MAX_BYTES);
  m->layer = mem_zalloc((size_t)layers * sizeof *m->layer);
  if (!m->param || !m->by_name || !m->names || !m->layer) {
    model_destroy(m);
    return fail(GRPO_ENOMEM, "model: table of %zu parameters", n);
  }
  add_rows(m, t->begin, "", m->t);
  for (int i = 0; i < layers; i++) {
    char prefix[NAME_MAX_BYTES];
    snprintf(prefix, sizeof prefix, "%s%d.", t->layer_prefix, i);
    add_rows(m, t->layer, prefix, m->layer[i].t);
  }
  add_rows(m, t->end, "", m->t);
  if (c->tie_word_embeddings) m->t[M_HEAD] = m->t[M_EMBED];
  sort_names(m);
  *out = m;
  return GRPO_OK;
}

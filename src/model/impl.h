/* impl.h - the inside of a Model, for the files of this layer and their tests.
 *
 * The parameters of all families are listed once, in layout.c; a slot says
 * what a parameter is for, so transformer.c asks for slots and never for names.
 */
#ifndef GRPO_MODEL_IMPL_H
#define GRPO_MODEL_IMPL_H

#include "grad/latent.h"
#include "kern/quant.h"
#include "model/model.h"

/* Parameters of a layer; a family that lacks one has NULL there.  A projection's bias follows its
 * weight. */
typedef enum LayerSlot {
  L_NORM1_W,
  L_NORM1_B,
  L_QKV_W,
  L_QKV_B,
  L_Q_A_W, /* latent attention: to a low rank; L_QNORM_W norms that, L_Q_W goes on */
  L_Q_A_B,
  L_Q_W,
  L_Q_B,
  L_K_W,
  L_K_B,
  L_V_W,
  L_V_B,
  L_KV_A_W, /* to the latent, which L_KNORM_W norms, and the rotary key */
  L_KV_A_B,
  L_KV_B_W, /* from there to keys and values, head by head (grad/latent.h) */
  L_O_W,
  L_O_B,
  L_QNORM_W,
  L_KNORM_W,
  L_POST1_W,
  L_NORM2_W,
  L_NORM2_B,
  L_GATE_UP_W,
  L_GATE_UP_B,
  L_GATE_W,
  L_GATE_B,
  L_UP_W,
  L_UP_B,
  L_DOWN_W,
  L_DOWN_B,
  L_POST2_W,
  L_COUNT
} LayerSlot;
typedef enum ModelSlot { M_EMBED, M_POSITION, M_NORM_W, M_NORM_B, M_HEAD, M_COUNT } ModelSlot;

typedef struct Layer {
  Tensor *t[L_COUNT];
  uint64_t in_out; /* bits: slots whose weight is stored [in, out] */
} Layer;

typedef struct NameRef {
  const char *name;
  int index;
} NameRef;
/* refs[i] becomes parameter i's name, then they are sorted; the index of a name, -1: none. */
void names_sort(NameRef *refs, const Param *param, int n);
int names_find(const NameRef *refs, int n, const char *name);

size_t padded_reals(size_t n);     /* to whole cache lines: where the next parameter begins */
size_t param_room(const Param *p); /* reals that a float32 parameter takes of Model.weights */

enum { PATH_BYTES = 4096 };
Status join_path(char *path /* [PATH_BYTES] */, const char *dir, const char *name); /* EARG: long */

/* A and B beside one weight. */
typedef struct LoraModule {
  Param *base;  /* the embedding's for a tied head */
  Param *a, *b; /* [rank, in], [out, rank] */
  double scale;
  uint32_t id; /* which one, for dropout's key */
} LoraModule;

typedef struct Lora {
  char *config; /* adapter_config.json's text */
  int rank;
  double dropout;
  int nmodules;
  LoraModule *module; /* [nmodules] */
  LoraModule **at;    /* [num_hidden_layers, L_COUNT]; NULL where there is none */
  LoraModule *embedding, *head;
  int nparams;      /* 2 nmodules */
  Param *param;     /* A, B, A, B, ... */
  NameRef *by_name; /* sorted */
  char *names;
  real *weights, *grads, *panels;
  size_t reals;
  const char *panels_of;
  bool stale, off;
  struct Lora *gone; /* merged before this one: tensors of a script may still point at it */
} Lora;

typedef struct Rope Rope; /* rope.c */

struct Model {
  int refs;
  Model *shared; /* whose weights these are, for a view: all pointers below are its; NULL: own */
  int views;     /* models that share this one's */
  Lora *lora, *gone;
  Pool *pool;
  Config config;
  int nparams;
  Param *param;          /* [nparams], the checkpoint's order */
  NameRef *by_name;      /* [nparams] sorted by name */
  char *names;           /* memory of all names */
  Layer *layer;          /* [num_hidden_layers] */
  Tensor *t[M_COUNT];    /* M_HEAD is the embedding when tied */
  real *weights;         /* all parameters, each 64-byte aligned */
  real *grads;           /* the same layout; NULL while frozen */
  size_t weight_reals;   /* of either */
  Compute compute;       /* of products with its weights */
  void *panels;          /* float32's, or bf16's where compute is that */
  const char *panels_of; /* kern_name() that the panels are laid out for */
  bool stale;            /* panels do not show the weights */
  uint64_t version;      /* see model_version() */
  bool trainable;
  Storage storage;
  QuantWeight **quant; /* [nparams] its own compact weights; NULL where a parameter is float32 */
  bool checkpointing;  /* layers are computed again in backward */
  Rope *rope;
};

/* Names, shapes and slots of every parameter; no memory for weights yet. */
Status model_layout(Model **out, Pool *pool, const Config *c);
/* Weights (not initialised), panels and rope table. */
Status model_allocate(Model *m);
void model_destroy(Model *m); /* whatever there is; NULL is fine */
/* Before model_allocate: parameter i becomes an empty matrix of its own. */
Status model_make_compact(Model *m, int i, QuantType type);
/* Matrices of projections inside layers, embeddings and heads; not the position embedding. */
bool model_is_matrix(const Model *m, int i);
bool model_is_projection(const Model *m, int i); /* inside a layer */
void param_outputs_inputs(const Param *p, int *n, int *k);
int model_index(const Model *m, const char *name); /* of a parameter; -1: none */
/* A base in float32 that an adapter has frozen keeps its panels alone, in the memory of the weights:
 * parameters become matrices (QUANT_F32).  Nothing happens where others hold the model, or products
 * are in bf16, whose panels do not say what the weights are.  model_widen takes it back.  After a
 * failure some are matrices and some are not, which is as good. */
Status model_pack_in_place(Model *m);
bool model_is_packed_in_place(const Model *m);
bool model_packs_in_place(const Model *m, int i); /* would parameter i be a matrix? */

/* The inverse frequencies of rotary positions, scaled as the configuration says; local: of the
 * windowed layers that rotate otherwise. */
void rope_frequencies(const Config *c, bool local, double *inv_freq /* [rotary dim / 2] */);
/* Cosines and sines of positions, as many as were asked for yet: contexts of 131072 are rare where
 * they are allowed.  Tables that were handed out stay valid until rope_free. */
Status rope_new(Rope **out);
void rope_free(Rope *r); /* NULL is fine */
Status rope_reserve(Rope *r, const Config *c, int positions);
int rope_positions(const Rope *r);
const real *rope_table(const Rope *r, bool local); /* [positions, rotary dim / 2, 2]; NULL: none */
size_t rope_bytes(const Config *c, int positions); /* that the first rope_reserve takes */
size_t model_panel_bytes(const Model *m, int i);   /* of parameter i; 0: none */
size_t model_transposed_bytes(const Model *m, int i); /* further ones, while it is trained */

/* ---- adapters (lora.c, peft.c) ---- */
/* A and B as adapter_config.json (its text; `where` names it in messages) says: names and shapes,
 * no memory for weights yet. */
Status lora_attach(Model *m, const char *config, size_t len, const char *where);
Status lora_allocate(Model *m); /* weights, not initialised; on failure the adapter is gone */
void lora_drop(Model *m);       /* forget the adapter; its memory stays until the model goes */
void lora_free(Lora *l);        /* and those gone before it; NULL is fine */
int lora_index(const Lora *l, const char *name); /* of a parameter; -1: none */
Status lora_trainable(Lora *l, bool on);
Status lora_pack(Lora *l, const Ctx *cx);
/* The adapter that forward functions see; NULL: none, or switched off. */
const Lora *lora_active(const Model *m);
Status lora_check_merge(const Model *m); /* can it be merged? */
/* Rows row .. row + rows - 1 of w, in the parameter's own layout, += s B A.  Nothing for a
 * parameter without an adapter. */
bool lora_adapts(const Model *m, const Param *p);
Status lora_merge_rows(const Model *m, const Param *p, int row, int rows, real *w);

/* What one forward works on.  Training: `pack` spans.  Decoding: rows continue sequences whose keys
 * and values are in cache segments; span[i].own and .prefix point at layer 0's segment and the next
 * layer's is the next in memory. */
typedef struct Rows {
  int n;
  const int32_t *ids, *pos; /* [n] */
  int npack;
  const PackSpan *pack; /* NULL: decoding */
  int nspans;
  AttnSpan *spans;       /* moved on to the next layer after each */
  const RngKey *dropout; /* as in Pack */
  Replay *replay;        /* as in Pack */
  bool bidirectional;    /* as in Pack */
} Rows;

/* Of a layer that sees everything. */
AttnShape model_attention(const Config *c, Compute compute);
LatentShape model_latent(const Config *c);
/* The residual stream after the last layer, before the final norm: [n, hidden_size]. */
Status forward_layers(Model *m, Tape *t, const Rows *r, Tensor **out);
Status forward_final_norm(Model *m, Tape *t, Tensor *x, Tensor **out);
/* logits [n, vocab_size] of normed hidden states, without gradients: the bits of loghead's */
Status head_logits(Model *m, const Ctx *cx, int n, const real *hidden, real *logits);
/* Bytes of the tape's arena that forward_layers and the final norm take without gradients; keys:
 * the most that a row sees. */
size_t model_forward_bytes(const Config *c, Compute compute, int nrows, int nspans, int keys);

/* What mem_alloc_aligned takes: large blocks are whole huge pages. */
size_t block_bytes(size_t bytes);

#endif

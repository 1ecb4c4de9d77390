#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "kern/elementwise.h"
#include "model/model_struct.h"
#include "model/slices.h"
#include "os/comm.h"

struct Optimizer {
  Model *m;
  OptimizerOptions o;
  uint64_t steps;
  uint64_t count; /* trainable numbers that it was made for */
  Slice own;      /* this rank's */
  char *memory;   /* moments_bytes() of the part of every parameter in it, one after the other */
  MomentMaps *maps;
  double *piece;  /* sums of squares of all pieces, of all ranks; NULL: one rank alone */
  real *exchange; /* [ranks, slice_chunk()] weights on their way; NULL: likewise */
  int largest;    /* 1 + the number of the parameter with the largest gradient; 0: not known yet */
};

/* ---- options ------------------------------------------------------------------------ */

static const Option option_rows[] = {
#define OPTIONS_OF OptimizerOptions
#include "base/option_rows.h"
#include "model/optimizer.def"
};

const OptionSet optimizer_option_set = OPTION_SET("train.optimizer.", option_rows);

static const OptimizerDefault kind_defaults[] = {
#define OPTIMIZER_NUMBER(kind, path, value) {kind, path, value},
#include "model/optimizer.def"
};

int optimizer_default_count(void) { return (int)(sizeof kind_defaults / sizeof *kind_defaults); }
const OptimizerDefault *optimizer_default_at(int i) { return &kind_defaults[i]; }

void optimizer_options_init(OptimizerOptions *o) {
  *o = (OptimizerOptions){0};
  options_init_rows(&optimizer_option_set, o);
  adamw_options_init(&o->adamw);
}

static OptionWord kind_word(OptimizerKind kind) { return option_word(&option_rows[0], (int)kind); }

/* ---- making and stepping ------------------------------------------------------------ */

/* The parts of parameters that are in a slice, one after the other. */
typedef struct Parts {
  Model *m;
  Slice slice;
  int next;
  uint64_t at;         /* of the next parameter */
  size_t first, count; /* of the parameter's numbers */
} Parts;

static Parts parts_of(const Optimizer *o, Slice slice) {
  return (Parts){.m = o->m, .slice = slice};
}

static Param *parts_next(Parts *w) {
  Param *p;
  while ((p = model_next_trainable(w->m, &w->next))) {
    const uint64_t at = w->at;
    w->at += p->t.n;
    if (slice_part(w->slice, at, p->t.n, &w->first, &w->count)) return p;
  }
  return NULL;
}

static OptimizerKind kind_of(const Optimizer *o, const Param *p) {
  return moments_kind(o->o.kind, p->t.n);
}

static size_t state_bytes(const Optimizer *o) {
  size_t bytes = 0;
  const Param *p;
  for (Parts w = parts_of(o, o->own); (p = parts_next(&w));)
    bytes += moments_bytes(kind_of(o, p), w.count);
  return bytes;
}

/* Moments belong to the parameters that the optimizer was made for: an adapter must not come or
 * go. */
static Status check_model(const Optimizer *o) {
  if (!o->m->trainable) return fail(GRPO_EARG, "optimizer: the model is frozen");
  if (model_count_trainable(o->m) == o->count) return GRPO_OK;
  return fail(GRPO_EARG, "optimizer: the model's trainable parameters are not those it was made "
                         "for; make a new engine after adding or merging an adapter");
}

static Status allocate_exchange(Optimizer *o) {
  o->piece = mem_alloc(slice_pieces_before(o->m, o->count) * sizeof *o->piece);
  o->exchange =
      mem_alloc_aligned((size_t)comm_size() * slice_chunk(comm_size()) * sizeof *o->exchange);
  if (o->piece && o->exchange) return GRPO_OK;
  return fail(GRPO_ENOMEM, "optimizer: no memory for what ranks exchange");
}

static Status allocate(Optimizer *o) {
  const size_t bytes = state_bytes(o);
  o->memory = mem_alloc_aligned(bytes ? bytes : 1); /* a rank may have no part */
  if (!o->memory)
    return fail(GRPO_ENOMEM, "optimizer: no memory for %zu MiB of moments", bytes >> 20);
  mem_zero(o->memory, bytes);
  if (comm_size() > 1) try(allocate_exchange(o));
  if (o->o.kind != OPTIMIZER_ADAMW_8BIT) return GRPO_OK;
  o->maps = mem_alloc(sizeof *o->maps);
  if (!o->maps) return fail(GRPO_ENOMEM, "optimizer: no memory for its maps of 8 bits");
  moment8_map_init(&o->maps->with_sign, true);
  moment8_map_init(&o->maps->without_sign, false);
  return GRPO_OK;
}

Status optimizer_new(Optimizer **out, Model *m, const OptimizerOptions *o) {
  Optimizer *p = mem_zalloc(sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "optimizer: no memory for it");
  *p = (Optimizer){.m = m, .o = *o, .count = model_count_trainable(m)};
  p->own = slice_of_rank(m, comm_rank(), comm_size());
  const Status s = allocate(p);
  if (s == GRPO_OK)
    *out = p;
  else
    optimizer_free(p);
  return s;
}

void optimizer_free(Optimizer *o) {
  if (!o) return;
  mem_free_aligned(o->memory);
  mem_free(o->maps);
  mem_free(o->piece);
  mem_free_aligned(o->exchange);
  mem_free(o);
}

/* Squares this rank's pieces, and gets the others'. */
static Status square_pieces(Optimizer *o, const Ctx *cx) {
  size_t at[COMM_RANKS + 1], piece = slice_pieces_before(o->m, o->own.from);
  const Param *p;
  for (Parts w = parts_of(o, o->own); (p = parts_next(&w)); piece += slice_pieces(w.count))
    vec_sumsq_pieces(cx, w.count, p->t.grad + w.first, o->piece + piece);
  for (int r = 0; r < comm_size(); r++)
    at[r] = slice_pieces_before(o->m, slice_of_rank(o->m, r, comm_size()).from) * sizeof *o->piece;
  at[comm_size()] = slice_pieces_before(o->m, o->count) * sizeof *o->piece;
  return comm_share(o->piece, at);
}

/* Every rank adds the pieces of all ranks, in the order in which vec_sumsq() adds. */
Status optimizer_grad_norm(Optimizer *o, const Ctx *cx, double *norm) {
  const double *piece = o->piece;
  const Param *p;
  double sum = 0, most = -1;
  if (piece) try(square_pieces(o, cx));
  for (int i = 0; (p = model_next_trainable(o->m, &i));) {
    double of_param = piece ? 0 : vec_sumsq(cx, p->t.n, p->t.grad);
    for (size_t k = piece ? slice_pieces(p->t.n) : 0; k--;) of_param += *piece++;
    if (of_param > most) most = of_param, o->largest = i;
    sum += of_param;
  }
  *norm = sqrt(sum);
  return GRPO_OK;
}

const char *optimizer_largest_gradient(const Optimizer *o) {
  int i = o->largest - 1;
  const Param *p = o->largest ? model_next_trainable(o->m, &i) : NULL;
  return p ? p->name : NULL;
}

static bool decays(const Optimizer *o, const Param *p) {
  return !(p->is_bias && !o->o.decay_bias) && !(p->is_norm && !o->o.decay_norm);
}

/* The numbers of a slice that are exchanged in this round. */
static Slice chunk_of(const Optimizer *o, int rank, int round) {
  const size_t most = slice_chunk(comm_size());
  Slice s = slice_of_rank(o->m, rank, comm_size());
  s.from += (uint64_t)round * most;
  if (s.from > s.end) s.from = s.end;
  if (s.end > s.from + most) s.end = s.from + most;
  return s;
}

/* Copies the weights of a chunk to `buffer`, or back. */
static void copy_chunk(const Optimizer *o, Slice s, real *buffer, bool back) {
  Param *p;
  for (Parts w = parts_of(o, s); (p = parts_next(&w)); buffer += w.count) {
    real *weights = p->t.data + w.first;
    memcpy(back ? weights : buffer, back ? buffer : weights, w.count * sizeof *weights);
  }
}

static Status share_weights(Optimizer *o) {
  size_t at[COMM_RANKS + 1] = {0};
  const int me = comm_rank();
  for (int round = 0; comm_size() > 1; round++) {
    for (int r = 0; r < comm_size(); r++) {
      const Slice s = chunk_of(o, r, round);
      at[r + 1] = at[r] + (size_t)(s.end - s.from) * sizeof(real);
    }
    if (!at[comm_size()]) break;
    copy_chunk(o, chunk_of(o, me, round), o->exchange + at[me] / sizeof(real), false);
    try(comm_share(o->exchange, at));
    for (int r = 0; r < comm_size(); r++)
      if (r != me) copy_chunk(o, chunk_of(o, r, round), o->exchange + at[r] / sizeof(real), true);
  }
  return GRPO_OK;
}

Status optimizer_step(Optimizer *o, const Ctx *cx, double lr, double max_norm, double norm) {
  try(check_model(o));
  AdamW a = adamw_at(&o->o.adamw, ++o->steps, lr, max_norm, norm);
  char *memory = o->memory;
  Param *p;
  for (Parts w = parts_of(o, o->own); (p = parts_next(&w));) {
    const OptimizerKind kind = kind_of(o, p);
    a.weight_decay = decays(o, p) ? o->o.adamw.weight_decay : 0;
    moments_step(cx, kind, o->maps, w.count, p->t.data + w.first, p->t.grad + w.first, memory, &a);
    memory += moments_bytes(kind, w.count);
  }
  try(share_weights(o));
  model_updated(o->m);
  return GRPO_OK;
}

uint64_t optimizer_steps(const Optimizer *o) { return o->steps; }

/* ---- files ------------------------------------------------------------------------- */

enum { NAME_BYTES = 160 };
static const char kind_key[] = "optimizer";

/* Every array of every parameter, in the order of the file. */
typedef struct Walk {
  const Optimizer *o;
  char *memory; /* of the next part of a parameter */
  int next, at, count;
  uint64_t number;   /* the first of the next parameter */
  size_t first, own; /* the part of the numbers that is this rank's; own: 0 for none */
  const Param *p;    /* whose arrays these are */
  MomentArray whole[MOMENT_ARRAYS], array[MOMENT_ARRAYS]; /* array: of the part, with its memory */
  char name[NAME_BYTES];                                  /* of the array */
} Walk;

/* Returns the next array as the file has it, without data; w->array[w->at - 1] is this rank's
 * part. */
static const MomentArray *walk_next(Walk *w) {
  if (w->at == w->count) {
    w->p = model_next_trainable(w->o->m, &w->next);
    if (!w->p) return NULL;
    const OptimizerKind kind = kind_of(w->o, w->p);
    if (!slice_part(w->o->own, w->number, w->p->t.n, &w->first, &w->own)) w->first = w->own = 0;
    w->count = moments_arrays(kind, w->p->t.n, NULL, w->whole);
    moments_arrays(kind, w->own, w->memory, w->array);
    w->memory += moments_bytes(kind, w->own);
    w->number += w->p->t.n;
    w->at = 0;
  }
  const MomentArray *a = &w->whole[w->at++];
  snprintf(w->name, NAME_BYTES, "%s.%s", w->p->name, a->name);
  return a;
}

static const MomentArray *walk_own(const Walk *w) { return &w->array[w->at - 1]; }

static Walk walk(const Optimizer *o) { return (Walk){.o = o, .memory = o->memory}; }

static size_t count_arrays(const Optimizer *o) {
  size_t n = 0;
  for (Walk w = walk(o); walk_next(&w);) n++;
  return n;
}

static size_t element_bytes(MomentType type) {
  return type == MOMENT_CODE    ? sizeof(uint8_t)
         : type == MOMENT_SCALE ? sizeof(float)
                                : sizeof(real);
}

/* Elements of an array of this type that belong to n numbers. */
static size_t elements_of(MomentType type, size_t n) {
  return type == MOMENT_SCALE ? moment8_blocks(n) : n;
}

static Status put_elements(StWriter *out, MomentType type, const void *data, size_t n) {
  return type == MOMENT_CODE ? st_writer_put_bytes(out, data, n) : st_writer_put(out, data, n);
}

/* Sends rank r's part of the array, `count` numbers, to rank 0, which appends it to `out`.  After a
 * failure (*s) rank 0 writes nothing, but all ranks still take part. */
static Status pass_part(const Walk *w, int r, size_t count, StWriter *out, Status *s) {
  enum { BUFFER = 1 << 16 };
  const MomentArray *own = walk_own(w);
  const size_t each = element_bytes(own->type), bytes = elements_of(own->type, count) * each;
  float buffer[BUFFER / sizeof(float)];
  for (size_t at = 0; at < bytes; at += BUFFER) {
    const size_t n = bytes - at < BUFFER ? bytes - at : BUFFER;
    const void *data = (const char *)own->data + at;
    if (r > 0 && comm_rank() > 0) try(comm_send(0, data, n));
    if (comm_rank() > 0) continue;
    if (r > 0) try(comm_receive(r, buffer, n));
    if (out && *s == GRPO_OK) *s = put_elements(out, own->type, r > 0 ? buffer : data, n / each);
  }
  return GRPO_OK;
}

/* All ranks; s: of rank 0, whose writer is `out`.  Returns that, or EIO. */
static Status put_arrays(const Optimizer *o, StWriter *out, Status s) {
  size_t first, count;
  for (Walk w = walk(o); walk_next(&w);)
    for (int r = 0; r < comm_size(); r++) {
      const bool takes_part = comm_rank() == 0 || comm_rank() == r;
      const uint64_t at = w.number - w.p->t.n;
      if (takes_part &&
          slice_part(slice_of_rank(o->m, r, comm_size()), at, w.p->t.n, &first, &count))
        try(pass_part(&w, r, count, out, &s));
    }
  return s;
}

static int shape_of(const Param *p, const MomentArray *a, int *dim) {
  if (a->type == MOMENT_SCALE) return dim[0] = (int)a->n, 1;
  for (int d = 0; d < p->t.ndim; d++) dim[d] = p->t.dim[d];
  return p->t.ndim;
}

static StType type_of(const MomentArray *a) { return a->type == MOMENT_CODE ? ST_U8 : ST_F32; }

static void describe(const Optimizer *o, StEntry *e, char *names) {
  const MomentArray *a;
  int dim[ST_DIMS];
  for (Walk w = walk(o); (a = walk_next(&w)); e++, names += NAME_BYTES) {
    memcpy(names, w.name, NAME_BYTES);
    *e = (StEntry){.name = names, .type = type_of(a), .ndim = shape_of(w.p, a, dim)};
    for (int d = 0; d < e->ndim; d++) e->dim[d] = (uint64_t)dim[d];
  }
}

static Status open_file(const Optimizer *o, const char *path, StWriter **w) {
  const size_t n = count_arrays(o);
  const OptionWord word = kind_word(o->o.kind);
  char step[32];
  snprintf(step, sizeof step, "%llu", (unsigned long long)o->steps);
  StEntry *e = mem_zalloc(n * sizeof *e);
  char *names = mem_alloc(n * NAME_BYTES);
  Status s = fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  if (e && names) {
    const char *key = o->o.kind == OPTIMIZER_ADAMW ? NULL : kind_key;
    describe(o, e, names);
    s = st_writer_open(w, path, n, e, (const char *const[]){"step", step, key, word.s, NULL});
  }
  mem_free(e);
  mem_free(names);
  return s;
}

Status optimizer_save(const Optimizer *o, const char *path) {
  StWriter *w = NULL;
  try(check_model(o));
  Status s = path && comm_rank() == 0 ? open_file(o, path, &w) : GRPO_OK;
  const bool writes = w != NULL;
  s = put_arrays(o, w, s);
  if (!writes) return s;
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

/* A file without training state is refused by its missing step count. */
static Status check_kind(const Optimizer *o, const Safetensors *f) {
  const char *word = safetensors_metadata(f, kind_key);
  const OptionWord mine = kind_word(o->o.kind), adamw = kind_word(OPTIMIZER_ADAMW);
  if (!word) word = adamw.s;
  if (!strcmp(word, mine.s)) return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: it holds the state of the optimizer %.40s, but train.optimizer.name is %s; "
              "name the former, or start a new run from the checkpoint's weights",
              f->path, word, mine.s);
}

/* It is called without `write` first, so that everything is checked before anything changes. */
static Status read_arrays(Optimizer *o, const Safetensors *f, bool write) {
  const MomentArray *a;
  int dim[ST_DIMS];
  for (Walk w = walk(o); (a = walk_next(&w));) {
    const StTensor *t = NULL;
    const int ndim = shape_of(w.p, a, dim);
    try(safetensors_shaped(f, w.name, type_of(a), ndim, dim, &t));
    const MomentArray *own = walk_own(&w);
    const uint64_t from = a->type == MOMENT_SCALE ? w.first / MOMENT8_BLOCK : w.first;
    const size_t n = elements_of(a->type, w.own);
    if (!write || !n) continue;
    try(a->type == MOMENT_CODE ? st_read_bytes(t, from, n, own->data)
                               : st_read(t, from, n, own->data));
  }
  if (f->count != count_arrays(o))
    return fail(GRPO_EFORMAT, "%s: it has %zu tensors, but this model's optimizer has %zu", f->path,
                f->count, count_arrays(o));
  return GRPO_OK;
}

Status optimizer_load(Optimizer *o, const char *path) {
  Safetensors f;
  uint64_t steps = 0;
  try(check_model(o));
  try(safetensors_open(&f, path));
  Status s = safetensors_steps(&f, &steps);
  if (s == GRPO_OK) s = check_kind(o, &f);
  if (s == GRPO_OK) s = read_arrays(o, &f, false);
  if (s == GRPO_OK) s = read_arrays(o, &f, true);
  if (s == GRPO_OK) o->steps = steps;
  safetensors_close(&f);
  return s;
}

/* ---- memory ------------------------------------------------------------------------ */

/* Stands before the moments of all parameters. */
typedef struct StateHead {
  char magic[8];
  uint64_t kind, steps, bytes; /* of the moments */
  uint32_t names, check;       /* CRC-32C of the parameters' names and sizes, and of the moments */
} StateHead;

static const char state_magic[8] = "grpo-o1";

static uint32_t sum_names(const Optimizer *o) {
  uint32_t crc = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) {
    const uint64_t n = p->t.n;
    crc = crc32c(crc, p->name, strlen(p->name) + 1);
    crc = crc32c(crc, &n, sizeof n);
  }
  return crc;
}

static StateHead state_head(const Optimizer *o) {
  StateHead h = {.kind = (uint64_t)o->o.kind,
                 .steps = o->steps,
                 .bytes = state_bytes(o),
                 .names = sum_names(o)};
  memcpy(h.magic, state_magic, sizeof h.magic);
  h.check = crc32c(0, o->memory, h.bytes);
  return h;
}

size_t optimizer_state_bytes(const Optimizer *o) { return sizeof(StateHead) + state_bytes(o); }

static Status check_alone(const Optimizer *o) {
  try(check_model(o));
  if (comm_size() == 1) return GRPO_OK;
  return fail(GRPO_EARG, "optimizer: a rank has a part of the state alone; save it in files");
}

Status optimizer_get(const Optimizer *o, void *bytes) {
  try(check_alone(o));
  const StateHead h = state_head(o);
  memcpy(bytes, &h, sizeof h);
  memcpy((char *)bytes + sizeof h, o->memory, h.bytes);
  return GRPO_OK;
}

Status optimizer_put(Optimizer *o, const void *bytes, size_t n) {
  StateHead h;
  try(check_alone(o));
  if (n < sizeof h || memcmp(bytes, state_magic, sizeof state_magic) != 0)
    return fail(GRPO_EFORMAT, "optimizer: these %zu bytes are not the state of an optimizer", n);
  memcpy(&h, bytes, sizeof h);
  const char *moments = (const char *)bytes + sizeof h;
  if (h.kind != (uint64_t)o->o.kind || h.names != sum_names(o) || h.bytes != state_bytes(o))
    return fail(GRPO_EFORMAT, "optimizer: the state is of another optimizer or other parameters; "
                              "make the trainer with the options that it had");
  if (n != sizeof h + h.bytes || h.check != crc32c(0, moments, h.bytes))
    return fail(GRPO_EFORMAT, "optimizer: the state is damaged; take another copy of it");
  memcpy(o->memory, moments, h.bytes);
  o->steps = h.steps;
  return GRPO_OK;
}

#include "checkpoint/safetensors_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/mem.h"
#include "checkpoint/bnb.h"
#include "checkpoint/mxfp4.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "os/file.h"

enum { INDEX_MAX = 256 << 20 };

typedef char Name[BNB_NAME_BYTES];

typedef struct Shards {
  Safetensors *file;
  size_t count;
  Name *weight; /* [weights] names of weights in MXFP4, whose tensors have others */
  size_t weights;
} Shards;

/* ---- opening ------------------------------------------------------------------------ */

static Status shards_reserve(Shards *s, size_t n) {
  s->file = mem_zalloc(n * sizeof *s->file);
  return s->file ? GRPO_OK : fail(GRPO_ENOMEM, "no memory for a table of %zu checkpoint files", n);
}

static Status shards_add(Shards *s, const char *dir, const char *name) {
  char path[FILE_PATH_BYTES];
  try(file_join(path, dir, name));
  try(safetensors_open(&s->file[s->count], path));
  s->count++;
  return GRPO_OK;
}

/* Shards must be files of the same directory, because an index is untrusted input. */
static Status check_shard_name(const char *path, const char *name) {
  if (!name || !*name || strchr(name, '/') || strchr(name, '\\') || strstr(name, ".."))
    return fail(GRPO_EFORMAT, "%s: '%.200s' is not the name of a file beside it", path,
                name ? name : "(no string)");
  return GRPO_OK;
}

static Status open_listed(Shards *s, const char *dir, const char *path, const Json *map) {
  const size_t n = json_count(map);
  const char **name = mem_alloc(n * sizeof *name);
  if (!name) return fail(GRPO_ENOMEM, "%s: no memory for the names of files", path);
  Status st = GRPO_OK;
  size_t k = 0;
  for (const Json *j = json_child(map); j && st == GRPO_OK; j = json_next(j)) {
    name[k++] = json_string(j);
    st = check_shard_name(path, json_string(j));
  }
  if (st == GRPO_OK) {
    qsort(name, k, sizeof *name, by_name);
    st = shards_reserve(s, k);
  }
  for (size_t i = 0; i < k && st == GRPO_OK; i++)
    if (i == 0 || strcmp(name[i - 1], name[i]) != 0) st = shards_add(s, dir, name[i]);
  mem_free(name);
  return st;
}

static Status open_index(Shards *s, const char *dir, const char *path) {
  Json *j;
  try(json_read_file(path, INDEX_MAX, &j));
  const Json *map = json_get(j, "weight_map");
  Status st = map && json_type(map) == JSON_OBJECT && json_child(map)
                  ? open_listed(s, dir, path, map)
                  : fail(GRPO_EFORMAT, "%s: weight_map is missing", path);
  json_free(j);
  return st;
}

#define BY_TRANSFORMERS                                                                            \
  "convert it: python3 -c 'from transformers import AutoModelForCausalLM as M; "                   \
  "M.from_pretrained(\"DIR\").save_pretrained(\"OUT\")'"
#define PICKLE "a pickle, which is a program and is not read"

/* Weights in formats that are not read, and the way out. */
static const struct {
  const char *name, *format, *way_out;
} others[] = {
    {"pytorch_model.bin", PICKLE, BY_TRANSFORMERS},
    {"pytorch_model.bin.index.json", "the index of pickles, which are programs and are not read",
     BY_TRANSFORMERS},
    {"pytorch_model-00001-of-00002.bin", PICKLE, BY_TRANSFORMERS},
    {"consolidated.safetensors", "in Mistral's own layout, which is not read",
     "take the files in Hugging Face's layout (model.safetensors)"},
    {"consolidated.00.pth", PICKLE, "take the files in Hugging Face's layout (model.safetensors)"},
    {"tf_model.h5", "TensorFlow's weights, which are not read", BY_TRANSFORMERS},
    {"flax_model.msgpack", "Flax's weights, which are not read", BY_TRANSFORMERS},
    {"model.onnx", "an ONNX graph, which is not read", "take model.safetensors"},
};

/* Names weights that are there under other names: without their index, or as GGUF. */
static Status refuse_names(const char *dir, const char *name, size_t count) {
  for (; count; count--, name += strlen(name) + 1) {
    const size_t n = strlen(name);
    if (strstr(name, "-of-") && n > 12 && strcmp(name + n - 12, ".safetensors") == 0)
      return fail(GRPO_ENOENT,
                  "%s/%s is there, but not model.safetensors.index.json, which says where each "
                  "tensor is; fetch it too",
                  dir, name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0)
      return fail(GRPO_ENOENT, "%s: no model.safetensors is there; name the file %s/%s", dir, dir,
                  name);
  }
  return GRPO_OK;
}

Status safetensors_source_refuse(const char *dir) {
  char path[FILE_PATH_BYTES];
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    try(file_join(path, dir, others[i].name));
    if (file_exists(path))
      return fail(GRPO_EFORMAT, "%s: the weights are %s; %s", path, others[i].format,
                  others[i].way_out);
  }
  Buf names = {0};
  size_t count = 0;
  Status s = file_list(dir, &names, &count);
  if (s == GRPO_OK) s = refuse_names(dir, names.data, count);
  buf_free(&names);
  return s;
}

static Status shards_open(Shards *s, const char *dir) {
  char path[FILE_PATH_BYTES];
  try(file_join(path, dir, "model.safetensors"));
  if (file_exists(path)) {
    try(shards_reserve(s, 1));
    return shards_add(s, dir, "model.safetensors");
  }
  try(file_join(path, dir, "model.safetensors.index.json"));
  if (file_exists(path)) return open_index(s, dir, path);
  try(safetensors_source_refuse(dir));
  return fail(GRPO_ENOENT,
              "%s: neither model.safetensors nor model.safetensors.index.json is there", dir);
}

/* ---- the tensors of all files --------------------------------------------------------- */

static const StTensor *find(const void *arg, const char *name) {
  const Shards *s = arg;
  const StTensor *t = NULL;
  for (size_t i = 0; i < s->count && !t; i++) t = safetensors_find(&s->file[i], name);
  return t;
}

static SourceType type_of(StType t) {
  return t == ST_F32    ? SOURCE_F32
         : t == ST_F16  ? SOURCE_F16
         : t == ST_BF16 ? SOURCE_BF16
                        : SOURCE_OTHER;
}

/* SourceTensor.place: the file in the upper half, the tensor in the lower. */
static const Safetensors *file_of(const Shards *s, const SourceTensor *t) {
  return &s->file[t->place >> 32];
}
static const StTensor *tensor_of(const Shards *s, const SourceTensor *t) {
  return &file_of(s, t)->tensor[t->place & 0xffffffffu];
}

static Status add_mxfp4(Shards *s, const StTensor *blocks, SourceTensor *x) {
  Name scales, *name = &s->weight[s->weights++];
  try(mxfp4_name(blocks->name, "_scales", scales, sizeof scales));
  try(mxfp4_name(blocks->name, "", *name, sizeof *name));
  try(mxfp4_describe(blocks, find(s, scales), x));
  x->name = *name;
  return GRPO_OK;
}

static Status add_tensor(WeightSource *out, Shards *s, size_t file, size_t k) {
  const StTensor *t = &s->file[file].tensor[k];
  const Mxfp4Part part = mxfp4_part(t->name);
  char state[BNB_NAME_BYTES];
  if (bnb_is_part(t->name, find, s) || part == MXFP4_SCALES) return GRPO_OK;
  SourceTensor *x = &out->tensor[out->count++];
  *x = (SourceTensor){.name = t->name,
                      .file = s->file[file].path,
                      .type_name = st_type_name(t->type),
                      .type = type_of(t->type),
                      .ndim = t->ndim,
                      .place = (uint64_t)file << 32 | k};
  memcpy(x->dim, t->dim, sizeof x->dim);
  if (part == MXFP4_BLOCKS) return add_mxfp4(s, t, x);
  if (t->type != ST_U8 ||
      snprintf(state, sizeof state, "%s.absmax", t->name) >= (int)sizeof state || !find(s, state))
    return GRPO_OK;
  return bnb_describe(t, x->file, find, s, x);
}

static Status list_tensors(WeightSource *out, Shards *s) {
  size_t n = 0, mxfp4 = 0;
  for (size_t i = 0; i < s->count; i++) {
    n += s->file[i].count;
    for (size_t k = 0; k < s->file[i].count; k++)
      mxfp4 += mxfp4_part(s->file[i].tensor[k].name) == MXFP4_BLOCKS;
  }
  s->weight = mem_alloc((mxfp4 + 1) * sizeof *s->weight);
  if (!s->weight) return fail(GRPO_ENOMEM, "no memory for the names of %zu weights", mxfp4);
  out->tensor = mem_alloc(n * sizeof *out->tensor);
  if (!out->tensor) return fail(GRPO_ENOMEM, "no memory for a table of %zu tensors", n);
  for (size_t i = 0; i < s->count; i++)
    for (size_t k = 0; k < s->file[i].count; k++) try(add_tensor(out, s, i, k));
  return GRPO_OK;
}

/* ---- reading --------------------------------------------------------------------------- */

static Status read_values(const WeightSource *src, const SourceTensor *t, uint64_t from, uint64_t n,
                          float *out) {
  if (t->type == SOURCE_NF4) return bnb_read(&t->nf4, from, n, out);
  if (t->type == SOURCE_MXFP4) return mxfp4_read(t, from, n, out);
  return st_read(tensor_of(src->impl, t), from, n, out);
}

static void close_shards(WeightSource *src) {
  Shards *s = src->impl;
  for (size_t i = 0; i < s->count; i++) safetensors_close(&s->file[i]);
  mem_free(s->file);
  mem_free(s->weight);
  mem_free(s);
}

Status safetensors_source_open(WeightSource *out, const char *dir) {
  Shards *s = mem_zalloc(sizeof *s);
  *out = (WeightSource){0};
  if (!s) return fail(GRPO_ENOMEM, "%s: no memory to open it", dir);
  *out = (WeightSource){.impl = s, .read = read_values, .close = close_shards};
  Status st = shards_open(s, dir);
  if (st == GRPO_OK) st = list_tensors(out, s);
  if (st != GRPO_OK) source_close(out);
  return st;
}

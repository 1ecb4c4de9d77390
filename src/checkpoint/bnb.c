#include "checkpoint/bnb.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define STATE ".quant_state.bitsandbytes__"

enum { STATE_BYTES = 224 }; /* more than any shape and offset need */
enum { STATE_READ = 1 << 14 };

/* ---- config.json ------------------------------------------------------------------- */

void bnb_put_config(Buf *b, const char *plain) {
  buf_puts(b, "{\n    \"_load_in_4bit\": true,\n    \"_load_in_8bit\": false,\n"
              "    \"bnb_4bit_compute_dtype\": \"bfloat16\",\n"
              "    \"bnb_4bit_quant_storage\": \"uint8\",\n"
              "    \"bnb_4bit_quant_type\": \"nf4\",\n"
              "    \"bnb_4bit_use_double_quant\": true,\n"
              "    \"llm_int8_enable_fp32_cpu_offload\": false,\n"
              "    \"llm_int8_has_fp16_weight\": false,\n"
              "    \"llm_int8_skip_modules\": ");
  buf_printf(b, "%s,\n", plain);
  buf_puts(b, "    \"llm_int8_threshold\": 6.0,\n"
              "    \"load_in_4bit\": true,\n    \"load_in_8bit\": false,\n"
              "    \"quant_method\": \"bitsandbytes\"\n  }");
}

/* ---- recognising -------------------------------------------------------------------- */

bool bnb_is_part(const char *name, BnbFind find, const void *arg) {
  static const char *const end[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
  char weight[BNB_NAME_BYTES];
  size_t n = strlen(name);
  const char *state = strstr(name, STATE);
  if (state) n = (size_t)(state - name);
  for (size_t i = 0; !state && i < sizeof end / sizeof *end; i++) {
    const size_t k = strlen(end[i]);
    if (n > k && strcmp(name + n - k, end[i]) == 0) {
      n -= k;
      state = name + n;
    }
  }
  if (!state || n >= sizeof weight) return false;
  memcpy(weight, name, n);
  weight[n] = 0;
  const StTensor *t = find(arg, weight);
  return t && t->type == ST_U8;
}

/* Finds a part of the weight and checks its type and number of values. */
static Status part(const StTensor *weight, const char *file, BnbFind find, const void *arg,
                   const char *end, StType type, uint64_t n, const StTensor **out) {
  char name[BNB_NAME_BYTES];
  if (snprintf(name, sizeof name, "%s%s", weight->name, end) >= (int)sizeof name)
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s': the name is too long", file, weight->name);
  const StTensor *t = find(arg, name);
  if (!t) return fail(GRPO_EFORMAT, "%s: tensor '%s' is missing", file, name);
  if (t->type != type || t->n != n)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' is %s of %llu values, want %s of %llu", file, name,
                st_type_name(t->type), (unsigned long long)t->n, st_type_name(type),
                (unsigned long long)n);
  *out = t;
  return GRPO_OK;
}

enum { TABLE_MAX = 256 };
static Status check_table(const StTensor *weight, const char *file, const StTensor *table,
                          const float *want, int n) {
  float v[TABLE_MAX];
  try(st_read(table, 0, (uint64_t)n, v));
  for (int i = 0; i < n; i++) {
    if (!(fabsf(v[i] - want[i]) <= 1e-5f * fabsf(want[i]) + 1e-9f))
      return fail(GRPO_EFORMAT, "%s: tensor '%s' is coded with another table than NF4's", file,
                  weight->name);
  }
  return GRPO_OK;
}

static Status wrong_state(const StTensor *weight, const char *file, const char *what) {
  return fail(GRPO_EFORMAT, "%s: tensor '%s': the state of its quantisation has %s", file,
              weight->name, what);
}

/* Reads the fields of the JSON text; *nested: scales are quantised too. */
static Status read_state(const Json *j, const StTensor *weight, const char *file, SourceTensor *out,
                         bool *nested) {
  const char *type = json_string(json_get(j, "quant_type"));
  const Json *shape = json_get(j, "shape"), *offset = json_get(j, "nested_offset");
  int64_t n, k, block, nest;
  if (!type || strcmp(type, "nf4") != 0)
    return fail(GRPO_EFORMAT,
                "%s: tensor '%s' is coded in '%.20s'; of bitsandbytes' types only nf4 is "
                "supported",
                file, weight->name, type ? type : "?");
  if (!json_integer(json_get(j, "blocksize"), &block) || block != NF4_BLOCK)
    return wrong_state(weight, file, "a blocksize other than 64");
  if (json_count(shape) != 2 || !json_integer(json_child(shape), &n) ||
      !json_integer(json_next(json_child(shape)), &k) || n < 1 || k < 1 || n > INT32_MAX ||
      k > INT32_MAX)
    return wrong_state(weight, file, "no shape of two sizes");
  *nested = offset != NULL;
  if (*nested && (!json_integer(json_get(j, "nested_blocksize"), &nest) || nest != NF4_NEST))
    return wrong_state(weight, file, "a nested_blocksize other than 256");
  if (*nested && !isfinite(json_number(offset)))
    return wrong_state(weight, file, "no nested_offset");
  out->ndim = 2;
  out->dim[0] = (uint64_t)n;
  out->dim[1] = (uint64_t)k;
  out->nf4.offset = *nested ? (float)json_number(offset) : 0;
  return GRPO_OK;
}

static Status parse_state(const StTensor *weight, const char *file, BnbFind find, const void *arg,
                          SourceTensor *out, bool *nested) {
  static const char *const other[] = {"fp4", "af4"};
  char name[BNB_NAME_BYTES];
  Json *j;
  snprintf(name, sizeof name, "%.120s%snf4", weight->name, STATE);
  const StTensor *t = find(arg, name);
  for (size_t i = 0; !t && i < sizeof other / sizeof *other; i++) {
    snprintf(name, sizeof name, "%.120s%s%s", weight->name, STATE, other[i]);
    if (find(arg, name))
      return fail(GRPO_EFORMAT,
                  "%s: tensor '%s' is coded in '%s'; of bitsandbytes' types only nf4 is supported",
                  file, weight->name, other[i]);
  }
  if (!t || t->type != ST_U8)
    return fail(GRPO_EFORMAT, "%s: tensor '%s': the state of its quantisation is missing", file,
                weight->name);
  char text[STATE_READ];
  if (t->n > sizeof text)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' is not a JSON text", file, name);
  try(st_read_bytes(t, 0, t->n, text));
  if (json_parse(text, (size_t)t->n, name, &j) != GRPO_OK)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' is not a JSON text", file, name);
  const Status s = read_state(j, weight, file, out, nested);
  json_free(j);
  return s;
}

static uint64_t blocks_of(uint64_t n) { return (n + NF4_BLOCK - 1) / NF4_BLOCK; }
static uint64_t nests_of(uint64_t n) { return (blocks_of(n) + NF4_NEST - 1) / NF4_NEST; }

Status bnb_describe(const StTensor *weight, const char *file, BnbFind find, const void *arg,
                    SourceTensor *out) {
  const StTensor *table = NULL;
  SourceNf4 *w = &out->nf4;
  bool nested = false;
  try(parse_state(weight, file, find, arg, out, &nested));
  const uint64_t n = out->dim[0] * out->dim[1];
  if (weight->n != (n + 1) / 2)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has %llu bytes, but its shape is [%llu, %llu]", file,
                weight->name, (unsigned long long)weight->n, (unsigned long long)out->dim[0],
                (unsigned long long)out->dim[1]);
  try(part(weight, file, find, arg, ".quant_map", ST_F32, 16, &table));
  try(check_table(weight, file, table, nf4_code, 16));
  if (nested) {
    try(part(weight, file, find, arg, ".nested_quant_map", ST_F32, 256, &table));
    try(check_table(weight, file, table, nf4_absmax_map, 256));
    try(part(weight, file, find, arg, ".nested_absmax", ST_F32, nests_of(n), &w->scale));
    try(part(weight, file, find, arg, ".absmax", ST_U8, blocks_of(n), &w->absmax));
  } else {
    try(part(weight, file, find, arg, ".absmax", ST_F32, blocks_of(n), &w->plain));
  }
  w->packed = weight;
  out->type = SOURCE_NF4;
  out->type_name = "NF4";
  out->out_in = true;
  return GRPO_OK;
}

/* ---- values --------------------------------------------------------------------------- */

/* Values that are read at once, and the blocks and nests that they can touch. */
enum { PIECE = 4096, PIECE_BLOCKS = PIECE / NF4_BLOCK + 1, PIECE_NESTS = 2 };

/* out becomes the largest magnitudes of blocks first .. first + n - 1. */
static Status read_absmax(const SourceNf4 *w, uint64_t first, uint64_t n, float *out) {
  uint8_t code[PIECE_BLOCKS];
  float scale[PIECE_NESTS];
  if (w->plain) return st_read(w->plain, first, n, out);
  const uint64_t nest = first / NF4_NEST;
  try(st_read_bytes(w->absmax, first, n, code));
  try(st_read(w->scale, nest, (first + n - 1) / NF4_NEST - nest + 1, scale));
  for (uint64_t i = 0; i < n; i++)
    out[i] = nf4_absmax_map[code[i]] * scale[(first + i) / NF4_NEST - nest] + w->offset;
  return GRPO_OK;
}

static Status read_piece(const SourceNf4 *w, uint64_t from, uint64_t n, float *out) {
  uint8_t packed[PIECE / 2 + 1];
  float absmax[PIECE_BLOCKS];
  const uint64_t byte = from / 2, block = from / NF4_BLOCK, last = from + n - 1;
  try(st_read_bytes(w->packed, byte, last / 2 - byte + 1, packed));
  try(read_absmax(w, block, last / NF4_BLOCK - block + 1, absmax));
  for (uint64_t i = from; i <= last; i++) {
    const int both = packed[i / 2 - byte];
    *out++ = nf4_code[i % 2 ? both & 15 : both >> 4] * absmax[i / NF4_BLOCK - block];
  }
  return GRPO_OK;
}

Status bnb_read(const SourceNf4 *w, uint64_t from, uint64_t n, float *out) {
  while (n) {
    const uint64_t k = n < PIECE ? n : PIECE;
    try(read_piece(w, from, k, out));
    from += k;
    out += k;
    n -= k;
  }
  return GRPO_OK;
}

/* The parts of a weight as they are in the file. */
typedef struct Parts {
  uint8_t *packed, *absmax; /* absmax: codes, NULL without double quantisation */
  float *scale;             /* of the codes, or of the blocks */
} Parts;

static Status read_parts(const SourceNf4 *w, uint64_t n, Parts *p) {
  const StTensor *scale = w->plain ? w->plain : w->scale;
  p->packed = mem_alloc((size_t)(n + 1) / 2);
  p->scale = mem_alloc((size_t)scale->n * sizeof *p->scale);
  if (!w->plain) p->absmax = mem_alloc((size_t)blocks_of(n));
  if (!p->packed || !p->scale || (!w->plain && !p->absmax))
    return fail(GRPO_ENOMEM, "no memory for the codes of %llu values", (unsigned long long)n);
  try(st_read_bytes(w->packed, 0, (n + 1) / 2, p->packed));
  try(st_read(scale, 0, scale->n, p->scale));
  return w->plain ? GRPO_OK : st_read_bytes(w->absmax, 0, blocks_of(n), p->absmax);
}

Status bnb_import(QuantWeight *m, const SourceNf4 *w) {
  Parts p = {0};
  const Status s = read_parts(w, (uint64_t)m->n * (uint64_t)m->k, &p);
  if (s == GRPO_OK && w->plain)
    quant_nf4_import_plain(m, p.packed, p.scale);
  else if (s == GRPO_OK)
    quant_nf4_import(m, p.packed, p.absmax, p.scale, w->offset);
  mem_free(p.packed);
  mem_free(p.absmax);
  mem_free(p.scale);
  return s;
}

/* ---- writing ---------------------------------------------------------------------------- */

/* Python's json.dumps of bitsandbytes' own state; spaces make its length the same for any offset,
 * so that headers can be written before a weight is quantised. */
static void put_state(Buf *b, const QuantWeight *m) {
  buf_printf(b,
             "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"bfloat16\", "
             "\"shape\": [%d, %d], \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", "
             "\"nested_offset\": ",
             NF4_BLOCK, m->n, m->k, NF4_NEST);
  json_put_number(b, (double)m->offset);
  buf_putc(b, '}');
  while (b->len < STATE_BYTES && !b->oom) buf_putc(b, ' ');
}

void bnb_parts(const char *weight, int rows, int columns, BnbParts *out) {
  static const char *const end[BNB_PARTS] = {
      "", ".absmax", ".nested_absmax", ".nested_quant_map", ".quant_map", STATE "nf4"};
  static const StType type[BNB_PARTS] = {ST_U8, ST_U8, ST_F32, ST_F32, ST_F32, ST_U8};
  const uint64_t n = (uint64_t)rows * (uint64_t)columns;
  const uint64_t size[BNB_PARTS] = {(n + 1) / 2, blocks_of(n), nests_of(n), 256, 16, STATE_BYTES};
  *out = (BnbParts){0};
  for (int i = 0; i < BNB_PARTS; i++) {
    snprintf(out->name[i], BNB_NAME_BYTES, "%.110s%s", weight, end[i]);
    out->entry[i] = (StEntry){
        .name = out->name[i], .type = type[i], .ndim = i ? 1 : 2, .dim = {size[i], i ? 0 : 1}};
  }
}

uint64_t bnb_bytes(int rows, int columns) {
  const uint64_t n = (uint64_t)rows * (uint64_t)columns;
  return (n + 1) / 2 + blocks_of(n) + 4 * nests_of(n) + 4 * (256 + 16) + STATE_BYTES;
}

/* Writes all parts except the codes. */
static Status put_scales(StWriter *w, const QuantWeight *m) {
  const uint64_t n = (uint64_t)m->n * (uint64_t)m->k;
  Buf state = {0};
  try(st_writer_put_bytes(w, m->absmax, blocks_of(n)));
  try(st_writer_put(w, m->scale, nests_of(n)));
  try(st_writer_put(w, nf4_absmax_map, 256));
  try(st_writer_put(w, nf4_code, 16));
  put_state(&state, m);
  Status s = buf_status(&state);
  if (s == GRPO_OK) s = st_writer_put_bytes(w, state.data, state.len);
  buf_free(&state);
  return s;
}

/* Quantises the scales in a copy of the weight, and writes those. */
static Status put_doubled(StWriter *w, const QuantWeight *m, const uint8_t *packed) {
  QuantWeight *q = NULL;
  try(quant_new(&q, QUANT_NF4, m->n, m->k));
  quant_nf4_import_plain(q, packed, m->plain_absmax);
  Status s = quant_done(&(Ctx){0}, q);
  if (s == GRPO_OK) s = put_scales(w, q);
  quant_free(q);
  return s;
}

Status bnb_put(StWriter *w, const QuantWeight *m) {
  const uint64_t n = (uint64_t)m->n * (uint64_t)m->k;
  uint8_t *packed = mem_alloc_aligned((size_t)(n + 1) / 2);
  if (!packed) return fail(GRPO_ENOMEM, "no memory for the codes of a %d x %d weight", m->n, m->k);
  quant_nf4_export(m, packed);
  Status s = st_writer_put_bytes(w, packed, (n + 1) / 2);
  if (s == GRPO_OK) s = m->plain_absmax ? put_doubled(w, m, packed) : put_scales(w, m);
  mem_free_aligned(packed);
  return s;
}

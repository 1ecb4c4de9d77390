/* NF4 as bitsandbytes has it: tables, codes, scales, layout. */
#include "kern_test.h"

#include "base/buf.h"
#include "base/half.h"
#include "formats/json.h"
#include "kern/quant.h"
#include "os/file.h"

/* ---- the map of scales from its definition ------------------------------------------- */

/* torch.linspace(0.1, 1, n) in float.  A value is computed from the nearer end.  Whole runs of 16
 * are computed by eights: a start, which is a fused multiply-add, and steps added to it. */
static void linspace(int n, float *out) {
  const float a = 0.1f, b = 1, step = (b - a) / (float)(n - 1);
  for (int i = 0; i < n; i++) {
    const int at = i < n / 16 * 16 ? i / 8 * 8 : i; /* where this run starts */
    const float from = at < n / 2 ? fmaf(step, (float)at, a) : fmaf(-step, (float)(n - 1 - at), b);
    volatile float more = step * (float)(i - at); /* rounded by itself */
    out[i] = from + more;
  }
}

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

TEST(the_map_of_scales_follows_from_its_definition) {
  float map[256] = {0, 1}, part[65];
  int at = 2;
  for (int i = 0; i < 7; i++) {
    const float decade = (float)pow(10, i - 6);
    linspace((1 << i) + 1, part);
    for (int j = 0; j < 1 << i; j++, at += 2) {
      map[at] = decade * ((part[j] + part[j + 1]) / 2);
      map[at + 1] = -map[at];
    }
  }
  CHECK(at == 256);
  qsort(map, 256, sizeof *map, ascending);
  CHECK(same_bits(map, nf4_absmax_map, 256));
}

/* Quantiles of the normal distribution, scaled to -1 .. 1: 8 steps above zero, 7 below. */
static double quantile(double p) {
  double x = 0;
  for (int i = 0; i < 60; i++) /* Newton on the distribution function */
    x -= (0.5 * erfc(-x / sqrt(2)) - p) * sqrt(6.283185307179586) * exp(x * x / 2);
  return x;
}

TEST(the_codes_are_quantiles_of_the_normal_distribution) {
  const double end = 0.9677083, top = quantile(end);
  for (int i = 0; i < 8; i++)
    CHECK_NEAR(nf4_code[15 - i], quantile(end + (0.5 - end) * i / 8) / top, 3e-7);
  for (int i = 0; i < 8; i++)
    CHECK_NEAR(nf4_code[i], -quantile(end + (0.5 - end) * i / 7) / top, 3e-7);
}

/* ---- a small case by hand --------------------------------------------------------------- */

static QuantWeight *filled(int n, int k, const float *w) {
  Ctx cx = {.arena = &arena};
  QuantWeight *m = NULL;
  CHECK(!quant_new(&m, QUANT_NF4, n, k));
  CHECK(!quant_put(&cx, m, 0, n, w));
  CHECK(!quant_done(&cx, m));
  return m;
}

/* Two blocks, absmax 4 and 2.  Their mean is 3.  The difference 1 has the code of 1.0, and -1 that
 * of the map's lowest entry, because the map has no -1. */
TEST(a_block_is_codes_times_its_largest_value) {
  Ctx cx = {.arena = &arena};
  float w[128], got[128];
  uint8_t packed[64];
  for (int i = 0; i < 128; i++) w[i] = nf4_code[i % 16] * (i < 64 ? 4 : 2);
  w[3] = (nf4_code[4] + nf4_code[5]) / 2 * 4; /* a tie goes down */
  QuantWeight *m = filled(2, 64, w);
  CHECK(m->offset == 3 && m->scale[0] == 1 && m->absmax[0] == 255 && m->absmax[1] == 0);
  quant_nf4_export(m, packed);
  CHECK(packed[0] == 0x01 && packed[1] == 0x24 && packed[2] == 0x45 && packed[63] == 0xef);
  quant_get(&cx, m, 0, 2, got);
  for (int i = 0; i < 128; i++) {
    const int code = i == 3 ? 4 : i % 16;
    CHECK(got[i] == nf4_code[code] * (i < 64 ? 4 : -0.992968738f + 3));
  }
  quant_free(m);
}

TEST(a_weight_of_zeros_stays_zeros) {
  Ctx cx = {.arena = &arena};
  float w[70] = {0}, got[70];
  QuantWeight *m = filled(2, 35, w);
  quant_get(&cx, m, 0, 2, got);
  for (int i = 0; i < 70; i++) CHECK(got[i] == 0);
  quant_free(m);
}

TEST(the_layout_goes_out_and_comes_back) {
  static const int sizes[][2] = {{64, 96}, {7, 33}, {100, 64}, {1, 1}, {300, 70}};
  Ctx cx = {.arena = &arena};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const int n = sizes[s][0], k = sizes[s][1];
    const size_t all = (size_t)(n * k), bytes = (all + 1) / 2;
    float *w = randoms(all), *a = floats(all), *b = floats(all);
    uint8_t *packed = malloc(bytes), *again = malloc(bytes);
    QuantWeight *m = filled(n, k, w), *copy = NULL;
    quant_nf4_export(m, packed);
    CHECK(!quant_new(&copy, QUANT_NF4, n, k));
    quant_nf4_import(copy, packed, m->absmax, m->scale, m->offset);
    quant_nf4_export(copy, again);
    CHECK(memcmp(packed, again, bytes) == 0);
    CHECK(all % 2 == 0 || (packed[bytes - 1] & 15) == 7); /* beside the last: a zero */
    quant_get(&cx, m, 0, n, a), quant_get(&cx, copy, 0, n, b);
    CHECK(same_bits(a, b, all));
    free(w), free(a), free(b), free(packed), free(again), quant_free(m), quant_free(copy);
  }
}

/* ---- bitsandbytes' own numbers ------------------------------------------------------------- */

typedef struct Oracle {
  Buf file;
  Json *header;
  const char *data;
} Oracle;

static bool oracle_open(Oracle *o) {
  uint64_t n;
  *o = (Oracle){0};
  if (!test_shared()) return test_skip("no oracles here"), false;
  CHECK(!file_read(test_path("%s/oracles/nf4/nf4.safetensors", test_shared()), 0, &o->file));
  memcpy(&n, o->file.data, sizeof n);
  CHECK(!json_parse(o->file.data + 8, n, "nf4.safetensors", &o->header));
  o->data = o->file.data + 8 + n;
  return true;
}

static const Json *entry(const Oracle *o, const char *name, const char *part) {
  return json_get(o->header, *part ? test_path("%s/%s", name, part) : name);
}

static const void *bytes_of(const Oracle *o, const char *name, const char *part, size_t *n) {
  const Json *at = json_child(json_get(entry(o, name, part), "data_offsets"));
  CHECK(at != NULL);
  if (n) *n = (size_t)(json_number(json_next(at)) - json_number(at));
  return o->data + (size_t)json_number(at);
}

static int dim(const Oracle *o, const char *name, int i) {
  const Json *d = json_child(json_get(entry(o, name, "input"), "shape"));
  return (int)json_number(i ? json_next(d) : d);
}

static char type_of(const Oracle *o, const char *name) { /* F32, F16 or BF16 */
  const char *t = json_string(json_get(entry(o, name, "input"), "dtype"));
  return strcmp(t, "F32") == 0 ? '4' : *t;
}

static float *floats_of(const Oracle *o, const char *name, const char *part) {
  size_t n;
  const void *from = bytes_of(o, name, part, &n);
  const uint16_t *h = from;
  const char type =
      strcmp(part, "input") != 0 && strncmp(part, "dequantised", 11) != 0 ? '4' : type_of(o, name);
  float *x = floats(n);
  if (type == '4') return memcpy(x, from, n);
  for (size_t i = 0; i < n / 2; i++) x[i] = type == 'F' ? f16_to_f32(h[i]) : bf16_to_f32(h[i]);
  return x;
}

/* The value as the oracle's tensor type holds it. */
static float rounded(char type, float x) {
  return type == '4' ? x : type == 'F' ? f16_to_f32(f32_to_f16(x)) : bf16_to_f32(f32_to_bf16(x));
}

TEST(the_tables_are_those_of_bitsandbytes) {
  Oracle o;
  if (!oracle_open(&o)) return;
  CHECK(same_bits(bytes_of(&o, "nf4_code", "", NULL), nf4_code, 16));
  CHECK(same_bits(bytes_of(&o, "dynamic_map_signed", "", NULL), nf4_absmax_map, 256));
  json_free(o.header), buf_free(&o.file);
}

static void check_case(const Oracle *o, const char *name) {
  Ctx cx = {.arena = &arena};
  const int n = dim(o, name, 0), k = dim(o, name, 1);
  const size_t all = (size_t)(n * k), blocks = quant_nf4_blocks(n, k);
  const uint8_t *packed = bytes_of(o, name, "packed", NULL);
  const uint8_t *absmax = bytes_of(o, name, "absmax_q", NULL);
  float *w = floats_of(o, name, "input"), *want = floats_of(o, name, "dequantised");
  float *scale = floats_of(o, name, "absmax_absmax");
  float *offset = floats_of(o, name, "absmax_offset"), *got = floats(all);
  uint8_t *codes = malloc((all + 1) / 2);
  QuantWeight *m = filled(n, k, w), *theirs = NULL;
  quant_nf4_export(m, codes);
  CHECK(memcmp(codes, packed, (all + 1) / 2) == 0);
  CHECK_NEAR(m->offset, *offset, fabs((double)*offset) * 1.2e-7);
  for (size_t i = 0; i < blocks; i++)
    CHECK(abs(m->absmax[i] - absmax[i]) <= (m->offset == *offset ? 0 : 1));
  for (size_t i = 0; i < (blocks + NF4_NEST - 1) / NF4_NEST; i++)
    CHECK_NEAR(m->scale[i], scale[i], fabs((double)*offset) * 1.2e-7);
  CHECK(!quant_new(&theirs, QUANT_NF4, n, k));
  quant_nf4_import(theirs, packed, absmax, scale, *offset);
  quant_get(&cx, theirs, 0, n, got);
  for (size_t i = 0; i < all; i++) CHECK(rounded(type_of(o, name), got[i]) == want[i]);
  quant_free(m), quant_free(theirs);
  free(w), free(want), free(scale), free(offset), free(got), free(codes);
}

TEST(codes_scales_and_values_are_those_of_bitsandbytes) {
  Oracle o;
  if (!oracle_open(&o)) return;
  for (const char *name = "a\0b\0c\0d\0e\0f\0"; *name; name += 2) check_case(&o, name);
  json_free(o.header), buf_free(&o.file);
}

/* bitsandbytes' 4-bit layout: against the oracle's bytes, without double quantisation, and refused
 * when it lies. */
#include <math.h>
#include <unistd.h>

#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/bnb.h"
#include "model/modeltest.h"

/* ---- a weight and its parts, as a checkpoint would hold them ---- */

enum { N = 6, K = 200, VALUES = N * K, BLOCKS = (VALUES + 63) / 64, PARTS = 6 };

typedef struct Packed {
  uint8_t packed[VALUES / 2], absmax[BLOCKS];
  float plain[BLOCKS], scale[1], code[16], map[256];
  char state[512];
  StTensor tensor[PARTS];
  int count;
} Packed;

static const StTensor *find(const void *arg, const char *name) {
  const Packed *p = arg;
  for (int i = 0; i < p->count; i++)
    if (p->tensor[i].name && strcmp(p->tensor[i].name, name) == 0) return &p->tensor[i];
  return NULL;
}

/* The bytes of *p become a file when they are described; data points into *p. */
static StTensor tensor(const Packed *p, const char *name, StType type, uint64_t n,
                       const void *data) {
  const uint64_t at = (uint64_t)((const char *)data - (const char *)p);
  return (StTensor){.name = name, .type = type, .ndim = 1, .dim = {n}, .n = n, .at = at};
}

static const char *const nested_state =
    "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [6, 200], "
    "\"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": 0.03125}";
static const char *const plain_state = "{\"quant_type\": \"nf4\", \"blocksize\": 64, "
                                       "\"dtype\": \"float16\", \"shape\": [6, 200]}";

static void make(Packed *p, bool nested) {
  memset(p, 0, sizeof *p);
  for (int i = 0; i < VALUES / 2; i++) p->packed[i] = (uint8_t)(i * 37 + 11);
  for (int i = 0; i < BLOCKS; i++) {
    p->absmax[i] = (uint8_t)(i * 13 + 5);
    p->plain[i] = 0.01f * (float)(i + 1);
  }
  p->scale[0] = 0.02f;
  memcpy(p->code, nf4_code, sizeof p->code);
  memcpy(p->map, nf4_absmax_map, sizeof p->map);
  snprintf(p->state, sizeof p->state, "%s", nested ? nested_state : plain_state);
  p->tensor[0] = tensor(p, "x.weight", ST_U8, VALUES / 2, p->packed);
  p->tensor[1] = nested ? tensor(p, "x.weight.absmax", ST_U8, BLOCKS, p->absmax)
                        : tensor(p, "x.weight.absmax", ST_F32, BLOCKS, p->plain);
  p->tensor[2] = tensor(p, "x.weight.quant_map", ST_F32, 16, p->code);
  p->tensor[3] =
      tensor(p, "x.weight.quant_state.bitsandbytes__nf4", ST_U8, strlen(p->state), p->state);
  p->tensor[4] = tensor(p, "x.weight.nested_absmax", ST_F32, 1, p->scale);
  p->tensor[5] = tensor(p, "x.weight.nested_quant_map", ST_F32, 256, p->map);
  p->count = nested ? 6 : 4;
}

static Status describe(Packed *p, SourceTensor *out) {
  static FileInput *file;
  const char *path = test_path("%s/parts", test_tmp());
  file_input_close(file);
  OK(file_replace(path, p, sizeof *p));
  OK(file_input_open(&file, path));
  for (int i = 0; i < p->count; i++) p->tensor[i].file = file;
  *out = (SourceTensor){.name = "x.weight", .type = SOURCE_OTHER};
  return bnb_describe(&p->tensor[0], "file", find, p, out);
}

static float value_of(const Packed *p, bool nested, int i) {
  const int byte = p->packed[i / 2];
  const float absmax =
      nested ? nf4_absmax_map[p->absmax[i / 64]] * p->scale[0] + 0.03125f : p->plain[i / 64];
  return nf4_code[i % 2 ? byte & 15 : byte >> 4] * absmax;
}

/* The codes stay, and scales are those of bitsandbytes' map of 8 bits, whose steps are below a
 * fiftieth of the largest scale of a nest. */
TEST(scales_that_are_not_quantised_are_when_they_are_written) {
  static Packed p;
  SourceTensor t;
  QuantWeight *m;
  StWriter *w;
  BnbParts parts;
  Safetensors back;
  float values[VALUES];
  make(&p, false);
  REQUIRE(quant_new(&m, QUANT_NF4, N, K));
  quant_nf4_import_plain(m, p.packed, p.plain);
  bnb_parts("x.weight", N, K, &parts);
  REQUIRE(st_writer_open(&w, test_path("%s/put", test_tmp()), BNB_PARTS, parts.entry, NULL));
  OK(bnb_put(w, m));
  OK(st_writer_commit(w));
  quant_free(m);
  REQUIRE(safetensors_open(&back, test_path("%s/put", test_tmp())));
  for (int i = 0; i < (int)back.count && i < PARTS; i++) p.tensor[i] = back.tensor[i];
  p.count = (int)back.count;
  const StTensor *weight = find(&p, "x.weight");
  t = (SourceTensor){.name = "x.weight", .type = SOURCE_OTHER};
  REQUIRE(bnb_describe(weight, "put", find, &p, &t));
  OK(bnb_read(&t.nf4, 0, VALUES, values));
  for (int i = 0; i < VALUES; i++) {
    const float code = nf4_code[i % 2 ? p.packed[i / 2] & 15 : p.packed[i / 2] >> 4];
    CHECK(fabsf(values[i] - value_of(&p, false, i)) <= fabsf(code) * p.plain[BLOCKS - 1] / 50);
  }
  safetensors_close(&back);
}

TEST(packed_weights_are_read_with_and_without_double_quantisation) {
  for (int nested = 0; nested < 2; nested++) {
    static Packed p;
    SourceTensor t;
    QuantWeight *m;
    real out[VALUES];
    float some[100];
    make(&p, nested);
    REQUIRE(describe(&p, &t));
    CHECK(t.type == SOURCE_NF4 && t.ndim == 2 && t.dim[0] == N && t.dim[1] == K && t.out_in);
    for (int i = 0; i < p.count; i++) CHECK(bnb_is_part(p.tensor[i].name, find, &p) == (i > 0));
    CHECK(!bnb_is_part("y.absmax", find, &p));
    OK(bnb_read(&t.nf4, 333, 100, some));
    for (int i = 0; i < 100; i++) CHECK(some[i] == value_of(&p, nested, 333 + i));
    REQUIRE(quant_new(&m, QUANT_NF4, N, K));
    OK(bnb_import(m, &t.nf4));
    quant_get(&(Ctx){0}, m, 0, N, out);
    for (int i = 0; i < VALUES; i++) CHECK(out[i] == value_of(&p, nested, i));
    uint8_t packed[VALUES / 2];
    quant_nf4_export(m, packed);
    CHECK(!memcmp(packed, p.packed, sizeof packed));
    quant_free(m);
    REQUIRE(quant_new(&m, QUANT_NF4, N, K));
    CHECK(truncate(test_path("%s/parts", test_tmp()), VALUES / 4) == 0);
    REFUSED(bnb_read(&t.nf4, VALUES - 100, 100, some), GRPO_EFORMAT, "was cut");
    REFUSED(bnb_import(m, &t.nf4), GRPO_EFORMAT, "was cut");
    quant_free(m);
  }
}

TEST(packed_weights_that_lie_are_refused) {
  static const struct {
    const char *state, *words;
  } states[] = {
      {"{", "not a JSON text"},
      {"{\"quant_type\": \"fp4\", \"blocksize\": 64, \"shape\": [6, 200]}", "only nf4"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 128, \"shape\": [6, 200]}", "blocksize other"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [1200]}", "no shape"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [-6, 200]}", "no shape"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [4294967296, 4294967296]}",
       "no shape"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [6, 300]}", "600 bytes"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [6, 200], \"nested_offset\": "
       "\"x\", "
       "\"nested_blocksize\": 256}",
       "no nested_offset"},
      {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [6, 200], \"nested_offset\": 1, "
       "\"nested_blocksize\": 64}",
       "nested_blocksize"},
  };
  static Packed p;
  SourceTensor t;
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    make(&p, true);
    snprintf(p.state, sizeof p.state, "%s", states[i].state);
    p.tensor[3].n = strlen(p.state);
    REFUSED(describe(&p, &t), GRPO_EFORMAT, states[i].words);
  }
  static const char *const missing[] = {"",      "absmax",        "quant_map",
                                        "state", "nested_absmax", "nested_quant_map"};
  for (int i = 1; i < PARTS; i++) {
    make(&p, true);
    p.tensor[i].name = NULL;
    REFUSED(describe(&p, &t), GRPO_EFORMAT, missing[i]);
    make(&p, true);
    if (i == 3) continue;
    p.tensor[i].n++;
    REFUSED(describe(&p, &t), GRPO_EFORMAT, missing[i]);
  }
  make(&p, true);
  p.code[3] = 0.5f;
  REFUSED(describe(&p, &t), GRPO_EFORMAT, "another table");
  make(&p, true);
  p.map[255] = 0.5f;
  REFUSED(describe(&p, &t), GRPO_EFORMAT, "another table");
  make(&p, true);
  p.tensor[3].name = "x.weight.quant_state.bitsandbytes__fp4";
  REFUSED(describe(&p, &t), GRPO_EFORMAT, "'fp4'");
}

TEST(other_quantisations_are_refused_by_name) {
  static const struct {
    const char *config, *words;
  } cases[] = {
      {"null", NULL},
      {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\"}",
       NULL},
      {"{\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\",\"bnb_4bit_use_double_quant\":"
       "false}",
       NULL},
      {"{\"quant_method\":\"gptq\",\"bits\":4}", "'gptq'"},
      {"{\"quant_method\":\"awq\"}", "'awq'"},
      {"{\"quant_method\":\"fp8\"}", "'fp8'"},
      {"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}", "8-bit"},
      {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"fp4\"}",
       "'fp4'"},
      {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}", "'fp4'"},
      {"{\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\","
       "\"bnb_4bit_quant_storage\":\"bfloat16\"}",
       "'bfloat16'"},
      {"3", "an object or null"},
      {"{}", "quantization_config"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config c;
    Json *j;
    const char *text =
        test_path("{\"model_type\":\"llama\",\"quantization_config\":%s}", cases[i].config);
    REQUIRE(json_parse(text, strlen(text), "test", &j));
    if (cases[i].words)
      REFUSED(config_read(&c, j, "config.json"), GRPO_EFORMAT, cases[i].words);
    else
      OK(config_read(&c, j, "config.json"));
    json_free(j);
  }
}

/* The oracle has the bytes that bitsandbytes writes for these values; a save gives the same. */
TEST(a_checkpoint_written_here_holds_the_oracle_s_codes) {
  Safetensors s;
  NEEDS_ORACLES;
  REQUIRE(safetensors_open(&s, test_path("%s/oracles/nf4/nf4.safetensors", test_shared())));
  int checked = 0;
  for (size_t i = 0; i < s.count; i++) {
    const StTensor *in = &s.tensor[i];
    const char *end = strrchr(in->name, '/');
    if (!end || strcmp(end, "/input") != 0 || in->ndim != 2 || in->type != ST_F32) continue;
    const StTensor *packed =
        safetensors_find(&s, test_path("%.*s/packed", (int)(end - in->name), in->name));
    const int n = (int)in->dim[0], k = (int)in->dim[1];
    QuantWeight *m;
    float *x = malloc(in->n * sizeof *x);
    uint8_t *bytes = malloc((in->n + 1) / 2);
    st_read(in, 0, in->n, x);
    REQUIRE(quant_new(&m, QUANT_NF4, n, k));
    OK(quant_put(&(Ctx){0}, m, 0, n, x));
    OK(quant_done(&(Ctx){0}, m));
    StWriter *w;
    BnbParts parts;
    Safetensors back;
    const char *path = test_path("%s/oracle.safetensors", test_tmp());
    bnb_parts("x.weight", n, k, &parts);
    REQUIRE(st_writer_open(&w, path, BNB_PARTS, parts.entry, NULL));
    OK(bnb_put(w, m));
    OK(st_writer_commit(w));
    REQUIRE(safetensors_open(&back, path));
    const StTensor *t = safetensors_find(&back, "x.weight");
    uint8_t *want = malloc((in->n + 1) / 2);
    CHECK(t && packed && t->n == (in->n + 1) / 2 && packed->n == t->n);
    OK(st_read_bytes(t, 0, t->n, bytes));
    OK(st_read_bytes(packed, 0, t->n, want));
    CHECK(!memcmp(bytes, want, t->n));
    free(want);
    safetensors_close(&back);
    quant_free(m);
    free(x);
    free(bytes);
    checked++;
  }
  CHECK(checked > 0);
  safetensors_close(&s);
}

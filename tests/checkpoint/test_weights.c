/* Checkpoints: safetensors that lie, and weights that come back exactly. */
#include <unistd.h>

#include "base/half.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/param_fill.h"
#include "checkpoint/safetensors_source.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/frozen.h"
#include "model/layout.h"
#include "model/model_struct.h"
#include "model/modeltest.h"

/* ---- hostile safetensors ---------------------------------------------------------- */

static const char *put_file(uint64_t header, const char *json, size_t data) {
  const char *path = test_path("%s/hostile.safetensors", test_tmp());
  Buf b = {0};
  for (int i = 0; i < 8; i++) buf_putc(&b, (char)(header >> 8 * i & 255));
  buf_puts(&b, json);
  for (size_t i = 0; i < data; i++) buf_putc(&b, (char)i);
  OK(file_replace(path, b.data, b.len));
  buf_free(&b);
  return path;
}

static Status open_text(const char *json, size_t data) {
  Safetensors s;
  Status st = safetensors_open(&s, put_file(strlen(json), json, data));
  safetensors_close(&s);
  return st;
}

#define T(name, type, shape, offsets)                                                              \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(files_that_break_the_format_are_refused) {
  static const struct {
    const char *json;
    size_t data;
    const char *words;
  } cases[] = {
      {"[1]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"{", 0, "hostile.safetensors"},
      {"{\"a\":1}", 0, "'a' is not an object"},
      {"{" T("a", "F33", "[1]", "[0,4]") "}", 4, "dtype 'F33'"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype '(none)'"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets"},
      {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "no data_offsets"},
      {"{" T("a", "F32", "[1]", "[\"0\",4]") "}", 4, "no data_offsets"},
      {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "not a size"},
      {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "not a size"},
      {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "overflows"},
      {"{" T("a", "F64", "[1073741824,2147483648]", "[0,0]") "}", 0, "not a number of bytes"},
      {"{" T("a", "F4", "[3]", "[0,2]") "}", 2, "not a number of bytes"},
      {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "do not hold"},
      {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "do not hold"},
      {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "begins at byte 4, but 0 is next"},
      {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4, "4 is next"},
      {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12, "4 is next"},
      {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8, "8 is next"},
      {"{" T("a", "F32", "[1]", "[0,4]") "}", 3, "past the end"},
      {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "1 bytes after the last tensor"},
      {"{}", 1, "1 bytes after"},
      {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "occurs twice"},
      {"{" T("a", "F32", "[0]", "[0,0]") "," T("a", "F32", "[0]", "[0,0]") "}", 0, "occurs twice"},
      {"{\"__metadata__\":3}", 0, "__metadata__ is not an object"},
      {"{\"__metadata__\":{\"x\":3}}", 0, "is not a string"},
      {"{\"a\\u0000b\":3}", 0, "hostile.safetensors"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
       "two dtype"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    REFUSED(open_text(cases[i].json, cases[i].data), GRPO_EFORMAT, cases[i].words);
}

TEST(headers_whose_length_lies_are_refused) {
  Safetensors s;
  REFUSED(safetensors_open(&s, put_file(1ull << 63, "{}", 0)), GRPO_EFORMAT, "header of");
  REFUSED(safetensors_open(&s, put_file(100000001, "{}", 0)), GRPO_EFORMAT, "header of");
  REFUSED(safetensors_open(&s, put_file(3, "{}", 0)), GRPO_EFORMAT, "cut off");
  REFUSED(safetensors_open(&s, put_file(0, "{}", 0)), GRPO_EFORMAT, "begin with");
  const char *path = test_path("%s/short", test_tmp());
  OK(file_replace(path, "1234567", 7));
  REFUSED(safetensors_open(&s, path), GRPO_EFORMAT, "shorter than 8");
  OK(file_replace(path, "", 0));
  REFUSED(safetensors_open(&s, path), GRPO_EFORMAT, "shorter than 8");
  REFUSED(safetensors_open(&s, "/nowhere/x"), GRPO_ENOENT, "/nowhere/x");
}

TEST(what_the_format_allows_is_read) {
  static const char json[] =
      "{" T("z", "F16", "[]", "[0,2]") "," T("empty", "F32", "[0,3]", "[2,2]") ","   //
      T("a/../b", "BF16", "[1,2]", "[2,6]") ",\"__metadata__\":{\"format\":\"pt\"}," //
      T("deep", "U8", "[1,1,1,1,1,3]", "[6,9]") "}     ";
  Safetensors s;
  REQUIRE(safetensors_open(&s, put_file(strlen(json), json, 9)));
  CHECK(s.count == 4);
  CHECK_STR(safetensors_metadata(&s, "format"), "pt");
  CHECK(safetensors_metadata(&s, "no") == NULL && safetensors_find(&s, "no") == NULL);
  const StTensor *z = safetensors_find(&s, "z"), *e = safetensors_find(&s, "empty");
  const StTensor *b = safetensors_find(&s, "a/../b");
  float x[2];
  CHECK(z && z->n == 1 && z->ndim == 0);
  CHECK(e && e->n == 0 && e->ndim == 2);
  CHECK(b && b->n == 2);
  st_read(z, 0, 1, x);
  CHECK(x[0] == f16_to_f32(0x0100));
  st_read(b, 1, 1, x);
  CHECK(x[0] == bf16_to_f32(0x0504));
  CHECK(safetensors_find(&s, "deep")->ndim == 6);
  safetensors_close(&s);
}

TEST(a_hundred_thousand_tensors_take_no_time) {
  Buf b = {0};
  buf_putc(&b, '{');
  for (int i = 0; i < 100000; i++)
    buf_printf(&b, "%s\"t%05d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
               i ? "," : "", i * 7919 % 100000, i, i + 1);
  buf_putc(&b, '}');
  Safetensors s;
  REQUIRE(safetensors_open(&s, put_file(b.len, b.data, 100000)));
  CHECK(s.count == 100000 && safetensors_find(&s, "t99999"));
  safetensors_close(&s);
  buf_free(&b);
}

/* ---- checkpoints ----------------------------------------------------------------------- */

static void round_to(Model *m, WeightType type) {
  for (int i = 0; i < model_num_params(m); i++) {
    Tensor *t = &model_param(m, i)->t;
    for (size_t k = 0; k < t->n && !model_param(m, i)->saved_f32; k++)
      t->data[k] = type == WEIGHT_F16    ? f16_to_f32(f32_to_f16(t->data[k]))
                   : type == WEIGHT_BF16 ? bf16_to_f32(f32_to_bf16(t->data[k]))
                                         : t->data[k];
  }
}

TEST(saved_models_come_back_exactly) {
  for (int k = 0; k < SMALL_SHAPES; k++)
    for (int type = 0; type < 3; type++)
      for (int shards = 0; shards < 2; shards++) {
        const char *dir = test_path("%s/model", test_tmp());
        Model *m = small_model(*small_shapes[k], NULL, 5);
        Model *back = NULL;
        m->config.num_eos = 2, m->config.eos_token_id[0] = 3, m->config.eos_token_id[1] = 8;
        OK(save_model(m, dir, (WeightType)type, shards ? 20000 : 0));
        CHECK(file_exists(test_path("%s/model.safetensors", dir)) == !shards);
        CHECK(file_exists(test_path("%s/model.safetensors.index.json", dir)) == shards);
        REQUIRE(weights_load(&back, NULL, dir, STORE_F32));
        round_to(m, (WeightType)type);
        CHECK(same_weights(m, back));
        CHECK(config_is_eos(model_config(back), 8) && model_config(back)->num_eos == 2);
        model_release(m);
        model_release(back);
      }
}

/* Copies a model's file with other names and further tensors. */
typedef struct Edit {
  const char *drop, *prefix; /* a tensor left out; a prefix cut off all names, */
  const char *instead;       /* and what replaces it */
  const char *extra;         /* a [2] tensor more */
  int wider;                 /* columns more on the first tensor */
} Edit;

static void write_edited(Model *m, const char *dir, Edit e) {
  enum { N = 128 };
  static char names[N][96];
  StEntry entry[N];
  const real *data[N];
  static const real zeros[1 << 15];
  size_t n = 0;
  StWriter *w;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    if (e.drop && strcmp(p->name, e.drop) == 0) continue;
    const size_t skip =
        e.prefix && strncmp(p->name, e.prefix, strlen(e.prefix)) == 0 ? strlen(e.prefix) : 0;
    snprintf(names[n], sizeof names[n], "%s%s", e.instead && skip ? e.instead : "", p->name + skip);
    data[n] = p->t.data;
    entry[n] = (StEntry){.name = names[n], .ndim = p->t.ndim};
    for (int d = 0; d < p->t.ndim; d++) entry[n].dim[d] = (uint64_t)p->t.dim[d];
    if (n == 0 && e.wider) {
      entry[n].dim[1] += (uint64_t)e.wider;
      data[n] = zeros;
    }
    n++;
  }
  if (e.extra) {
    entry[n] = (StEntry){.name = e.extra, .ndim = 1, .dim = {2}};
    data[n++] = zeros;
  }
  REQUIRE(st_writer_open(&w, test_path("%s/model.safetensors", dir), n, entry, NULL));
  for (size_t i = 0; i < n; i++) {
    uint64_t count = 1;
    for (int d = 0; d < entry[i].ndim; d++) count *= entry[i].dim[d];
    OK(st_writer_put(w, data[i], count));
  }
  OK(st_writer_commit(w));
}

static void count_note(void *notes, LogLevel level, const char *message) {
  *(int *)notes += level == LOG_INFO && strstr(message, "are not loaded: 1 tensors") != NULL;
}

TEST(tensors_beside_the_decoder_are_left_out_with_a_note) {
  static const char *const names[] = {"model.visual.a", "mtp.b", "vision_tower.c", "audio_tower.d"};
  for (int i = 0; i < 4; i++) {
    const char *dir = test_path("%s/beside", test_tmp());
    Model *m = small_model(tiny_llama, NULL, 5), *back = NULL;
    int notes = 0;
    OK(save_model(m, dir, WEIGHT_F32, 0));
    write_edited(m, dir, (Edit){.extra = names[i]});
    log_set_sink(count_note, &notes);
    OK(weights_load(&back, NULL, dir, STORE_F32));
    log_set_sink(NULL, NULL);
    CHECK(notes == 1 && back && same_weights(m, back));
    model_release(m);
    model_release(back);
  }
}

TEST(keys_of_layers_that_read_those_of_others_are_left_out) {
  static const char *const names[] = {"model.layers.3.self_attn.k_proj.weight",
                                      "model.layers.4.self_attn.k_norm.weight",
                                      "model.layers.1.self_attn.v_proj.weight"};
  for (int i = 0; i < 3; i++) {
    const char *dir = test_path("%s/unread", test_tmp());
    Model *m = small_model(tiny_gemma4, NULL, 5), *back = NULL;
    OK(save_model(m, dir, WEIGHT_F32, 0));
    write_edited(m, dir, (Edit){.extra = names[i]});
    if (i < 2)
      OK(weights_load(&back, NULL, dir, STORE_F32));
    else
      REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT, "does not belong");
    CHECK(i == 2 || (back && same_weights(m, back)));
    model_release(m);
    model_release(back);
  }
}

/* Fills a model's parameters from an open source whose file has lost its last part; counts those
 * that could not be read. */
static int unread(const Model *like, const WeightSource *s, Storage storage, Pool *pool) {
  Model *m;
  int failed = 0;
  Arena arena = {0};
  const Ctx cx = {.pool = pool, .arena = &arena};
  OK(model_layout(&m, pool, model_config(like)));
  for (int i = 0; i < m->nparams && storage != STORE_F32; i++)
    if (layout_is_matrix(m, i))
      OK(frozen_quantise(m, i, param_storage_type(storage, layout_is_projection(m, i), QUANT_F32)));
  OK(model_allocate(m));
  for (size_t k = 0; k < s->count; k++) {
    const int i = layout_index(m, s->tensor[k].name);
    if (i < 0 || param_fill(&cx, m, i, s, &s->tensor[k]) == GRPO_OK) continue;
    CHECK(strstr(err_message(), s->tensor[k].name) && strstr(err_message(), "was cut"));
    failed++;
  }
  arena_free(&arena);
  model_release(m);
  return failed;
}

TEST(a_file_that_is_cut_while_it_is_loaded_is_an_error) {
  static const char *const shapes[] = {"llama", "gpt2"};
  static const Storage storages[] = {STORE_F32, STORE_BF16, STORE_INT8, STORE_NF4};
  Pool *pool = NULL;
  OK(pool_new(&pool, 2));
  for (int i = 0; i < 8; i++) {
    const char *dir = test_path("%s/cut-%d", test_tmp(), i);
    const char *path = test_path("%s/model.safetensors", dir);
    Model *m = small_model(i % 2 ? tiny_gpt2 : tiny_llama, pool, 5);
    WeightSource s;
    OK(save_model(m, dir, i < 4 ? WEIGHT_F32 : WEIGHT_BF16, 0));
    REQUIRE(safetensors_source_open(&s, dir));
    CHECK(unread(m, &s, storages[i / 2], pool) == 0);
    CHECK(truncate(path, file_size(path) * 3 / 4) == 0);
    const int lost = unread(m, &s, storages[i / 2], pool);
    if (lost < 1 || lost >= (int)s.count)
      test_fail(__FILE__, __LINE__, "%s: %d", shapes[i % 2], lost);
    source_close(&s);
    model_release(m);
  }
  pool_free(pool);
}

TEST(other_spellings_of_a_checkpoint_are_read) {
  const char *dir = test_path("%s/spellings", test_tmp());
  Model *m = small_model(tiny_gpt2, NULL, 5), *back = NULL;
  OK(save_model(m, dir, WEIGHT_F32, 0));
  write_edited(m, dir, (Edit){.prefix = "transformer.", .extra = "h.0.attn.bias"});
  REQUIRE(weights_load(&back, NULL, dir, STORE_F32));
  CHECK(same_weights(m, back));
  model_release(back);
  write_edited(m, dir, (Edit){.extra = "transformer.h.1.attn.masked_bias"});
  REQUIRE(weights_load(&back, NULL, dir, STORE_F32));
  model_release(back);
  write_edited(m, dir, (Edit){.extra = "lm_head.weight"}); /* tied: stored once more */
  REQUIRE(weights_load(&back, NULL, dir, STORE_F32));
  model_release(back);
  model_release(m);
}

static void check_multimodal(Model *m, const char *dir, Edit e) {
  Model *back = NULL;
  write_edited(m, dir, e);
  REQUIRE(weights_load(&back, NULL, dir, STORE_F32));
  CHECK(same_weights(m, back));
  model_release(back);
}

TEST(the_decoder_of_a_multimodal_checkpoint_is_read) {
  const char *dir = test_path("%s/multimodal", test_tmp());
  Model *m = small_model(tiny_gemma3, NULL, 5);
  Buf b = {0};
  OK(save_model(m, dir, WEIGHT_F32, 0));
  buf_printf(&b, "{\"model_type\":\"gemma3\",\"text_config\":%s}", tiny_gemma3);
  OK(file_replace(test_path("%s/config.json", dir), b.data, b.len));
  buf_free(&b);
  check_multimodal(m, dir,
                   (Edit){.prefix = "model.",
                          .instead = "language_model.model.",
                          .extra = "vision_tower.vision_model.head.probe"});
  check_multimodal(m, dir,
                   (Edit){.prefix = "model.",
                          .instead = "model.language_model.",
                          .extra = "model.multi_modal_projector.mm_soft_emb_norm.weight"});
  check_multimodal(m, dir, (Edit){.extra = "language_model.lm_head.weight"});
  model_release(m);
}

TEST(checkpoints_that_do_not_fit_are_refused_by_tensor) {
  const char *dir = test_path("%s/misfits", test_tmp());
  Model *m = small_model(tiny_llama, NULL, 5), *back = NULL;
  OK(save_model(m, dir, WEIGHT_F32, 0));
  write_edited(m, dir, (Edit){.drop = "model.norm.weight"});
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT,
          "'model.norm.weight' is missing (1 of");
  write_edited(m, dir, (Edit){.extra = "model.layers.0.extra"});
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT,
          "'model.layers.0.extra' does not belong");
  write_edited(m, dir, (Edit){.wider = 1});
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT,
          "'model.embed_tokens.weight' has shape [101, 65], but config.json wants [101, 64]");
  OK(file_remove_tree(test_path("%s/model.safetensors", dir)));
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_ENOENT, "neither model.safetensors nor");
  model_release(m);
}

/* exp(A_log) 0 is a decay of 1; an infinite one makes NaN of a chunk's decays in transformers. */
TEST(decays_that_cannot_be_computed_are_refused) {
  static const struct {
    float value;
    const char *words;
  } cases[] = {{INFINITY, "because it holds inf"}, {89, "holds 89"}, {NAN, "nan"}, {-INFINITY, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *dir = test_path("%s/decays-%zu", test_tmp(), i);
    Model *m = small_model(tiny_qwen3_5, NULL, 5), *back = NULL;
    m->layer[1].t[L_A_LOG]->data[3] = (real)cases[i].value;
    OK(save_model(m, dir, WEIGHT_F32, 0));
    if (*cases[i].words) {
      REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT, cases[i].words);
      CHECK(strstr(err_message(), "'model.layers.1.linear_attn.A_log'"));
    } else
      OK(weights_load(&back, NULL, dir, STORE_F32));
    model_release(back);
    model_release(m);
  }
}

TEST(an_index_may_not_lead_elsewhere) {
  static const char *const names[] = {"../x.safetensors", "/etc/passwd", "a\\\\b", "", "sub/x"};
  const char *dir = test_path("%s/index", test_tmp());
  const char *path = test_path("%s/index/model.safetensors.index.json", test_tmp());
  Model *m = small_model(tiny_llama, NULL, 5), *back = NULL;
  OK(save_model(m, dir, WEIGHT_F32, 20000));
  for (int i = 0; i < 5; i++) {
    Buf b = {0};
    buf_printf(&b, "{\"weight_map\":{\"model.norm.weight\":\"%s\"}}", names[i]);
    OK(file_replace(path, b.data, b.len));
    buf_free(&b);
    REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT,
            "not the name of a file beside it");
  }
  OK(file_replace(path, "{}", 2));
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT, "weight_map is missing");
  static const char gone[] = "{\"weight_map\":{\"a\":\"gone.safetensors\"}}";
  OK(file_replace(path, gone, strlen(gone)));
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_ENOENT, "gone.safetensors");
  model_release(m);
}

TEST(a_lying_configuration_costs_no_memory) {
  const char *dir = test_path("%s/lie", test_tmp());
  Model *m = small_model(tiny_llama, NULL, 5), *back = NULL;
  static const char config[] =
      "{\"model_type\":\"llama\",\"vocab_size\":4000000,\"hidden_size\":8192,"
      "\"num_attention_heads\":64,\"num_hidden_layers\":2}";
  OK(save_model(m, dir, WEIGHT_F32, 0));
  OK(file_replace(test_path("%s/config.json", dir), config, strlen(config)));
  const size_t before = mem_live_bytes();
  REFUSED(weights_load(&back, NULL, dir, STORE_F32), GRPO_EFORMAT, "config.json wants");
  CHECK(mem_live_bytes() == before);
  model_release(m);
}

TEST(every_failing_allocation_is_an_error_and_leaks_nothing) {
  const char *dir = test_path("%s/oom", test_tmp());
  Model *m = small_model(biased_llama, NULL, 5), *back = NULL;
  OK(save_model(m, dir, WEIGHT_BF16, 8000));
  const size_t before = mem_live_bytes();
  int failures = 0;
  for (uint64_t n = 1; n < 3000; n++) {
    mem_fail_after(n);
    Status s = weights_load(&back, NULL, dir, STORE_F32);
    mem_fail_after(0);
    if (s == GRPO_OK) break;
    failures++;
    CHECK(mem_live_bytes() == before);
  }
  CHECK(failures > 10 && back);
  model_release(back);
  model_release(m);
}

/* ---- oracles to disk and back ---------------------------------------------------------------- */

static void check_same_file(const char *name, const char *a, const char *b, const char *file) {
  Buf x = {0}, y = {0};
  OK(file_read(test_path("%s/%s", a, file), 0, &x));
  OK(file_read(test_path("%s/%s", b, file), 0, &y));
  if (x.len != y.len || memcmp(x.data, y.data, x.len))
    test_fail(__FILE__, __LINE__, "%s: %s differs", name, file);
  buf_free(&x);
  buf_free(&y);
}

static void check_round_trip(const char *name) {
  if (!test_oracle(name)) return;
  static const char *const files[] = {"model.safetensors", "config.json", "generation_config.json"};
  const WeightType type = strstr(name, "bf16")  ? WEIGHT_BF16
                          : strstr(name, "f16") ? WEIGHT_F16
                                                : WEIGHT_F32;
  char a[128], b[128];
  snprintf(a, sizeof a, "%s/%s-a", test_tmp(), name);
  snprintf(b, sizeof b, "%s/%s-b", test_tmp(), name);
  Model *m, *back;
  REQUIRE(weights_load(&m, NULL, test_path("%s/oracles/models/%s/checkpoint", test_shared(), name),
                       STORE_F32));
  REQUIRE(save_model(m, a, type, 0));
  REQUIRE(weights_load(&back, NULL, a, STORE_F32));
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i), *q = model_param(back, i);
    CHECK_STR(p->name, q->name);
    CHECK(!memcmp(p->t.data, q->t.data, p->t.n * sizeof(real)));
  }
  REQUIRE(save_model(back, b, type, 0));
  for (int i = 0; i < 3; i++) check_same_file(name, a, b, files[i]);
  model_release(m);
  model_release(back);
}

TEST(saving_loading_and_saving_again_gives_the_same_bytes) {
  NEEDS_ORACLES;
  for (int i = 0; i < ORACLES; i++) check_round_trip(oracle_names[i]);
}

/* ---- config.json and generation_config.json ------------------------------------------------ */

/* Python writes infinities by their names, as the limits of a state-space model's steps. */
TEST(configurations_may_hold_infinities) {
  const char *dir = test_path("%s/infinite", test_tmp());
  static const char unknown[] = "{\"model_type\":\"mamba2\",\"time_step_limit\":[0.0,Infinity]}";
  static const char known[] = "{\"model_type\":\"llama\",\"rope_theta\":Infinity}";
  Config c;
  OK(file_mkdirs(dir));
  OK(file_replace(test_path("%s/config.json", dir), unknown, strlen(unknown)));
  REFUSED(weights_config(&c, dir), GRPO_EFORMAT, "model_type 'mamba2' is not supported");
  OK(file_replace(test_path("%s/config.json", dir), known, strlen(known)));
  REFUSED(weights_config(&c, dir), GRPO_EFORMAT, "rope_theta must be a number from 1");
}

TEST(generation_config_adds_end_tokens) {
  const char *dir = test_path("%s/generation", test_tmp());
  static const char config[] = "{\"model_type\":\"llama\",\"eos_token_id\":2}";
  static const char generation[] = "{\"eos_token_id\":[5,2],\"pad_token_id\":0}";
  Config c;
  REFUSED(weights_config(&c, dir), GRPO_ENOENT, "no such model directory");
  OK(file_mkdirs(dir));
  REFUSED(weights_config(&c, dir), GRPO_ENOENT, "config.json");
  OK(file_replace(test_path("%s/config.json", dir), config, strlen(config)));
  OK(file_replace(test_path("%s/generation_config.json", dir), generation, strlen(generation)));
  REQUIRE(weights_config(&c, dir));
  CHECK(c.num_eos == 2 && c.eos_token_id[0] == 2 && c.eos_token_id[1] == 5 && c.pad_token_id == 0);
}

/* Corrupted copies of checkpoints, of a small one made here and of the oracles, are refused with
 * one line.  The oracles are only ever read: everything is done to copies below test_tmp(). */
#include <limits.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/modeltest.h"

static Status load(const char *dir, Storage storage) {
  Model *m = NULL;
  const Status s = weights_load(&m, NULL, dir, storage);
  CHECK((s == GRPO_OK) == (m != NULL));
  model_release(m);
  return s;
}

enum { DIR_BYTES = 512, NAME_ROOM = 1024 };

/* ---- nothing but our own files is written ------------------------------------------------ */

/* Is it, with links resolved, directly or deeper in this program's own directory?  Nothing else may
 * be written or removed here. */
static bool is_ours(const char *path) {
  char parent[PATH_MAX], whole[PATH_MAX], own[PATH_MAX];
  snprintf(parent, sizeof parent, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash) *slash = 0;
  const bool ours = slash && slash[1] && strcmp(slash + 1, "..") != 0 && realpath(parent, whole) &&
                    realpath(test_tmp(), own) && strncmp(whole, own, strlen(own)) == 0 &&
                    (whole[strlen(own)] == 0 || whole[strlen(own)] == '/');
  CHECK(ours);
  return ours;
}

static void put_plain(const char *path, const void *data, size_t n) {
  if (!is_ours(path)) return;
  unlink(path); /* never through a link */
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, n, f) == n);
  if (f) fclose(f);
}

static void remove_plain(const char *path) {
  if (is_ours(path)) CHECK(unlink(path) == 0);
}

/* A fresh directory with copies of the files of `from`. */
static void copy_files(const char *from, const char *to) {
  Buf names = {0}, b = {0};
  size_t count = 0;
  if (!is_ours(to)) return;
  REQUIRE(file_remove_tree(to));
  REQUIRE(file_mkdirs(to));
  REQUIRE(file_list(from, &names, &count));
  const char *name = names.data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
    char source[NAME_ROOM], path[NAME_ROOM];
    snprintf(source, sizeof source, "%s/%s", from, name);
    snprintf(path, sizeof path, "%s/%s", to, name);
    buf_clear(&b);
    OK(file_read(source, 0, &b));
    put_plain(path, b.data, b.len);
  }
  buf_free(&names);
  buf_free(&b);
}

/* ---- a safetensors file taken apart -------------------------------------------------------- */

enum { MAX_TENSORS = 256 };

typedef struct Entry {
  char name[128], type[16], shape[96];
  long long begin, end;
} Entry;

typedef struct Parts {
  Entry entry[MAX_TENSORS]; /* by offset */
  int n;
  Buf data;
  const char *extra; /* further members of the header, or "" */
  uint64_t length;   /* of the header as it is announced; 0: the truth */
  size_t keep;       /* bytes of the file that are written; 0: all */
} Parts;

static int by_place(const void *x, const void *y) {
  const StTensor *a = *(const StTensor *const *)x, *b = *(const StTensor *const *)y;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void take_apart(Parts *p, const char *path) {
  static const StTensor *order[MAX_TENSORS];
  Safetensors s;
  *p = (Parts){.extra = ""};
  REQUIRE(safetensors_open(&s, path));
  CHECK(s.count > 3 && s.count < MAX_TENSORS);
  for (size_t i = 0; i < s.count && i < MAX_TENSORS; i++) order[p->n++] = &s.tensor[i];
  qsort(order, (size_t)p->n, sizeof *order, by_place);
  for (int i = 0; i < p->n; i++) {
    const StTensor *t = order[i];
    Entry *e = &p->entry[i];
    snprintf(e->name, sizeof e->name, "%s", t->name);
    snprintf(e->type, sizeof e->type, "%s", st_type_name(t->type));
    size_t at = 0;
    for (int d = 0; d < t->ndim; d++)
      at += (size_t)snprintf(e->shape + at, sizeof e->shape - at, "%s%llu", d ? "," : "",
                             (unsigned long long)t->dim[d]);
    e->begin = (long long)t->begin, e->end = (long long)t->end;
    char *bytes = malloc((size_t)(t->end - t->begin) + 1);
    REQUIRE(st_read_bytes(t, 0, t->end - t->begin, bytes));
    buf_put(&p->data, bytes, (size_t)(t->end - t->begin));
    free(bytes);
  }
  safetensors_close(&s);
}

static void put_together(const Parts *p, const char *path) {
  Buf b = {0}, file = {0};
  buf_putc(&b, '{');
  for (int i = 0; i < p->n; i++) {
    const Entry *e = &p->entry[i];
    buf_printf(&b, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
               i ? "," : "", e->name, e->type, e->shape, e->begin, e->end);
  }
  buf_printf(&b, "%s}", p->extra);
  const uint64_t length = p->length ? p->length : b.len;
  for (int i = 0; i < 8; i++) buf_putc(&file, (char)(length >> 8 * i & 255));
  buf_put(&file, b.data, b.len);
  if (p->data.len) buf_put(&file, p->data.data, p->data.len);
  put_plain(path, file.data, p->keep && p->keep < file.len ? p->keep : file.len);
  buf_free(&b);
  buf_free(&file);
}

/* ---- what may be wrong with it ----------------------------------------------------------- */

/* A matrix that is not square; every checkpoint has one. */
static Entry *matrix_of(Parts *p) {
  for (int i = 0; i < p->n; i++) {
    unsigned long long rows, columns;
    if (sscanf(p->entry[i].shape, "%llu,%llu", &rows, &columns) == 2 && rows != columns)
      return &p->entry[i];
  }
  CHECK(!"a matrix");
  return &p->entry[0];
}

static void shift(Entry *e, long long by) { e->begin += by, e->end += by; }

static void overlap(Parts *p) { shift(&p->entry[1], -4); }
static void same_place(Parts *p) {
  p->entry[1].begin = p->entry[0].begin;
  p->entry[1].end = p->entry[0].end;
}
static void hole(Parts *p) {
  shift(&p->entry[p->n - 1], 4);
  buf_put(&p->data, "1234", 4);
}
static void first_hole(Parts *p) {
  for (int i = 0; i < p->n; i++) shift(&p->entry[i], 8);
  buf_put(&p->data, "12345678", 8);
}
static void reversed(Parts *p) {
  const long long begin = p->entry[1].begin;
  p->entry[1].begin = p->entry[1].end;
  p->entry[1].end = begin;
}
static void past_end(Parts *p) { p->entry[p->n - 1].end += 1 << 20; }
static void negative(Parts *p) { p->entry[0].begin = -8; }
static void very_negative(Parts *p) { p->entry[0].begin = INT64_MIN; }
static void far_away(Parts *p) { shift(&p->entry[0], INT64_MAX / 2); }
static void trailing(Parts *p) { buf_putc(&p->data, 'x'); }
static void cut_by_one(Parts *p) { p->data.len--; }
static void cut_in_half(Parts *p) { p->data.len /= 2; }
static void no_data(Parts *p) { p->data.len = 0; }
static void cut_header(Parts *p) { p->keep = 100; }
static void cut_length(Parts *p) { p->keep = 7; }
static void empty_file(Parts *p) {
  p->n = 0;
  p->data.len = 0;
}
static void huge_header(Parts *p) { p->length = 1ull << 63; }
static void all_ones_header(Parts *p) { p->length = UINT64_MAX; }
static void past_limit_header(Parts *p) { p->length = 100000001; }
static void long_header(Parts *p) { p->length = 90000000; }
static void short_header(Parts *p) { p->length = 50; }
static void integers(Parts *p) {
  const Entry *m = matrix_of(p);
  snprintf(p->entry[m - p->entry].type, 16, "%s", strcmp(m->type, "F32") == 0 ? "I32" : "I16");
}
static void wider_type(Parts *p) { snprintf(matrix_of(p)->type, 16, "F64"); }
static void unknown_type(Parts *p) { snprintf(matrix_of(p)->type, 16, "F12"); }
static void no_type(Parts *p) { matrix_of(p)->type[0] = 0; }
static void transposed(Parts *p) {
  unsigned long long rows, columns;
  Entry *m = matrix_of(p);
  CHECK(sscanf(m->shape, "%llu,%llu", &rows, &columns) == 2);
  snprintf(m->shape, sizeof m->shape, "%llu,%llu", columns, rows);
}
static void flat(Parts *p) {
  unsigned long long rows, columns;
  Entry *m = matrix_of(p);
  CHECK(sscanf(m->shape, "%llu,%llu", &rows, &columns) == 2);
  snprintf(m->shape, sizeof m->shape, "%llu", rows * columns);
}
/* (2^32 + 1)(2^32 - 1) + 1 + ... : products that wrap, to 0 and to small numbers. */
static void wraps_to_zero(Parts *p) { snprintf(matrix_of(p)->shape, 96, "4294967296,4294967296"); }
static void wraps_to_one(Parts *p) {
  snprintf(matrix_of(p)->shape, 96, "18446744073709551615,18446744073709551615");
}
static void bytes_wrap(Parts *p) { snprintf(matrix_of(p)->shape, 96, "4611686018427387905"); }
static void negative_shape(Parts *p) { snprintf(matrix_of(p)->shape, 96, "-4,-8"); }
static void float_shape(Parts *p) { snprintf(matrix_of(p)->shape, 96, "1e3,1.5"); }
static void twice(Parts *p) { memcpy(p->entry[1].name, p->entry[0].name, sizeof p->entry[0].name); }
static void twice_more(Parts *p) {
  static char extra[512];
  const Entry *e = &p->entry[0];
  snprintf(extra, sizeof extra,
           ",\"%s\":{\"dtype\":\"%s\",\"shape\":[0],\"data_offsets\":[%lld,%lld]}", e->name,
           e->type, (long long)p->data.len, (long long)p->data.len);
  p->extra = extra;
}
static void renamed(Parts *p) { strcat(matrix_of(p)->name, "x"); }
static void zero_in_name(Parts *p) { strcat(matrix_of(p)->name, "\\u0000"); }
static void not_utf8(Parts *p) { strcat(matrix_of(p)->name, "\xff\xc0"); }
static void left_out(Parts *p) {
  Entry *last = &p->entry[p->n - 1];
  p->data.len -= (size_t)(last->end - last->begin);
  p->n--;
}
static void one_more(Parts *p) {
  static char extra[200];
  snprintf(extra, sizeof extra,
           ",\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
           (long long)p->data.len, (long long)p->data.len + 4);
  buf_put(&p->data, "1234", 4);
  p->extra = extra;
}
static void bad_metadata(Parts *p) { p->extra = ",\"__metadata__\":[1]"; }
static void not_json(Parts *p) { p->extra = ",,"; }

static const struct {
  const char *name;
  void (*edit)(Parts *p);
} corruption[] = {
#define X(name)                                                                                    \
  { #name, name }
    X(overlap),           X(same_place),    X(hole),
    X(first_hole),        X(reversed),      X(past_end),
    X(negative),          X(very_negative), X(far_away),
    X(trailing),          X(cut_by_one),    X(cut_in_half),
    X(no_data),           X(cut_header),    X(cut_length),
    X(empty_file),        X(huge_header),   X(all_ones_header),
    X(past_limit_header), X(long_header),   X(short_header),
    X(integers),          X(wider_type),    X(unknown_type),
    X(no_type),           X(transposed),    X(flat),
    X(wraps_to_zero),     X(wraps_to_one),  X(bytes_wrap),
    X(negative_shape),    X(float_shape),   X(twice),
    X(twice_more),        X(renamed),       X(zero_in_name),
    X(not_utf8),          X(left_out),      X(one_more),
    X(bad_metadata),      X(not_json),
#undef X
};

/* One line that names a file inside dir, and nothing is left in memory. */
static void must_refuse(const char *model, const char *how, const char *dir) {
  static const Storage storages[] = {STORE_F32, STORE_AUTO};
  for (int k = 0; k < 2; k++) {
    const size_t before = mem_live_bytes();
    const Status s = load(dir, storages[k]);
    if (s != GRPO_EFORMAT && s != GRPO_ENOENT)
      test_fail(__FILE__, __LINE__, "%s, %s: got %s: %s", model, how, status_name(s),
                s ? err_message() : "it loads");
    if (s && (strchr(err_message(), '\n') || !strstr(err_message(), dir)))
      test_fail(__FILE__, __LINE__, "%s, %s: \"%s\"", model, how, err_message());
    CHECK(mem_live_bytes() == before);
  }
}

/* ---- one checkpoint ---------------------------------------------------------------------- */

/* The first or the last file with weights, as a path; of one file the same. */
static void find_weights(const char *dir, bool last, char *out, size_t cap) {
  Buf names = {0};
  size_t count = 0;
  *out = 0;
  REQUIRE(file_list(dir, &names, &count));
  const char *name = names.data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
    const char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".safetensors") == 0 && (last || !*out))
      snprintf(out, cap, "%s/%s", dir, name);
  }
  CHECK(*out);
  buf_free(&names);
}

/* dir: a copy of what is in `from`, also afterwards. */
static void check_weights(const char *model, const char *from, const char *dir, bool last) {
  static Parts p;
  char whole[NAME_ROOM], path[NAME_ROOM];
  find_weights(from, last, whole, sizeof whole);
  find_weights(dir, last, path, sizeof path);
  for (size_t i = 0; i < sizeof corruption / sizeof *corruption; i++) {
    take_apart(&p, whole);
    corruption[i].edit(&p);
    put_together(&p, path);
    must_refuse(model, corruption[i].name, dir);
    buf_free(&p.data);
  }
  Buf deep = {0};
  for (int i = 0; i < 8; i++) buf_putc(&deep, (char)(200000ull >> 8 * i & 255));
  buf_puts(&deep, "{\"a\":");
  while (deep.len < 8 + 200000) buf_putc(&deep, '[');
  put_plain(path, deep.data, deep.len);
  must_refuse(model, "deep nesting", dir);
  remove_plain(path);
  must_refuse(model, "no weights", dir);
  buf_free(&deep);
  copy_files(from, dir);
}

/* The text with another value in the place of a number; false: there is no such key. */
static bool replace_value(const Buf *text, const char *key, const char *value, Buf *out) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text->data, quoted);
  if (!at) return false;
  at += strlen(quoted);
  buf_put(out, text->data, (size_t)(at - text->data));
  buf_puts(out, value);
  buf_puts(out, at + strcspn(at, ",}\n"));
  return true;
}

static void check_config(const char *model, const char *from, const char *dir) {
  static const char *const text[] = {"",
                                     "{",
                                     "[]",
                                     "{}",
                                     "{\"model_type\":\"llama\"}",
                                     "\xff",
                                     "{\"model_type\":\"no_such_family\",\"vocab_size\":9}"};
  static const char *const key[] = {"vocab_size", "hidden_size", "n_embd", "num_hidden_layers",
                                    "n_layer"};
  static const char *const value[] = {"-1", "0", "1e9", "1.5", "\"8\"", "8192"};
  Buf config = {0};
  char path[NAME_ROOM];
  snprintf(path, sizeof path, "%s/config.json", dir);
  REQUIRE(file_read(path, 1 << 20, &config));
  put_plain(path, config.data, config.len / 2);
  must_refuse(model, "half a config.json", dir);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    put_plain(path, text[i], strlen(text[i]));
    must_refuse(model, "another config.json", dir);
  }
  for (size_t i = 0; i < sizeof key / sizeof *key; i++)
    for (size_t k = 0; k < sizeof value / sizeof *value; k++) {
      char how[64];
      Buf b = {0};
      snprintf(how, sizeof how, "%s = %s", key[i], value[k]);
      if (replace_value(&config, key[i], value[k], &b)) {
        put_plain(path, b.data, b.len);
        must_refuse(model, how, dir);
      }
      buf_free(&b);
    }
  buf_free(&config);
  remove_plain(path);
  must_refuse(model, "no config.json", dir);
  copy_files(from, dir);
}

/* `from` is not written to. */
static void check_checkpoint(const char *model, const char *from) {
  char dir[DIR_BYTES], first[NAME_ROOM], last[NAME_ROOM];
  snprintf(dir, sizeof dir, "%s/corrupt", test_tmp());
  copy_files(from, dir);
  REQUIRE(load(dir, STORE_F32));
  find_weights(dir, false, first, sizeof first);
  find_weights(dir, true, last, sizeof last);
  check_weights(model, from, dir, true);
  if (strcmp(first, last) != 0) check_weights(model, from, dir, false);
  check_config(model, from, dir);
  OK(load(dir, STORE_AUTO));
}

/* ---- those that are made here ------------------------------------------------------------ */

static void make(const char *shape, WeightType type, uint64_t shard_bytes, char *dir, size_t cap) {
  snprintf(dir, cap, "%s/made", test_tmp());
  if (!is_ours(dir)) return;
  OK(file_remove_tree(dir));
  Model *m = small_model(shape, NULL, 3);
  OK(save_model(m, dir, type, shard_bytes));
  model_release(m);
}

TEST(corrupted_checkpoints_are_refused_with_one_line) {
  char dir[DIR_BYTES];
  make(tiny_llama, WEIGHT_F32, 0, dir, sizeof dir);
  check_checkpoint("llama", dir);
  make(tiny_gpt2, WEIGHT_F16, 0, dir, sizeof dir);
  check_checkpoint("gpt2", dir);
  make(biased_llama, WEIGHT_BF16, 0, dir, sizeof dir);
  check_checkpoint("llama with biases", dir);
  make(tiny_llama, WEIGHT_BF16, 60000, dir, sizeof dir);
  check_checkpoint("llama in shards", dir);
}

TEST(corrupted_checkpoints_in_nf4_are_refused_with_one_line) {
  char dir[DIR_BYTES];
  make(tiny_llama, WEIGHT_NF4, 0, dir, sizeof dir);
  check_checkpoint("nf4", dir);
}

/* ---- an index that lies ------------------------------------------------------------------ */

TEST(an_index_that_does_not_fit_its_shards_is_refused) {
  static const char *const text[] = {
      "",
      "[]",
      "{}",
      "{\"weight_map\":{}}",
      "{\"weight_map\":[\"a\"]}",
      "{\"weight_map\":{\"model.norm.weight\":7}}",
      "{\"weight_map\":{\"model.norm.weight\":\"\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"..\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"/dev/zero\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"../model-00001-of-00003.safetensors\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"a\\\\b.safetensors\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"gone.safetensors\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"config.json\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"a-folder\"}}"};
  char from[DIR_BYTES], dir[DIR_BYTES], index[NAME_ROOM], first[NAME_ROOM], last[NAME_ROOM];
  make(tiny_llama, WEIGHT_BF16, 60000, from, sizeof from);
  snprintf(dir, sizeof dir, "%s/index", test_tmp());
  copy_files(from, dir);
  OK(load(dir, STORE_AUTO));
  find_weights(dir, false, first, sizeof first);
  find_weights(dir, true, last, sizeof last);
  CHECK(strcmp(first, last) != 0);
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", dir);
  OK(file_mkdirs(test_path("%s/a-folder", dir)));
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    put_plain(index, text[i], strlen(text[i]));
    must_refuse("index", text[i], dir);
  }
  Buf b = {0}; /* only one shard is named */
  buf_printf(&b, "{\"weight_map\":{\"model.norm.weight\":\"%s\"}}", strrchr(first, '/') + 1);
  put_plain(index, b.data, b.len);
  must_refuse("index", b.data, dir);
  copy_files(from, dir); /* the first shard once more, under the last one's name */
  buf_clear(&b);
  OK(file_read(first, 0, &b));
  put_plain(last, b.data, b.len);
  must_refuse("index", "the first shard as the last", dir);
  remove_plain(last);
  must_refuse("index", "no last shard", dir);
  buf_free(&b);
}

/* ---- the oracles ------------------------------------------------------------------------- */

static void check_oracle(const char *model) {
  char from[DIR_BYTES], copy[DIR_BYTES];
  if (!test_oracle(model)) return;
  snprintf(from, sizeof from, "%s/oracles/models/%s/checkpoint", test_shared(), model);
  snprintf(copy, sizeof copy, "%s/oracle", test_tmp());
  copy_files(from, copy);
  check_checkpoint(model, copy);
}

/* A test for each, so that an incomplete one is skipped alone. */
#define ORACLE(model)                                                                              \
  TEST(corrupted_copies_of_##model##_are_refused_with_one_line) { check_oracle(#model); }
ORACLE(llama)
ORACLE(llama_linear_sharded_bf16)
ORACLE(smollm_bf16)
ORACLE(gpt2)
ORACLE(qwen2)
ORACLE(qwen3)
ORACLE(qwen3_newconfig_bf16)
ORACLE(mistral_f16)
ORACLE(mistral_window)
ORACLE(gemma2)
ORACLE(gemma3_text_bf16)

TEST(corrupted_shards_of_an_oracle_are_refused_with_one_line) {
  if (!test_oracle("qwen3_newconfig_bf16")) return;
  char from[DIR_BYTES], dir[DIR_BYTES];
  Model *m = NULL;
  snprintf(from, sizeof from, "%s/oracles/models/qwen3_newconfig_bf16/checkpoint", test_shared());
  snprintf(dir, sizeof dir, "%s/shards", test_tmp());
  REQUIRE(weights_load(&m, NULL, from, STORE_AUTO));
  OK(save_model(m, dir, WEIGHT_BF16, model_count(m) * 3 / 2));
  model_release(m);
  CHECK(file_exists(test_path("%s/model.safetensors.index.json", dir)));
  check_checkpoint("qwen3 in shards", dir);
}

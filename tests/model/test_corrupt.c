/* Corrupted versions of every checkpoint of the oracles, made here, are refused with one line. */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "model/modeltest.h"

static Status load(const char *dir) {
  Model *m = NULL;
  const Status s = model_load(&m, NULL, dir);
  CHECK((s == GRPO_OK) == (m != NULL));
  model_release(m);
  return s;
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
    buf_put(&p->data, t->data, (size_t)(t->end - t->begin));
  }
  safetensors_close(&s);
}

/* Only below this program's own directory: what is there may be links to the oracles, and no path
 * but one of ours may ever be removed or written. */
static bool is_ours(const char *path) {
  const size_t n = strlen(test_tmp());
  const bool ours = strncmp(path, test_tmp(), n) == 0 && path[n] == '/' && !strstr(path, "..");
  CHECK(ours);
  return ours;
}

static void put_plain(const char *path, const void *data, size_t n) {
  if (!is_ours(path)) return;
  unlink(path);
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, n, f) == n);
  if (f) fclose(f);
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

/* ---- what may be wrong with it ---------------------------------------------------------------- */

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

static void must_refuse(const char *model, const char *how, const char *dir) {
  const size_t before = mem_live_bytes();
  const Status s = load(dir);
  if (s != GRPO_EFORMAT && s != GRPO_ENOENT)
    test_fail(__FILE__, __LINE__, "%s, %s: got %s: %s", model, how, status_name(s),
              s ? err_message() : "it loads");
  if (s && (strchr(err_message(), '\n') || !strstr(err_message(), dir)))
    test_fail(__FILE__, __LINE__, "%s, %s: \"%s\"", model, how, err_message());
  CHECK(mem_live_bytes() == before);
}

/* ---- every checkpoint --------------------------------------------------------------------------- */

static bool is_weights(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && strcmp(dot, ".safetensors") == 0;
}

/* Copies of the files of a checkpoint in a fresh directory: no link may lead back to the oracles. */
static void copy_files(const char *from, const char *to) {
  Buf names = {0}, b = {0};
  size_t count = 0;
  if (!is_ours(to)) return;
  REQUIRE(file_remove_tree(to));
  REQUIRE(file_mkdirs(to));
  REQUIRE(file_list(from, &names, &count));
  const char *name = names.data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", to, name);
    buf_clear(&b);
    OK(file_read(test_path("%s/%s", from, name), 0, &b));
    put_plain(path, b.data, b.len);
  }
  buf_free(&names);
  buf_free(&b);
}

/* The last file with weights: of a sharded checkpoint not the first one. */
static void find_weights(const char *dir, char *out, size_t cap) {
  Buf names = {0};
  size_t count = 0;
  *out = 0;
  REQUIRE(file_list(dir, &names, &count));
  const char *name = names.data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
    if (is_weights(name) && strcmp(name, out) > 0) snprintf(out, cap, "%s", name);
  buf_free(&names);
}

static void check_weights(const char *model, const char *dir) {
  char file[256];
  static Parts p;
  find_weights(dir, file, sizeof file);
  char path[1024]; /* test_path's memory is used again */
  snprintf(path, sizeof path, "%s/%s", dir, file);
  for (size_t i = 0; i < sizeof corruption / sizeof *corruption; i++) {
    take_apart(&p, test_path("%s/oracles/models/%s/checkpoint/%s", test_shared(), model, file));
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
  if (is_ours(path)) unlink(path);
  must_refuse(model, "no weights", dir);
  buf_free(&deep);
}

static void check_config(const char *model, const char *dir) {
  static const char *const text[] = {"",
                                     "{",
                                     "[]",
                                     "{}",
                                     "{\"model_type\":\"llama\"}",
                                     "\xff",
                                     "{\"model_type\":\"no_such_family\",\"vocab_size\":9}"};
  Buf config = {0};
  char path[1024];
  snprintf(path, sizeof path, "%s/config.json", dir);
  REQUIRE(file_read(test_path("%s/oracles/models/%s/checkpoint/config.json", test_shared(), model),
                    1 << 20, &config));
  put_plain(path, config.data, config.len / 2);
  must_refuse(model, "half a config.json", dir);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    put_plain(path, text[i], strlen(text[i]));
    must_refuse(model, "another config.json", dir);
  }
  static const char *const key[] = {"vocab_size", "hidden_size", "n_embd", "num_hidden_layers",
                                    "n_layer"};
  static const char *const value[] = {"-1", "0", "1e9", "1.5", "\"8\"", "8192"};
  for (size_t i = 0; i < sizeof key / sizeof *key; i++)
    for (size_t k = 0; k < sizeof value / sizeof *value; k++) {
      const char *at = strstr(config.data, test_path("\"%s\":", key[i]));
      if (!at) continue;
      at = strchr(at, ':') + 1;
      Buf b = {0};
      buf_put(&b, config.data, (size_t)(at - config.data));
      buf_puts(&b, value[k]);
      buf_puts(&b, at + strcspn(at, ",}"));
      put_plain(path, b.data, b.len);
      must_refuse(model, test_path("%s = %s", key[i], value[k]), dir);
      buf_free(&b);
    }
  buf_free(&config);
  if (is_ours(path)) unlink(path);
  must_refuse(model, "no config.json", dir);
}

TEST(every_corrupted_checkpoint_of_the_oracles_is_refused_with_one_line) {
  NEEDS_ORACLES;
  Buf names = {0};
  size_t count = 0;
  int loaded = 0;
  REQUIRE(file_list(test_path("%s/oracles/models", test_shared()), &names, &count));
  const char *model = names.data;
  for (size_t i = 0; i < count; i++, model += strlen(model) + 1) {
    char from[512], dir[512];
    snprintf(from, sizeof from, "%s/oracles/models/%s/checkpoint", test_shared(), model);
    snprintf(dir, sizeof dir, "%s/corrupt", test_tmp());
    if (!file_is_dir(from)) continue;
    if (load(from) != GRPO_OK) {
      printf("# %s does not load: %s\n", model, err_message());
      continue;
    }
    loaded++;
    copy_files(from, dir);
    CHECK(load(dir) == GRPO_OK);
    check_weights(model, dir);
    copy_files(from, dir);
    check_config(model, dir);
  }
  buf_free(&names);
  printf("# %d checkpoints, %zu corruptions of the weights of each\n", loaded,
         sizeof corruption / sizeof *corruption + 2);
  CHECK(loaded >= 4);
}

/* ---- an index that lies ---------------------------------------------------------------------------- */

TEST(an_index_that_does_not_fit_its_shards_is_refused) {
  NEEDS_ORACLES;
  static const char model[] = "llama_linear_sharded_bf16";
  static const char *const text[] = {
      "",
      "[]",
      "{}",
      "{\"weight_map\":{}}",
      "{\"weight_map\":[\"a\"]}",
      "{\"weight_map\":{\"model.norm.weight\":7}}",
      "{\"weight_map\":{\"model.norm.weight\":\"../model-00001-of-00003.safetensors\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"gone.safetensors\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"config.json\"}}",
      "{\"weight_map\":{\"model.norm.weight\":\"model-00001-of-00003.safetensors\"}}"};
  char from[512], dir[512];
  snprintf(from, sizeof from, "%s/oracles/models/%s/checkpoint", test_shared(), model);
  snprintf(dir, sizeof dir, "%s/index", test_tmp());
  copy_files(from, dir);
  char path[1024], third[1024];
  snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
  snprintf(third, sizeof third, "%s/model-00003-of-00003.safetensors", dir);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    put_plain(path, text[i], strlen(text[i]));
    must_refuse(model, text[i], dir);
  }
  copy_files(from, dir); /* a shard twice, under another's name */
  Buf first = {0};
  OK(file_read(test_path("%s/model-00001-of-00003.safetensors", from), 0, &first));
  put_plain(third, first.data, first.len);
  buf_free(&first);
  must_refuse(model, "the first shard as the third", dir);
  CHECK(file_remove_tree(dir) == GRPO_OK);
}

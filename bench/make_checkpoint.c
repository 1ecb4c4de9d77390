/* make_checkpoint.c - a checkpoint of a true shape with random weights, in bf16 and shards.
 *
 *   build/release/bench/make_checkpoint CONFIG.json DIR [shard GB, default 5]
 *
 * Weights are roughly normal with the configuration's initializer_range; norms are 1, biases 0.
 * Only a few MiB are in memory at a time, so that an 8B model is written anywhere.  A byte
 * tokenizer is written beside it; the rest of the vocabulary is padding.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "model/config_read.h"
#include "model/config_write.h"
#include "model/model.h"
#include "model/model_struct.h"
#include "os/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"

enum { BLOCK = 1 << 20 };

static void die(void) {
  fprintf(stderr, "make_checkpoint: %s (%s)\n", err_message(), err_where());
  exit(1);
}

static void must(Status s) {
  if (s) die();
}

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* The sum of four uniform 16-bit numbers, scaled to standard deviation 1. */
static float roughly_normal(uint64_t *state) {
  const uint64_t r = next(state);
  const float sum = (float)((r & 65535) + (r >> 16 & 65535) + (r >> 32 & 65535) + (r >> 48));
  return (sum / 65536 - 2) * 1.7320508f;
}

static void put_param(StWriter *w, const Param *p, float std, uint64_t *state, float *x) {
  for (size_t at = 0; at < p->t.n; at += BLOCK) {
    const size_t n = p->t.n - at < BLOCK ? p->t.n - at : BLOCK;
    for (size_t i = 0; i < n; i++)
      x[i] = p->is_bias ? 0 : p->is_norm ? 1 : std * roughly_normal(state);
    must(st_writer_put(w, x, n));
  }
}

static void write_shard(const Model *m, const char *path, int from, int end, uint64_t *state,
                        float *x) {
  StEntry *e = calloc((size_t)(end - from), sizeof *e);
  StWriter *w;
  for (int i = from; i < end; i++) {
    const Tensor *t = &m->param[i].t;
    e[i - from] = (StEntry){.name = m->param[i].name, .type = ST_BF16, .ndim = t->ndim};
    for (int d = 0; d < t->ndim; d++) e[i - from].dim[d] = (uint64_t)t->dim[d];
  }
  must(st_writer_open(&w, path, (size_t)(end - from), e, NULL));
  free(e);
  for (int i = from; i < end; i++)
    put_param(w, &m->param[i], (float)m->config.initializer_range, state, x);
  must(st_writer_commit(w));
}

static int shard_end(const Model *m, int from, double bytes) {
  double used = 0;
  int i = from;
  for (; i < m->nparams; i++) {
    used += 2.0 * (double)m->param[i].t.n;
    if (i > from && used > bytes) break;
  }
  return i;
}

static void write_weights(const Model *m, const char *dir, double shard_bytes) {
  char path[4096], name[64];
  Buf index = {0};
  uint64_t state = 0x9E3779B97F4A7C15u, total = 0;
  float *x = malloc(BLOCK * sizeof *x);
  int shards = 0, k = 0;
  for (int from = 0; from < m->nparams; shards++) from = shard_end(m, from, shard_bytes);
  for (int from = 0, end; from < m->nparams; from = end, k++) {
    end = shard_end(m, from, shard_bytes);
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", k + 1, shards);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    write_shard(m, path, from, end, &state, x);
    for (int i = from; i < end; i++) {
      buf_printf(&index, "%s\n    \"%s\": \"%s\"", i ? "," : "", m->param[i].name, name);
      total += 2 * (uint64_t)m->param[i].t.n;
    }
  }
  free(x);
  Buf b = {0};
  buf_printf(&b, "{\n  \"metadata\": {\"total_size\": %llu},\n  \"weight_map\": {",
             (unsigned long long)total);
  buf_put(&b, index.data, index.len);
  buf_puts(&b, "\n  }\n}\n");
  snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
  must(file_replace(path, b.data, b.len));
  buf_free(&b);
  buf_free(&index);
}

static void write_rest(const Config *c, const char *dir) {
  char path[4096];
  Buf b = {0};
  Tokenizer *t;
  config_write(&b, c);
  snprintf(path, sizeof path, "%s/config.json", dir);
  must(file_replace(path, b.data, b.len));
  buf_free(&b);
  must(tokenizer_bytes(&t));
  must(tokenizer_save(t, dir));
  tokenizer_free(t);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "make_checkpoint CONFIG.json DIR [shard GB]\n");
    return 2;
  }
  Json *j;
  Config c;
  Model *m;
  must(json_read_file(argv[1], 0, &j));
  must(config_read(&c, j, argv[1]));
  json_free(j);
  must(model_layout(&m, NULL, &c));
  must(file_mkdirs(argv[2]));
  write_weights(m, argv[2], (argc > 3 ? atof(argv[3]) : 5) * 1e9);
  write_rest(&c, argv[2]);
  printf("%s: %.3f billion parameters\n", argv[2], (double)model_count(m) / 1e9);
  model_release(m);
  return 0;
}

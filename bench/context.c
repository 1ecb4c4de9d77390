/* context.c - a step of decoding by the number of sequences and the length of their context, beside
 * the time of the bytes that it reads and writes, at the rate at which this machine reads memory,
 * and its floor: where products of weights or of attention take longer than reading, their time.
 *
 *   build/release/bench/context MODEL f32|bf16 THREADS SEQUENCES,... CONTEXT,... [steps, default 9]
 *
 * The sequences are one group behind a shared prompt.  Its keys and states are made up, so that a
 * long context costs no prefill.  Of a mixture, the experts count that some sequence took.  Times
 * are core time: what the threads used, over their number.
 * Rates are measured before and after each row, by core time too, and the better ones count.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "checkpoint/weights.h"
#include "grad/attrs.h"
#include "model/cache.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/layer_kind.h"
#include "model/model_struct.h"
#include "rates.h"

enum { MAX_STEPS = 99, MAX_SEQUENCES = 64 };

typedef struct Bench {
  Model *m;
  Tape tape;
  LayerCache layer[CONFIG_MAX_LAYERS];
  Cache prompt, own;
  int threads, context, n;
  double taken, there; /* experts that some sequence took, and all: over the steps that are timed */
  real *logits;
} Bench;

static void die(void) {
  fprintf(stderr, "context: %s (%s)\n", err_message(), err_where());
  exit(1);
}

static void must(Status s) {
  if (s) die();
}

static double core_seconds(const Bench *b) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) / b->threads;
}

static int by_value(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* ---- bytes ------------------------------------------------------------------------- */

/* share: of the experts that are read */
static double weight_bytes(const Model *m, double share) {
  double bytes = 0;
  for (int i = 0; i < m->nparams; i++) {
    const Tensor *t = &m->param[i].t;
    const bool half = t->quant && t->quant->type != QUANT_F32;
    const double part = m->param[i].is_expert ? share : 1;
    if (m->config.tie_word_embeddings || t != m->t[M_EMBED])
      bytes += part * (double)t->n * (half ? 2 : 4);
  }
  return bytes;
}

/* The keys and values of a token, and the state of a sequence. */
static void cache_bytes(const Bench *b, double *token, double *state) {
  *token = *state = 0;
  for (int i = 0; i < b->m->config.num_hidden_layers; i++) {
    const AttnShape *s = &b->layer[i].shape;
    const double size = kv_in_bf16(s) ? 2 : sizeof(real);
    *token += s->heads ? (double)kv_blocks(s) * s->kv_heads * s->head_dim * size : 0;
    *state += (double)b->layer[i].state * sizeof(real);
  }
}

static double product_flops(const Model *m, int n) {
  double weights = 0;
  for (int i = 0; i < m->nparams; i++)
    if (m->config.tie_word_embeddings || &m->param[i].t != m->t[M_EMBED])
      weights +=
          (double)m->param[i].t.n *
          (m->param[i].is_expert ? (double)m->config.num_experts_per_tok / m->config.num_experts
                                 : 1);
  return 2 * weights * n;
}

static double attention_flops(const Bench *b) {
  double flops = 0;
  for (int i = 0; i < b->m->config.num_hidden_layers; i++)
    flops += 4. * b->layer[i].shape.heads * b->layer[i].shape.head_dim * b->context;
  return flops * b->n;
}

typedef struct Times {
  double reading, floor;
} Times;

/* Weights and the group's keys are read once; each sequence reads and writes its state. */
static Times least_times(const Bench *b, double bytes_rate, double flops_rate) {
  double token, state;
  cache_bytes(b, &token, &state);
  const double share = b->there > 0 ? b->taken / b->there : 1;
  const double weights = weight_bytes(b->m, share) / bytes_rate;
  const double keys = token * b->context / bytes_rate, states = 2 * state * b->n / bytes_rate;
  const double products = product_flops(b->m, b->n) / flops_rate;
  const double attention = attention_flops(b) / flops_rate;
  return (Times){weights + keys + states, fmax(weights, products) + fmax(keys, attention) + states};
}

/* Counts the different experts of a layer's route. */
static Status count_experts(void *user, const Tape *t, const Node *nd, int at, bool backward) {
  Bench *b = user;
  (void)t, (void)at, (void)backward;
  if (strcmp(nd->op->name, "route") != 0) return GRPO_OK;
  const int top_k = b->m->config.num_experts_per_tok;
  bool taken[ROUTE_MAX_EXPERTS] = {false};
  for (int i = 0; i < b->n; i++)
    for (int k = 0; k < top_k; k++) taken[(int)nd->out->data[(2 * i + 1) * top_k + k]] = true;
  for (int i = 0; i < b->m->config.num_experts; i++) b->taken += taken[i], b->there++;
  return GRPO_OK;
}

/* ---- a step -------------------------------------------------------------------------- */

static void step(Bench *b, int at) {
  AttnSpan span[MAX_SEQUENCES];
  int32_t ids[MAX_SEQUENCES], pos[MAX_SEQUENCES];
  Tensor *x, *hidden;
  for (int i = 0; i < b->n; i++) {
    cache_set_len(&b->own, i, b->context, at + 1);
    span[i] = (AttnSpan){.prefix = cache_segment(&b->prompt, 0),
                         .own = cache_segment(&b->own, i),
                         .row = i,
                         .n = 1,
                         .own_at = at};
    ids[i] = (i * 131 + at * 37) % 1000;
    pos[i] = b->context + at;
  }
  const Rows rows = {.n = b->n, .ids = ids, .pos = pos, .nspans = b->n, .spans = span};
  tape_reset(&b->tape);
  must(forward_layers(b->m, &b->tape, &rows, &x));
  must(forward_final_norm(b->m, &b->tape, x, &hidden));
  must(forward_row_logits(b->m, &b->tape.cx, b->n, hidden->data, b->logits));
}

static double median_step(Bench *b, int steps) {
  double t[MAX_STEPS];
  step(b, 0);
  b->taken = b->there = 0;
  for (int i = 0; i < steps; i++) {
    const double begin = core_seconds(b);
    step(b, i + 1);
    t[i] = core_seconds(b) - begin;
  }
  qsort(t, (size_t)steps, sizeof *t, by_value);
  return t[steps / 2];
}

/* Measures the rates again; the better ones stay. */
static void probe(const Bench *b, double *bytes, double *flops) {
  const bool half = b->m->compute == COMPUTE_BF16;
  Rate read, product;
  must(rate_read(&b->tape.cx, 0.3, &read));
  must(rate_product(&b->tape.cx, half ? RATE_BF16_FORWARD : RATE_FORWARD, 1024, 2048, 2048, 0.2,
                    &product));
  *bytes = fmax(*bytes, read.cores);
  *flops = fmax(*flops, product.cores);
}

static void row(Bench *b, int n, int context, int steps) {
  const int layers = b->m->config.num_hidden_layers;
  double token, state, bytes = 0, flops = 0;
  b->n = n, b->context = context;
  must(cache_new(&b->prompt, b->layer, layers, 1, context, 0));
  must(cache_new(&b->own, b->layer, layers, n, steps + 1, -1));
  cache_take(&b->prompt);
  for (int i = 0; i < n; i++) cache_take(&b->own);
  memset(b->prompt.memory, 0x3c, b->prompt.reals * sizeof(real)); /* 0.0115 in both types */
  cache_set_len(&b->prompt, 0, 0, context);
  probe(b, &bytes, &flops);
  const double seconds = median_step(b, steps);
  probe(b, &bytes, &flops);
  const Times least = least_times(b, bytes, flops);
  cache_bytes(b, &token, &state);
  printf("%9d %8d %9.2f %9.2f %6.2f %9.2f %6.2f %9.1f %9.1f %10.1f %6.1f %6.0f\n", n, context,
         1e3 * seconds, 1e3 * least.reading, seconds / least.reading, 1e3 * least.floor,
         seconds / least.floor, n / seconds, token * context / 1048576, state * n / 1048576,
         bytes / 1e9, flops / 1e9);
  fflush(stdout);
  cache_free(&b->prompt), cache_free(&b->own);
}

static int next_number(char **list) {
  const int n = (int)strtol(*list, list, 10);
  *list += **list == ',';
  return n;
}

int main(int argc, char **argv) {
  static Bench b;
  Pool *pool;
  const int steps = argc > 6 ? atoi(argv[6]) : 9;
  if (argc < 6 || steps < 1 || steps > MAX_STEPS || atoi(argv[3]) < 1) {
    fprintf(stderr, "usage: context MODEL f32|bf16 THREADS SEQUENCES,... CONTEXT,... [steps]\n");
    return 2;
  }
  const Compute compute = strcmp(argv[2], "bf16") == 0 ? COMPUTE_BF16 : COMPUTE_F32;
  b.threads = atoi(argv[3]);
  must(pool_new(&pool, b.threads));
  must(weights_load_compute(&b.m, pool, argv[1], STORE_AUTO, compute));
  must(model_tape(b.m, &b.tape));
  b.tape.off = true;
  b.tape.look = count_experts;
  b.tape.look_user = &b;
  layer_caches(&b.m->config, compute, b.m->cpu, b.layer);
  b.logits = mem_alloc_aligned((size_t)MAX_SEQUENCES * (size_t)b.m->config.vocab_size * 4);
  if (!b.logits) return 1;
  printf("%s, compute %s, %d threads, %.0f MiB of weights\n", argv[1], argv[2], b.threads,
         weight_bytes(b.m, 1) / 1048576);
  printf(
      "sequences  context   core ms   read ms  ratio  floor ms  ratio  tokens/s  keys MiB states "
      "MiB   GB/s   GF/s\n");
  for (char *contexts = argv[5]; *contexts;) {
    const int context = next_number(&contexts);
    for (char *list = argv[4]; *list;) {
      const int n = next_number(&list);
      if (n >= 1 && n <= MAX_SEQUENCES && context >= 1) row(&b, n, context, steps);
    }
  }
  mem_free_aligned(b.logits);
  tape_free(&b.tape);
  model_release(b.m);
  pool_free(pool);
  return 0;
}

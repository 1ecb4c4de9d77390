/* quant.c - quantised weights: filling them, reading them, and bitsandbytes' layout.  Products are
 * in gemm_quant.c. */
#include "kern/quant.h"
#include "kern/nf4.h"
#include "kern/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"

enum {
  PUT_ROWS = 64,  /* rows that a chunk converts: whole groups, and whole NF4 blocks for every k */
  STEPS = 64,     /* inner steps unpacked at a time */
  CELL_STEPS = 8, /* inner steps of an NF4 cell */
  ZERO_CODE = 7
};

static int cells_of(int k) { return ceil_div(k, CELL_STEPS); }
static size_t nests_of(int n, int k) { return (quant_nf4_blocks(n, k) + NF4_NEST - 1) / NF4_NEST; }

/* ---- memory ------------------------------------------------------------------------ */

/* bytes of a value; NF4: of a 32-bit number */
static size_t element_bytes(QuantType type) {
  static const size_t bytes[] = {
      [QUANT_F32] = 4, [QUANT_BF16] = 2, [QUANT_F16] = 2, [QUANT_INT8] = 1, [QUANT_NF4] = 4};
  return bytes[type];
}

static size_t data_bytes(QuantType type, int n, int k) {
  const int steps = type == QUANT_NF4 ? cells_of(k) : type == QUANT_BF16 ? round_up(k, 2) : k;
  return (size_t)round_up(n, GROUP) * (size_t)steps * element_bytes(type);
}

static size_t scale_bytes(QuantType type, int n, int k) {
  if (type == QUANT_INT8) return (size_t)round_up(n, GROUP) * sizeof(float);
  return type == QUANT_NF4 ? nests_of(n, k) * sizeof(float) : 0;
}

static size_t absmax_bytes(QuantType type, int n, int k) {
  return type == QUANT_NF4 ? quant_nf4_blocks(n, k) : 0;
}

size_t quant_bytes(QuantType type, int n, int k) {
  return mem_aligned_size(data_bytes(type, n, k)) + scale_bytes(type, n, k) +
         absmax_bytes(type, n, k) + sizeof(QuantWeight);
}

Status quant_new(QuantWeight **out, QuantType type, int n, int k) {
  QuantWeight *m = mem_zalloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "matrix: no memory");
  *m = (QuantWeight){.type = type, .n = n, .k = k, .ng = kernels(NULL)->ng};
  m->data = mem_alloc_aligned(data_bytes(type, n, k));
  bool ok = m->data != NULL;
  if (ok && scale_bytes(type, n, k)) ok = (m->scale = mem_zalloc(scale_bytes(type, n, k)));
  if (ok && type == QUANT_NF4) {
    ok = (m->absmax = mem_zalloc(absmax_bytes(type, n, k)));
    ok = ok && (m->plain_absmax = mem_zalloc(quant_nf4_blocks(n, k) * sizeof(float)));
  }
  if (!ok) {
    quant_free(m);
    return fail(GRPO_ENOMEM, "matrix: no memory for a weight of %d x %d", n, k);
  }
  *out = m;
  return GRPO_OK;
}

size_t quant_data_bytes(const QuantWeight *m) { return data_bytes(m->type, m->n, m->k); }

void quant_free(QuantWeight *m) {
  if (!m) return;
  if (!m->borrowed) mem_free_aligned(m->data);
  mem_free(m->scale);
  mem_free(m->absmax);
  mem_free(m->plain_absmax);
  mem_free(m);
}

/* ---- filling ------------------------------------------------------------------------ */

typedef struct Put {
  const KernelClass *cpu;
  QuantWeight *m;
  int row, rows;
  const float *w;
} Put;

static size_t place(const QuantWeight *m, int i, int p) {
  return ((size_t)(i / GROUP) * (size_t)m->k + (size_t)p) * GROUP + (size_t)(i % GROUP);
}

/* a bf16 value is one half of its pair */
static uint16_t *pair_half(const QuantWeight *m, int i, int p) {
  const size_t pair = (size_t)(i / GROUP) * (size_t)ceil_div(m->k, 2) + (size_t)(p / 2);
  return (uint16_t *)m->data + (pair * GROUP + (size_t)(i % GROUP)) * 2 + p % 2;
}

static uint32_t *nf4_word(const QuantWeight *m, int i, int p) {
  const size_t cell = (size_t)(i / GROUP) * (size_t)cells_of(m->k) + (size_t)(p / CELL_STEPS);
  return (uint32_t *)m->data + cell * GROUP + i % GROUP;
}

static void nf4_set(QuantWeight *m, int i, int p, uint8_t code) {
  const int shift = p % CELL_STEPS * 4;
  uint32_t *word = nf4_word(m, i, p);
  *word = (*word & ~(15u << shift)) | (uint32_t)code << shift;
}

static uint8_t nf4_at(const QuantWeight *m, int i, int p) {
  return (uint8_t)(*nf4_word(m, i, p) >> p % CELL_STEPS * 4 & 15);
}

static float *panel_steps(const QuantWeight *m, int group, int p, ptrdiff_t *ld) {
  const int panel = panels_with(m->n, m->ng, group), first = panels_first(m->n, m->ng, panel);
  *ld = (panels_first(m->n, m->ng, panel + 1) - first) * GROUP;
  return (float *)m->data + (size_t)(first * GROUP) * (size_t)m->k + p * *ld +
         (group - first) * GROUP;
}

const float *quant_steps(const QuantWeight *m, int group, int at, ptrdiff_t *ld) {
  return panel_steps(m, group, at, ld);
}

/* Stores `depth` inner steps from p of a group from x [depth, GROUP]. */
static void put_halves(QuantWeight *m, int group, int p, int depth, const float *x) {
  uint16_t *to = (uint16_t *)m->data + place(m, group * GROUP, p);
  for (int i = 0; i < depth * GROUP; i++) to[i] = f32_to_f16(x[i]);
}

/* p is even */
static void put_pairs(QuantWeight *m, int group, int p, int depth, const float *x) {
  uint32_t *to = (uint32_t *)(void *)pair_half(m, group * GROUP, p);
  for (int s = 0; s < depth; s += 2, x += 2 * GROUP, to += GROUP)
    for (int i = 0; i < GROUP; i++) {
      const uint16_t second = s + 1 < depth ? f32_to_bf16(x[GROUP + i]) : 0;
      to[i] = f32_to_bf16(x[i]) | (uint32_t)second << 16;
    }
}

/* Rounds to the nearest, halves away from zero; a quotient is below 128.  A row that has a value
 * that is not finite has a scale that is not a number, and so have all its values then. */
static void put_bytes(QuantWeight *m, int group, int p, int depth, const float *x) {
  int8_t *to = (int8_t *)m->data + place(m, group * GROUP, p);
  float scale[GROUP];
  bool finite[GROUP];
  int r[GROUP];
  for (int i = 0; i < GROUP; i++) {
    const float s = m->scale[group * GROUP + i];
    finite[i] = s == s;
    scale[i] = s > 0 ? s : 1; /* the row is all zeros */
  }
  for (int s = 0; s < depth; s++, x += GROUP, to += GROUP) {
    for (int i = 0; i < GROUP; i++) {
      const float q = finite[i] ? x[i] / scale[i] : 0;
      const int whole = (int)q;
      const float rest = q - (float)whole;
      r[i] = whole + (rest >= 0.5f) - (rest <= -0.5f);
    }
    for (int i = 0; i < GROUP; i++) r[i] = r[i] > 127 ? 127 : r[i] < -127 ? -127 : r[i];
    for (int i = 0; i < GROUP; i++) to[i] = (int8_t)r[i];
  }
}

static void put_floats(QuantWeight *m, int group, int p, int depth, const float *x) {
  ptrdiff_t ld;
  float *to = panel_steps(m, group, p, &ld);
  for (int i = 0; i < depth; i++, x += GROUP, to += ld) memcpy(to, x, sizeof *x * GROUP);
}

static void put_steps(QuantWeight *m, int group, int p, int depth, const float *x) {
  if (m->type == QUANT_F32) put_floats(m, group, p, depth, x);
  if (m->type == QUANT_BF16) put_pairs(m, group, p, depth, x);
  if (m->type == QUANT_F16) put_halves(m, group, p, depth, x);
  if (m->type == QUANT_INT8) put_bytes(m, group, p, depth, x);
}

/* x[p][i] = w[i][p], and zeros for rows beyond the last */
static void transpose_steps(const KernelClass *cpu, int rows, int depth, const float *w, size_t ld,
                            float *x) {
#ifdef GRPO_DOUBLE
  (void)cpu;
  for (int i = 0; i < rows; i++)
    for (int p = 0; p < depth; p++) x[p * GROUP + i] = w[(size_t)i * ld + (size_t)p];
#else
  kernels(cpu)->transpose(rows, depth, w, (ptrdiff_t)ld, x, GROUP);
#endif
  for (int p = 0; p < depth && rows < GROUP; p++)
    memset(x + p * GROUP + rows, 0, sizeof *x * (size_t)(GROUP - rows));
}

/* w is the group's first row */
static void put_group(const KernelClass *cpu, QuantWeight *m, int group, const float *w) {
  const int rows = min_int(GROUP, m->n - group * GROUP);
  const size_t k = (size_t)m->k;
  float x[STEPS * GROUP];
  for (int i = 0; m->type == QUANT_INT8 && i < rows; i++) {
    float most = 0, zero = 0; /* v - v is not a number where v is not finite */
    for (size_t p = 0; p < k; p++) {
      const float v = w[(size_t)i * k + p];
      if (fabsf(v) > most) most = fabsf(v);
      zero += v - v;
    }
    m->scale[group * GROUP + i] = zero == 0 ? most / 127 : zero;
  }
  for (int p = 0; p < m->k; p += STEPS) {
    const int depth = min_int(STEPS, m->k - p);
    transpose_steps(cpu, rows, depth, w + p, k, x);
    put_steps(m, group, p, depth, x);
  }
}

/* 8 codes of 4 bits, the first one lowest */
static uint32_t word_of(const uint8_t code[CELL_STEPS]) {
  uint32_t word = 0;
  for (int i = 0; i < CELL_STEPS; i++) word |= (uint32_t)code[i] << 4 * i;
  return word;
}

/* Stores codes of consecutive values; whole cells at a time where rows begin with a block. */
static void put_codes(QuantWeight *m, size_t from, int count, const uint8_t *code) {
  const size_t k = (size_t)m->k;
  int j = 0;
  if (k % NF4_BLOCK == 0) {
    uint32_t *word = nf4_word(m, (int)(from / k), (int)(from % k));
    for (; j < count; j += CELL_STEPS, word += GROUP) *word = word_of(code + j);
  }
  for (; j < count; j++)
    nf4_set(m, (int)((from + (size_t)j) / k), (int)((from + (size_t)j) % k), code[j]);
}

static void put_nf4(const KernelClass *cpu, QuantWeight *m, int row, int rows, const float *w) {
  const size_t k = (size_t)m->k, first = (size_t)row * k, n = (size_t)rows * k;
  uint8_t code[NF4_BLOCK];
  for (size_t at = 0; at < n; at += NF4_BLOCK) {
    const int count = n - at < NF4_BLOCK ? (int)(n - at) : NF4_BLOCK;
    m->plain_absmax[(first + at) / NF4_BLOCK] = nf4_quantise(cpu, count, w + at, code);
    put_codes(m, first + at, count, code);
  }
}

/* Rows and steps that only pad are not written and stay zero, except that float32 writes all. */
static void clear_rows(const QuantWeight *m, int row, int rows) {
  if (m->type == QUANT_F32) return;
  const size_t group = (size_t)quant_stride(m) * element_bytes(m->type);
  memset((char *)m->data + (size_t)(row / GROUP) * group, 0, (size_t)ceil_div(rows, GROUP) * group);
}

static void put_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Put *j = arg;
  const int at = chunk * PUT_ROWS, rows = min_int(PUT_ROWS, j->rows - at);
  const float *w = j->w + (size_t)at * (size_t)j->m->k;
  clear_rows(j->m, j->row + at, rows);
  if (j->m->type == QUANT_NF4)
    put_nf4(j->cpu, j->m, j->row + at, rows, w);
  else
    for (int i = 0; i < rows; i += GROUP)
      put_group(j->cpu, j->m, (j->row + at + i) / GROUP, w + (size_t)i * (size_t)j->m->k);
}

Status quant_put(const Ctx *cx, QuantWeight *m, int row, int rows, const float *w) {
  if (row < 0 || rows < 0 || row > m->n - rows || row % PUT_ROWS ||
      (rows % PUT_ROWS && row + rows != m->n) || (m->type == QUANT_NF4 && !m->plain_absmax))
    return fail(GRPO_EARG, "matrix: rows %d .. %d of %d cannot be filled", row, row + rows, m->n);
  Put j = {cx->cpu, m, row, rows, w};
  pool_run(cx->pool, ceil_div(rows, PUT_ROWS), put_chunk, &j);
  return GRPO_OK;
}

/* All scales share one offset, so a block that is not finite would destroy the whole weight. */
static Status check_nf4(const QuantWeight *m) {
  const size_t k = (size_t)m->k, values = (size_t)m->n * k;
  for (size_t b = 0; b < quant_nf4_blocks(m->n, m->k); b++) {
    if (isfinite(m->plain_absmax[b])) continue;
    const size_t at = b * NF4_BLOCK, end = at + NF4_BLOCK < values ? at + NF4_BLOCK : values;
    char to[32] = "";
    if (at / k != (end - 1) / k) snprintf(to, sizeof to, " to %zu", (end - 1) / k);
    return fail(GRPO_EFORMAT,
                "a value in row %zu%s of %d is not finite, and NF4 has no code for it", at / k, to,
                m->n);
  }
  return GRPO_OK;
}

Status quant_done(const Ctx *cx, QuantWeight *m) {
  if (!m->plain_absmax) return GRPO_OK;
  if (!mem_measuring()) {
    try(check_nf4(m));
    m->offset =
        nf4_quantise_scales(cx, quant_nf4_blocks(m->n, m->k), m->plain_absmax, m->absmax, m->scale);
  }
  mem_free(m->plain_absmax);
  m->plain_absmax = NULL;
  return GRPO_OK;
}

#ifndef GRPO_DOUBLE
Status quant_pack_in_place(const Ctx *cx, QuantWeight **out, int n, int k, float *w) {
  QuantWeight *m = mem_zalloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "matrix: no memory");
  *m = (QuantWeight){
      .type = QUANT_F32, .n = n, .k = k, .data = w, .ng = kernels(cx->cpu)->ng, .borrowed = true};
  const Status s = panels_in_place(cx, n, k, m->ng, w);
  if (s == GRPO_OK)
    *out = m;
  else
    quant_free(m);
  return s;
}

Status quant_unpack_in_place(const Ctx *cx, QuantWeight *m) {
  try(panels_to_rows(cx, m->n, m->k, m->ng, m->data));
  quant_free(m);
  return GRPO_OK;
}
#endif

/* ---- a group's values ------------------------------------------------------------------ */

static inline real nf4_scale(const QuantWeight *m, size_t block) {
  if (m->plain_absmax) return (real)m->plain_absmax[block];
  return (real)(nf4_absmax_map[m->absmax[block]] * m->scale[block / NF4_NEST] + m->offset);
}

/* scale[b * ld + i] of `count` blocks of `outputs` rows from a block on */
static void nf4_scales(const KernelClass *cpu, const QuantWeight *m, size_t block, int outputs,
                       int count, real *scale, ptrdiff_t ld) {
  const size_t row_blocks = (size_t)m->k / NF4_BLOCK;
  const float offset = m->offset;
  if (outputs == GROUP && !m->plain_absmax && kernels(cpu)->nf4_scales) {
    const Nf4Nested n = {m->absmax, m->scale, offset, block, row_blocks, count};
    kernels(cpu)->nf4_scales(&n, scale, ld);
    return;
  }
  for (int i = 0; i < outputs; i++, block += row_blocks, scale++) {
    const uint8_t *code = m->absmax + block;
    const float nest = m->scale[block / NF4_NEST];
    /* blocks left in this nest */
    const int left = m->plain_absmax ? 0 : NF4_NEST - (int)(block % NF4_NEST);
    int b = 0;
    for (real *to = scale; b < min_int(left, count); b++, to += ld)
      *to = (real)(nf4_absmax_map[code[b]] * nest + offset);
    for (; b < count; b++) scale[b * ld] = nf4_scale(m, block + (size_t)b);
  }
}

void quant_scales(const KernelClass *cpu, const QuantWeight *m, int group, int at, int blocks,
                  real *scale, ptrdiff_t ld) {
  const int first = group * GROUP, outputs = min_int(GROUP, m->n - first);
  const int scaled = m->type == QUANT_INT8 || m->type == QUANT_NF4 ? outputs : 0;
  if (m->type == QUANT_NF4)
    nf4_scales(cpu, m, (size_t)first * (size_t)(m->k / NF4_BLOCK) + (size_t)(at / NF4_BLOCK),
               outputs, blocks, scale, ld);
  for (int b = 0; b < blocks; b++, scale += ld) {
    if (m->type == QUANT_INT8)
      for (int i = 0; i < outputs; i++) scale[i] = (real)m->scale[first + i];
    for (int i = scaled; i < GROUP; i++) scale[i] = 0;
  }
}

void quant_fetch_scales(const QuantWeight *m, int group, int groups) {
  enum { LINE = 64 };
  const int first = min_int(m->n, group * GROUP), last = min_int(m->n, first + groups * GROUP);
  const size_t from = (size_t)first, to = (size_t)last, blocks = (size_t)(m->k / NF4_BLOCK);
  const char *at = NULL, *end = NULL;
  if (m->type == QUANT_INT8)
    at = (const char *)(m->scale + from), end = (const char *)(m->scale + to);
  if (m->type == QUANT_NF4 && !m->plain_absmax)
    at = (const char *)m->absmax + from * blocks, end = (const char *)m->absmax + to * blocks;
  for (; at < end; at += LINE) __builtin_prefetch(at);
}

ptrdiff_t quant_stride(const QuantWeight *m) {
  if (m->type == QUANT_BF16) return (ptrdiff_t)round_up(m->k, 2) * GROUP;
  return (ptrdiff_t)(m->type == QUANT_NF4 ? cells_of(m->k) : m->k) * GROUP;
}

const void *quant_values(const QuantWeight *m, int group, int at) {
  if (m->type == QUANT_NF4) return nf4_word(m, group * GROUP, at);
  if (m->type == QUANT_BF16) return pair_half(m, group * GROUP, at);
  return (const char *)m->data + place(m, group * GROUP, at) * element_bytes(m->type);
}

/* Every row's block begins at a multiple of 64 inner steps. */
static void unpack_nf4(const KernelClass *cpu, const QuantWeight *m, int group, int at, int depth,
                       real *out) {
  enum { BLOCKS = 4 };
  real scale[BLOCKS][GROUP];
  const int end = at + depth;
  for (int p = at; p < end;) {
    const int first = p - p % NF4_BLOCK, last = min_int(end, first + BLOCKS * NF4_BLOCK);
    quant_scales(cpu, m, group, first, ceil_div(last - first, NF4_BLOCK), scale[0], GROUP);
    for (int b = 0; p < last; b++) {
      const int next = min_int(last, first + (b + 1) * NF4_BLOCK);
      kernels(cpu)->widen_nf4(next - p, quant_values(m, group, p), scale[b], out);
      out += (next - p) * GROUP;
      p = next;
    }
  }
}

/* Blocks begin anywhere in a row: the codes are unpacked first, then each is scaled. */
static void unpack_nf4_odd(const KernelClass *cpu, const QuantWeight *m, int group, int at,
                           int depth, real *out) {
  const int outputs = min_int(GROUP, m->n - group * GROUP);
  real ones[GROUP];
  for (int i = 0; i < GROUP; i++) ones[i] = i < outputs;
  kernels(cpu)->widen_nf4(depth, quant_values(m, group, at), ones, out);
  for (int i = 0; i < outputs; i++) {
    const size_t row = (size_t)(group * GROUP + i) * (size_t)m->k;
    for (int p = 0; p < depth;) {
      const size_t e = row + (size_t)(at + p);
      const int end = min_int(depth, p + NF4_BLOCK - (int)(e % NF4_BLOCK));
      const real scale = nf4_scale(m, e / NF4_BLOCK);
      for (; p < end; p++) out[p * GROUP + i] *= scale;
    }
  }
}

static void unpack_floats(const QuantWeight *m, int group, int at, int depth, real *out) {
  ptrdiff_t ld;
  const float *from = quant_steps(m, group, at, &ld);
  for (int p = 0; p < depth; p++, from += ld, out += GROUP)
    for (int i = 0; i < GROUP; i++) out[i] = (real)from[i];
}

void quant_unpack(const KernelClass *cpu, const QuantWeight *m, int group, int at, int depth,
                  real *out) {
  const void *from = quant_values(m, group, at);
  const size_t n = (size_t)depth * GROUP;
  real scale[GROUP];
  switch (m->type) {
  case QUANT_F32:
    unpack_floats(m, group, at, depth, out);
    break;
  case QUANT_BF16:
    kernels(cpu)->widen_bf16(depth, from, out);
    break;
  case QUANT_F16:
    kernels(cpu)->widen_f16(n, from, out);
    break;
  case QUANT_INT8:
    quant_scales(cpu, m, group, 0, 1, scale, GROUP);
    kernels(cpu)->widen_int8(depth, from, scale, out);
    break;
  case QUANT_NF4:
    if (m->k % NF4_BLOCK)
      unpack_nf4_odd(cpu, m, group, at, depth, out);
    else
      unpack_nf4(cpu, m, group, at, depth, out);
  }
}

/* ---- rows -------------------------------------------------------------------------------- */

typedef struct Get {
  const KernelClass *cpu;
  const QuantWeight *m;
  int row, rows;
  const int32_t *ids;
  real *out;
} Get;

/* out[i] = row from + i of the group, for `rows` rows */
static void get_rows(const KernelClass *cpu, const QuantWeight *m, int row, int rows, real *out) {
  const int group = row / GROUP, from = row % GROUP;
  real block[STEPS * GROUP];
  if (m->type == QUANT_F32) {
    ptrdiff_t ld;
    const float *w = quant_steps(m, group, 0, &ld) + from;
    for (int i = 0; i < rows; i++)
      for (int p = 0; p < m->k; p++) *out++ = (real)w[i + p * ld];
    return;
  }
  for (int at = 0; at < m->k; at += STEPS) {
    const int depth = min_int(STEPS, m->k - at);
    quant_unpack(cpu, m, group, at, depth, block);
    for (int i = 0; i < rows; i++)
      for (int p = 0; p < depth; p++)
        out[(size_t)i * (size_t)m->k + (size_t)(at + p)] = block[p * GROUP + from + i];
  }
}

static void get_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Get *g = arg;
  const int group = g->row / GROUP + chunk, from = max_int(g->row, group * GROUP);
  const int to = min_int(g->row + g->rows, (group + 1) * GROUP);
  get_rows(g->cpu, g->m, from, to - from, g->out + (size_t)(from - g->row) * (size_t)g->m->k);
}

void quant_get(const Ctx *cx, const QuantWeight *m, int row, int rows, real *out) {
  Get g = {.cpu = cx->cpu, .m = m, .row = row, .rows = rows, .out = out};
  if (rows > 0) pool_run(cx->pool, (row + rows - 1) / GROUP - row / GROUP + 1, get_chunk, &g);
}

static void gather_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Get *g = arg;
  get_rows(g->cpu, g->m, g->ids[chunk], 1, g->out + (size_t)chunk * (size_t)g->m->k);
}

void quant_gather(const Ctx *cx, const QuantWeight *m, int count, const int32_t *ids, real *out) {
  Get g = {.cpu = cx->cpu, .m = m, .ids = ids, .out = out};
  pool_run(cx->pool, count, gather_chunk, &g);
}

/* ---- bitsandbytes' layout ------------------------------------------------------------------ */

/* bitsandbytes stores the first of two codes in the upper half of a byte. */
static uint32_t swap_halves(uint32_t x) { return (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4; }

static void import_codes(QuantWeight *m, const uint8_t *packed) {
  const size_t k = (size_t)m->k, n = (size_t)m->n * k;
  clear_rows(m, 0, m->n);
  if (k % CELL_STEPS == 0) {
    for (int i = 0; i < m->n; i++) {
      uint32_t *to = nf4_word(m, i, 0);
      for (size_t c = 0; c < k / CELL_STEPS; c++, packed += 4, to += GROUP) {
        uint32_t word;
        memcpy(&word, packed, sizeof word);
        *to = swap_halves(word);
      }
    }
    return;
  }
  for (size_t e = 0; e < n; e++)
    nf4_set(m, (int)(e / k), (int)(e % k), packed[e / 2] >> (e % 2 ? 0 : 4) & 15);
}

void quant_nf4_export(const QuantWeight *m, uint8_t *packed) {
  const size_t k = (size_t)m->k, n = (size_t)m->n * k;
  memset(packed, 0, (n + 1) / 2);
  if (k % CELL_STEPS == 0) {
    for (int i = 0; i < m->n; i++)
      for (size_t c = 0; c < k / CELL_STEPS; c++, packed += 4) {
        const uint32_t word = swap_halves(*nf4_word(m, i, (int)c * CELL_STEPS));
        memcpy(packed, &word, sizeof word);
      }
    return;
  }
  for (size_t e = 0; e < n; e++)
    packed[e / 2] |= (uint8_t)(nf4_at(m, (int)(e / k), (int)(e % k)) << (e % 2 ? 0 : 4));
  if (n % 2) packed[n / 2] |= ZERO_CODE;
}

void quant_nf4_import(QuantWeight *m, const uint8_t *packed, const uint8_t *absmax,
                      const float *scale, float offset) {
  import_codes(m, packed);
  memcpy(m->absmax, absmax, absmax_bytes(QUANT_NF4, m->n, m->k));
  memcpy(m->scale, scale, scale_bytes(QUANT_NF4, m->n, m->k));
  m->offset = offset;
  mem_free(m->plain_absmax);
  m->plain_absmax = NULL;
}

void quant_nf4_import_plain(QuantWeight *m, const uint8_t *packed, const float *plain_absmax) {
  import_codes(m, packed);
  memcpy(m->plain_absmax, plain_absmax, quant_nf4_blocks(m->n, m->k) * sizeof(float));
}

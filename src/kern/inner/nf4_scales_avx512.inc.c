/* nf4_scales_avx512.inc.c - scales of NF4 with double quantisation, 16 blocks of an output at once.
 *
 * The map of absmax codes is symmetric: map[127 - i] = -map[127 + i]; only map[255] = 1 has no
 * counterpart.  So 8 registers hold half of it, and 4 permutations look an entry up. */
static inline __m512 absmax_at(__m512i code) {
  enum { ZERO = 127 };
  const float *map = nf4_absmax_map + ZERO;
  const __m512i i = _mm512_abs_epi32(_mm512_sub_epi32(code, _mm512_set1_epi32(ZERO)));
  const __mmask16 upper = _mm512_test_epi32_mask(i, _mm512_set1_epi32(32));
  const __mmask16 last = _mm512_test_epi32_mask(i, _mm512_set1_epi32(64));
  __m512 part[4];
  UNROLL for (int p = 0; p < 4; p++) part[p] = _mm512_permutex2var_ps(
      _mm512_loadu_ps(map + 2 * p * LANES), i, _mm512_loadu_ps(map + (2 * p + 1) * LANES));
  const __m512 low = _mm512_mask_mov_ps(part[0], upper, part[1]);
  const __m512 high = _mm512_mask_mov_ps(part[2], upper, part[3]);
  const __m512 x = _mm512_mask_mov_ps(low, last, high);
  const __mmask16 negative = _mm512_cmplt_epi32_mask(code, _mm512_set1_epi32(ZERO));
  const __mmask16 one = _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32(255));
  return _mm512_mask_mov_ps(_mm512_mask_sub_ps(x, negative, _mm512_setzero_ps(), x), one,
                            _mm512_set1_ps(1));
}

/* Scales of up to LANES blocks of one output, from a block on. */
static inline __m512 nf4_row_scales(const Nf4Nested *n, size_t block, int blocks) {
  const __m128i code = _mm_maskz_loadu_epi8(first_lanes(blocks), n->absmax + block);
  const size_t nest = block / NF4_NEST;
  const int left = NF4_NEST - (int)(block % NF4_NEST); /* blocks left in this nest */
  __m512 scale = _mm512_set1_ps(n->scale[nest]);
  if (left < blocks)
    scale = _mm512_mask_mov_ps(_mm512_set1_ps(n->scale[nest + 1]), first_lanes(left), scale);
  return _mm512_add_ps(_mm512_mul_ps(absmax_at(_mm512_cvtepu8_epi32(code)), scale),
                       _mm512_set1_ps(n->offset));
}

static void nf4_scales(const Nf4Nested *n, real *scale, ptrdiff_t ld) {
  real rows[GROUP * LANES];
  for (int at = 0; at < n->blocks; at += LANES, scale += LANES * ld) {
    const int blocks = min_int(LANES, n->blocks - at);
    size_t block = n->block + (size_t)at;
    for (int i = 0; i < GROUP; i++, block += n->row_blocks)
      _mm512_storeu_ps(rows + i * LANES, nf4_row_scales(n, block, blocks));
    vec column[LANES];
    v_square(rows, LANES, column);
    UNROLL for (int b = 0; b < LANES; b++) if (b < blocks)
        _mm512_storeu_ps(scale + b * ld, (__m512)column[b]);
  }
}
#define NF4_SCALES nf4_scales

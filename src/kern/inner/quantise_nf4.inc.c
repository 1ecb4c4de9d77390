/* quantise_nf4.inc.c - NF4's codes of one block. */

/* The midpoints between neighbouring values of the table: a code is the number of midpoints below
 * the value. */
static inline void nf4_middles(float middle[15]) {
  for (int j = 0; j < 15; j++) middle[j] = (nf4_code[j] + nf4_code[j + 1]) / 2;
}

static float nf4_codes(int n, const float *w, uint8_t *code) {
  float middle[15], absmax = 0;
  nf4_middles(middle);
#ifdef GRPO_DOUBLE
  for (int i = 0; i < n; i++)
    if (fabsf(w[i]) > absmax) absmax = fabsf(w[i]);
  for (int i = 0; i < n; i++) {
    const float x = absmax > 0 ? w[i] / absmax : 0;
    code[i] = 0;
    for (int j = 0; j < 15; j++) code[i] = (uint8_t)(code[i] + (x > middle[j]));
  }
#else
  typedef uint8_t bytes __attribute__((vector_size(LANES)));
  vec most = v_set(0);
  for (int i = 0; i < n; i += LANES) {
    const vec x = v_get(w + i, n - i);
    most = v_max(v_max(x, -x), most);
  }
  absmax = v_largest(most) + 0; /* never -0 */
  for (int i = 0; i < n; i += LANES) {
    const vec x = absmax > 0 ? v_get(w + i, n - i) / absmax : v_set(0);
    ivec c = {0};
    for (int j = 0; j < 15; j++) c -= (ivec)(x > middle[j]);
    const bytes b = __builtin_convertvector(c, bytes);
    memcpy(code + i, &b, (size_t)(n - i < LANES ? n - i : LANES));
  }
#endif
  return absmax;
}

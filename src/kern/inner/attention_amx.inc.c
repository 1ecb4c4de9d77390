/* attention_amx.inc.c - attention's products by AMX, with operands where they are stored.
 *
 * Tiles are configured once for many products: 0, 1 and 4 for `upper` rows, 2, 3 and 5 for `lower`
 * rows. */
typedef struct Rows {
  int upper, lower;
} Rows;

static _Thread_local Rows wanted, configured;

static void begin_rows(int upper, int lower) { wanted = (Rows){upper, lower}; }

/* A single row is computed without tiles. */
static void configure_wanted(void) {
  if (configured.upper == wanted.upper && configured.lower == wanted.lower) return;
  configure(wanted.upper, wanted.lower);
  configured = wanted;
}

static void end_rows(void) {
  if (configured.upper) _tile_release();
  configured = (Rows){0};
}

/* One or two groups of columns of a product of `upper` rows, `lower` rows, or both. */
typedef struct Kept {
  const uint32_t *a[2]; /* pairs of rows of upper and lower */
  ptrdiff_t a_line;     /* in bytes, as for all lines */
  ptrdiff_t a_step;     /* pairs between units */
  int units;
  const uint32_t *first[2], *b[2], *last[2]; /* read before and after b's units; or NULL */
  ptrdiff_t b_line;
  real *c[2][2]; /* [rows][column] */
  ptrdiff_t c_line;
  bool add;
} Kept;

static inline __attribute__((always_inline)) void
kept_unit(const bool up, const bool low, const int nt, const uint32_t *a0, const uint32_t *a1,
          ptrdiff_t a_line, const uint32_t *b0, const uint32_t *b1, ptrdiff_t b_line) {
  _tile_loadd(6, b0, b_line);
  if (up) {
    _tile_loadd(4, a0, a_line);
    _tile_dpbf16ps(0, 4, 6);
  }
  if (low) {
    _tile_loadd(5, a1, a_line);
    _tile_dpbf16ps(2, 5, 6);
  }
  if (nt < 2) return;
  _tile_loadd(7, b1, b_line);
  if (up) _tile_dpbf16ps(1, 4, 7);
  if (low) _tile_dpbf16ps(3, 5, 7);
}

static inline __attribute__((always_inline)) void kept_begin(const bool up, const bool low,
                                                             const int nt, const Kept *t) {
  if (!t->add) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  if (up) _tile_loadd(0, t->c[0][0], t->c_line);
  if (up && nt > 1) _tile_loadd(1, t->c[0][1], t->c_line);
  if (low) _tile_loadd(2, t->c[1][0], t->c_line);
  if (low && nt > 1) _tile_loadd(3, t->c[1][1], t->c_line);
}

static inline __attribute__((always_inline)) void kept_end(const bool up, const bool low,
                                                           const int nt, const Kept *t) {
  if (up) _tile_stored(0, t->c[0][0], t->c_line);
  if (up && nt > 1) _tile_stored(1, t->c[0][1], t->c_line);
  if (low) _tile_stored(2, t->c[1][0], t->c_line);
  if (low && nt > 1) _tile_stored(3, t->c[1][1], t->c_line);
}

static inline __attribute__((always_inline)) void kept(const bool up, const bool low, const int nt,
                                                       const Kept *t) {
  const uint32_t *a0 = t->a[0], *a1 = t->a[1], *b0 = t->b[0], *b1 = t->b[1];
  const ptrdiff_t b_step = t->b_line / (ptrdiff_t)sizeof(uint32_t) * UNIT;
  kept_begin(up, low, nt, t);
  if (t->first[0]) {
    kept_unit(up, low, nt, a0, a1, t->a_line, t->first[0], t->first[1], t->b_line);
    a0 += t->a_step, a1 += t->a_step;
  }
  for (int u = t->units; u > 0; u--, a0 += t->a_step, a1 += t->a_step, b0 += b_step, b1 += b_step)
    kept_unit(up, low, nt, a0, a1, t->a_line, b0, b1, t->b_line);
  if (t->last[0]) kept_unit(up, low, nt, a0, a1, t->a_line, t->last[0], t->last[1], LINE);
  kept_end(up, low, nt, t);
}

static void run_kept(int m, int nt, const Kept *t) {
  const bool up = m >= configured.upper, low = m != configured.upper;
  if (up && low) {
    if (nt > 1)
      kept(true, true, 2, t);
    else
      kept(true, true, 1, t);
  } else if (up) {
    if (nt > 1)
      kept(true, false, 2, t);
    else
      kept(true, false, 1, t);
  } else if (nt > 1)
    kept(false, true, 2, t);
  else
    kept(false, true, 1, t);
}

static void kept_rows(Kept *t, int m, const uint32_t *a, ptrdiff_t ars) {
  t->a[0] = a, t->a[1] = m > configured.upper ? a + configured.upper * ars : a;
  t->a_line = ars * (ptrdiff_t)sizeof *a, t->a_step = UNIT;
}

static void kept_sums(Kept *t, int m, real *c, ptrdiff_t ldc) {
  real *lower = m > configured.upper ? c + configured.upper * ldc : c;
  t->c[0][0] = c, t->c[0][1] = c + GROUP, t->c[1][0] = lower, t->c[1][1] = lower + GROUP;
  t->c_line = ldc * (ptrdiff_t)sizeof *c;
}

static void scores(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                   ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next) {
  const int units = pairs / UNIT, tail = pairs % UNIT;
  uint32_t last[2][TILE_WORDS];
  if (m == 1) {
    one_row_bf16(n, pairs, a, b, GROUP, bgs, c, add, next);
    return;
  }
  configure_wanted();
  Kept t = {.units = units, .b_line = LINE, .add = add};
  kept_rows(&t, m, a, ars);
  if (tail) memset(last, 0, sizeof last);
  for (int j = 0; j < n; j += 2 * GROUP, b += 2 * bgs) {
    const int groups = n - j > GROUP ? 2 : 1;
    for (int g = 0; g < 2; g++) {
      t.b[g] = b + (g < groups ? g : 0) * bgs;
      if (!tail) continue;
      memcpy(last[g], t.b[g] + units * TILE_WORDS, (size_t)(tail * LINE));
      t.last[g] = last[g];
    }
    kept_sums(&t, m, c + j, ldc);
    fetch_some(next, groups * pairs);
    run_kept(m, groups, &t);
  }
}

static void turned_columns(int m, int n, int pairs, const uint32_t *a, ptrdiff_t padded,
                           const uint32_t *b, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add) {
  configure_wanted();
  Kept t = {
      .units = pairs / UNIT, .a_line = LINE, .a_step = TILE_WORDS, .b_line = LINE, .add = add};
  for (int i = 0; i < m; i += 2 * ROWS, a += 2 * ROWS * padded, c += 2 * ROWS * ldc) {
    const int rows = min_int(2 * ROWS, m - i);
    t.a[0] = a, t.a[1] = a + ROWS * padded;
    for (int j = 0; j < n; j += 2 * GROUP) {
      const int groups = n - j > GROUP ? 2 : 1;
      t.b[0] = b + j / GROUP * bgs, t.b[1] = groups > 1 ? t.b[0] + bgs : t.b[0];
      kept_sums(&t, rows, c + j, ldc);
      run_kept(rows, groups, &t);
    }
  }
}

static void values(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *first,
                   const uint32_t *b, ptrdiff_t bps, real *c, ptrdiff_t ldc, bool add,
                   Fetch *next) {
  if (m == 1) {
    const int before = first ? KV_UNIT / 2 : 0;
    if (first) one_row_bf16(n, before, a, first, bps, GROUP, c, add, next);
    if (pairs) one_row_bf16(n, pairs, a + before, b, bps, GROUP, c, add || first, next);
    return;
  }
  configure_wanted();
  Kept t = {.units = ceil_div(pairs, UNIT), .b_line = bps * (ptrdiff_t)sizeof *b, .add = add};
  kept_rows(&t, m, a, ars);
  for (int j = 0; j < n; j += 2 * GROUP) {
    const int groups = n - j > GROUP ? 2 : 1;
    for (int g = 0; g < 2; g++) {
      const int at = j + (g < groups ? g : 0) * GROUP;
      t.b[g] = b + at, t.first[g] = first ? first + at : NULL;
    }
    kept_sums(&t, m, c + j, ldc);
    fetch_some(next, groups * pairs);
    run_kept(m, groups, &t);
  }
}

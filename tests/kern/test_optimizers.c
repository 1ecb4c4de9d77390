/* Moments in 8 bits as bitsandbytes has them (tests/oracles/adamw_8bit.py), and Lion. */
#include "kern/moment8.h"
#include "kern/optimizers.h"
#include "kern_test.h"

static FILE *open_case(const char *name) {
  FILE *f = fopen(test_path("tests/cases/adamw_8bit/%s", name), "r");
  CHECK(f != NULL);
  return f;
}

/* ---- the map --------------------------------------------------------------------------- */

static Moment8Map map[2]; /* with signs, without */
static void make_maps(void) {
  for (int k = 0; k < 2; k++) moment8_map_init(&map[k], k == 0);
}

TEST(the_maps_are_those_of_bitsandbytes) {
  FILE *f = open_case("map.txt");
  make_maps();
  if (!f) return;
  for (int i = 0; i < 512; i++) {
    float want = NAN;
    CHECK(fscanf(f, "%f", &want) == 1);
    CHECK(map[i / 256].value[i % 256] == want);
  }
  fclose(f);
}

TEST(codes_are_those_of_bitsandbytes) {
  FILE *f = open_case("codes.txt");
  float x;
  char with_sign[8], without[8];
  int rows = 0;
  make_maps();
  if (!f) return;
  for (; fscanf(f, "%f %7s %7s", &x, with_sign, without) == 3; rows++) {
    CHECK(moment8_code(&map[0], x) == atoi(with_sign));
    CHECK(*without == '-' || moment8_code(&map[1], x) == atoi(without));
  }
  CHECK(rows == 398);
  fclose(f);
}

/* The nearest value by comparing with all of them. */
static int nearest(const Moment8Map *m, float x) {
  int best = 0;
  for (int i = 1; i < 256; i++)
    if (fabsf(x - m->value[i]) < fabsf(x - m->value[best])) best = i;
  return best;
}

TEST(a_code_is_that_of_the_nearest_value) {
  make_maps();
  for (int i = 0; i < 40000; i++) {
    const float x = (float)((2 * uniform() - 1) * pow(10, -9 * uniform()));
    CHECK(moment8_code(&map[0], x) == nearest(&map[0], x));
    CHECK(moment8_code(&map[1], fabsf(x)) == nearest(&map[1], fabsf(x)));
  }
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 256; i++) CHECK(moment8_code(&map[k], map[k].value[i]) == i);
}

TEST(a_block_of_zeros_stays_zero) {
  real x[MOMENT8_BLOCK] = {0};
  uint8_t code[MOMENT8_BLOCK];
  float scale = 7;
  make_maps();
  for (int k = 0; k < 2; k++) {
    moment8_write(&map[k], MOMENT8_BLOCK, x, code, &scale);
    moment8_read(&map[k], MOMENT8_BLOCK, code, scale, x);
    for (int i = 0; i < MOMENT8_BLOCK; i++) CHECK(x[i] == 0);
  }
}

/* ---- steps ------------------------------------------------------------------------------- */

/* number() of the oracle */
static float number(uint32_t seed, uint32_t i) {
  uint32_t h = i * 2654435761u + seed * 40503u;
  h = ((h >> 15) ^ h) * 2246822519u;
  return (float)((double)((int)((h >> 13) % 2001) - 1000) / 1024.0 / pow(16, i % 3));
}

static void fill(float *x, uint32_t seed, int n) {
  for (int i = 0; i < n; i++) x[i] = number(seed, (uint32_t)i);
}

enum { SHOWN = 79, MOST = 5000, BLOCKS = (MOST + 255) / 256 };

typedef struct State {
  uint8_t code[2][MOST];
  float scale[2][BLOCKS];
} State;

static Moment8 moment_of(State *s, int k) { return (Moment8){&map[k], s->code[k], s->scale[k]}; }
static double decoded(const State *s, int k, int i) {
  return (double)(map[k].value[s->code[k][i]] * s->scale[k][i / 256]);
}

/* Another order of the same operations may round a moment to the code beside it, so a few may
 * differ by one; everything else agrees closely. */
TEST(steps_are_those_of_bitsandbytes) {
  FILE *f = open_case("steps.txt");
  AdamW o = {.grad_scale = 1};
  static float p[MOST], g[MOST];
  int n, steps, other_codes = 0;
  if (!f) return;
  make_maps();
  CHECK(fscanf(f, "%d %lf %lf %lf %lf %lf %d", &n, &o.lr, &o.beta1, &o.beta2, &o.eps,
               &o.weight_decay, &steps) == 7);
  CHECK(n > 4096 && n <= MOST && n % 256 != 0);
  State *s = calloc(1, sizeof *s);
  const Moment8 m = moment_of(s, 0), v = moment_of(s, 1);
  fill(p, 1, n);
  for (int step = 1; step <= steps; step++) {
    fill(g, (uint32_t)step + 1, n);
    o.bias1 = 1 - pow(o.beta1, step), o.bias2 = 1 - pow(o.beta2, step);
    adamw8_step(&(Ctx){.arena = &arena}, (size_t)n, p, g, &m, &v, &o);
    for (int k = 0; k < SHOWN; k++) {
      int of, i;
      float want, want_m, want_v;
      CHECK(fscanf(f, "%d %d %f %f %f", &of, &i, &want, &want_m, &want_v) == 5 && of == step);
      const double dm = fabs(decoded(s, 0, i) - (double)want_m);
      const double dv = fabs(decoded(s, 1, i) - (double)want_v);
      other_codes += dm > 1e-6 * fabs((double)want_m) || dv > 1e-6 * (double)want_v;
      CHECK_NEAR(p[i], want, 1e-6 + 1e-4 * (other_codes > 0));
    }
  }
  CHECK(other_codes <= 2);
  free(s);
  fclose(f);
}

static void adamw8_on(const Ctx *cx, float *out, void *arg) {
  enum { N = 70001 };
  const AdamW o = {1e-2, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001, 0.5};
  const float *x = arg;
  uint8_t *code = calloc(2, N);
  float *p = out, *scale = out + N;
  const Moment8 m = {&map[0], code, scale}, v = {&map[1], code + N, scale + 300};
  memcpy(p, x, N * sizeof *p);
  for (int step = 0; step < 3; step++) adamw8_step(cx, N, p, x + N - step, &m, &v, &o);
  for (int i = 0; i < N; i++) scale[600] += (float)(code[i] + code[N + i]) * (float)(i % 7);
  free(code);
}

TEST(eight_bits_ignore_threads) {
  make_maps();
  float *x = randoms(140002);
  for (int p = 0; p < NPATHS && use_path(p); p++) CHECK(threads_agree(adamw8_on, 70602, x));
  free(x);
  kern_select(NULL);
}

/* ---- Lion -------------------------------------------------------------------------------- */

enum { N = 33001 };

static void lion_on(const Ctx *cx, float *out, void *arg) {
  const AdamW o = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .grad_scale = 0.5};
  const float *x = arg;
  memcpy(out, x, N * sizeof *out);
  for (int step = 0; step < 3; step++) lion_step(cx, N, out, x + N + step, out + N, &o);
}

/* The formula of arXiv:2302.06675, section 2: update by the sign of the interpolation, then the
 * momentum. */
static void lion_in_double(const float *x, double *p, double *m) {
  for (int i = 0; i < N; i++) {
    p[i] = (double)x[i], m[i] = 0;
    for (int step = 0; step < 3; step++) {
      const double g = 0.5 * (double)x[N + step + i], c = 0.9 * m[i] + 0.1 * g;
      p[i] -= 1e-2 * ((c > 0) - (c < 0) + 0.1 * p[i]);
      m[i] = 0.99 * m[i] + 0.01 * g;
    }
  }
}

TEST(lion_agrees_with_double_and_ignores_threads) {
  float *x = randoms(2 * N + 3), *out = floats(2 * N);
  double *p = malloc(N * sizeof *p), *m = malloc(N * sizeof *m);
  for (int i = 0; i < 3; i++) x[N + 100 + i] = 0; /* nothing moves but by decay */
  lion_in_double(x, p, m);
  for (int path = 0; path < NPATHS && use_path(path); path++) {
    memset(out, 0, 2 * N * sizeof *out);
    lion_on(&(Ctx){.arena = &arena}, out, x);
    for (int i = 0; i < N; i++) {
      CHECK_NEAR(out[i], p[i], 1e-6 + 1e-6 * fabs(p[i]));
      CHECK_NEAR(out[N + i], m[i], 1e-7 + 1e-6 * fabs(m[i]));
    }
    CHECK_NEAR(out[100], (double)x[100] * 0.999 * 0.999 * 0.999, 1e-6);
    CHECK(threads_agree(lion_on, 2 * N, x));
  }
  free(x), free(out), free(p), free(m);
  kern_select(NULL);
}

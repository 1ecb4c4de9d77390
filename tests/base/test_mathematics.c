/* Functions of doubles: mpmath's values (tests/oracles/mathematics.py), the special values of C11's
 * Annex F, and one sum over the bits of many results, which every machine must find. */
#include "base/digest.h"
#include "base/erf.h"
#include "base/exponential.h"
#include "base/trigonometry.h"

#include <stdint.h>

#include "testing.h"

typedef struct Function {
  const char *name;
  double (*of)(double);
  double (*of_two)(double, double);
} Function;

static const Function functions[] = {
    {"exp", math_exp, NULL},     {"expm1", math_expm1, NULL}, {"log", math_log, NULL},
    {"log1p", math_log1p, NULL}, {"log2", math_log2, NULL},   {"log10", math_log10, NULL},
    {"tanh", math_tanh, NULL},   {"sinh", math_sinh, NULL},   {"cosh", math_cosh, NULL},
    {"sin", math_sin, NULL},     {"cos", math_cos, NULL},     {"tan", math_tan, NULL},
    {"asin", math_asin, NULL},   {"acos", math_acos, NULL},   {"atan", math_atan, NULL},
    {"erf", math_erf, NULL},     {"pow", NULL, math_pow},     {"atan2", NULL, math_atan2},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const Function *named(const char *name) {
  for (int i = 0; i < FUNCTIONS; i++)
    if (strcmp(functions[i].name, name) == 0) return &functions[i];
  return NULL;
}

/* The distance from hi + lo in units of the last place of hi */
static double units_off(double y, double hi, double lo) {
  if (y == hi) return fabs(lo) / (nextafter(fabs(hi), INFINITY) - fabs(hi));
  if (!isfinite(y) || !isfinite(hi)) return INFINITY;
  return fabs((y - hi) - lo) / (nextafter(fabs(hi), INFINITY) - fabs(hi));
}

TEST(every_value_is_within_a_unit_of_mpmath) {
  FILE *f = fopen("tests/cases/mathematics.txt", "r");
  char text[512], name[16];
  int rows = 0;
  CHECK(f != NULL);
  while (f && fgets(text, sizeof text, f)) {
    double v[4] = {0};
    const int n = sscanf(text, "%15s %la %la %la %la", name, &v[0], &v[1], &v[2], &v[3]);
    const Function *g = n < 4 ? NULL : named(name);
    if (!g || (n == 5) != (g->of_two != NULL)) {
      test_fail(__FILE__, __LINE__, "no row: %s", text);
      continue;
    }
    const double y = g->of ? g->of(v[0]) : g->of_two(v[0], v[1]);
    const double off = units_off(y, v[n - 3], v[n - 2]);
    if (!(off < 0.9)) test_fail(__FILE__, __LINE__, "%.3f units off, %a: %s", off, y, text);
    rows++;
  }
  if (f) fclose(f);
  CHECK(rows > 900);
}

static uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static void same(int line, double y, double want) {
  if (bits_of(y) != bits_of(want)) test_fail(__FILE__, line, "%a, want %a", y, want);
}
#define SAME(y, want) same(__LINE__, y, want)

static const double INF = INFINITY;

TEST(special_values_of_exponentials) {
  SAME(math_exp(0.0), 1), SAME(math_exp(-0.0), 1), SAME(math_exp(-INF), 0),
      SAME(math_exp(INF), INF);
  SAME(math_exp(-1e300), 0), SAME(math_exp(1e300), INF), SAME(math_exp(709.79), INF);
  SAME(math_expm1(-0.0), -0.0), SAME(math_expm1(-INF), -1), SAME(math_expm1(INF), INF);
  SAME(math_tanh(-0.0), -0.0), SAME(math_tanh(-INF), -1), SAME(math_tanh(INF), 1);
  SAME(math_sinh(-0.0), -0.0), SAME(math_sinh(-INF), -INF), SAME(math_sinh(711), INF);
  SAME(math_cosh(0.0), 1), SAME(math_cosh(-INF), INF), SAME(math_cosh(-711), INF);
  SAME(math_erf(-0.0), -0.0), SAME(math_erf(INF), 1), SAME(math_erf(-INF), -1);
}

TEST(special_values_of_logarithms) {
  SAME(math_log(1), 0), SAME(math_log(0.0), -INF), SAME(math_log(-0.0), -INF);
  SAME(math_log(INF), INF), SAME(math_log(-1), (double)NAN), SAME(math_log(-INF), (double)NAN);
  SAME(math_log2(0.0), -INF), SAME(math_log2(-1), (double)NAN), SAME(math_log2(1), 0);
  SAME(math_log10(-0.0), -INF), SAME(math_log10(INF), INF), SAME(math_log10(1), 0);
  SAME(math_log1p(-0.0), -0.0), SAME(math_log1p(-1), -INF), SAME(math_log1p(-1.5), (double)NAN);
  SAME(math_log1p(INF), INF);
  for (int k = -1074; k <= 1023; k++) SAME(math_log2(ldexp(1, k)), k);
  double ten = 1;
  for (int k = 0; k <= 22; k++, ten *= 10) SAME(math_log10(ten), k);
}

TEST(special_values_of_powers) {
  SAME(math_pow(0.0, -3), INF), SAME(math_pow(-0.0, -3), -INF), SAME(math_pow(-0.0, -2), INF);
  SAME(math_pow(-0.0, -0.5), INF), SAME(math_pow(0.0, -INF), INF), SAME(math_pow(-0.0, 3), -0.0);
  SAME(math_pow(-0.0, 2), 0), SAME(math_pow(0.0, 0.5), 0), SAME(math_pow(-1, INF), 1);
  SAME(math_pow(-1, -INF), 1), SAME(math_pow(1, (double)NAN), 1), SAME(math_pow(1, INF), 1);
  SAME(math_pow((double)NAN, 0), 1), SAME(math_pow(INF, -0.0), 1),
      SAME(math_pow(-8, 1.0 / 3), (double)NAN);
  SAME(math_pow(0.5, -INF), INF), SAME(math_pow(-2, -INF), 0), SAME(math_pow(0.5, INF), 0);
  SAME(math_pow(-2, INF), INF), SAME(math_pow(-INF, -3), -0.0), SAME(math_pow(-INF, -2), 0);
  SAME(math_pow(-INF, 3), -INF), SAME(math_pow(-INF, 2.5), INF), SAME(math_pow(INF, -1), 0);
  SAME(math_pow(INF, 1), INF), SAME(math_pow(2, (double)NAN), (double)NAN);
  SAME(math_pow(2, 1024), INF), SAME(math_pow(-2, 1025), -INF), SAME(math_pow(2, -1075), 0);
  SAME(math_pow(-2, -1077), -0.0), SAME(math_pow(3, 1e308), INF), SAME(math_pow(0.3, 1e308), 0);
  SAME(math_pow(2, -1074), 0x1p-1074), SAME(math_pow(3, 5e-324), 1);
  for (int n = 0; n <= 33; n++) SAME(math_pow(3, n), nearbyint(math_pow(3, n)));
}

TEST(special_values_of_angles) {
  const double pi = MATH_PI;
  SAME(math_sin(-0.0), -0.0), SAME(math_sin(INF), (double)NAN), SAME(math_cos(0.0), 1);
  SAME(math_cos(-INF), (double)NAN), SAME(math_tan(-0.0), -0.0), SAME(math_tan(INF), (double)NAN);
  SAME(math_asin(-0.0), -0.0), SAME(math_asin(1), pi / 2), SAME(math_asin(1.1), (double)NAN);
  SAME(math_acos(1), 0), SAME(math_acos(-1), pi), SAME(math_acos(-1.1), (double)NAN);
  SAME(math_atan(-0.0), -0.0), SAME(math_atan(INF), pi / 2), SAME(math_atan(-INF), -pi / 2);
  SAME(math_atan2(0.0, -0.0), pi), SAME(math_atan2(-0.0, -0.0), -pi);
  SAME(math_atan2(0.0, 0.0), 0), SAME(math_atan2(-0.0, 0.0), -0.0), SAME(math_atan2(-0.0, -1), -pi);
  SAME(math_atan2(0.0, 1), 0), SAME(math_atan2(1, -0.0), pi / 2),
      SAME(math_atan2(-1, 0.0), -pi / 2);
  SAME(math_atan2(3, -INF), pi), SAME(math_atan2(3, INF), 0), SAME(math_atan2(-3, INF), -0.0);
  SAME(math_atan2(INF, 7), pi / 2), SAME(math_atan2(-INF, -INF), -3 * (pi / 4));
  SAME(math_atan2(INF, INF), pi / 4);
}

TEST(nan_stays_nan_of_one_sign) {
  for (int i = 0; i < FUNCTIONS; i++)
    for (int sign = 0; sign < 2; sign++) {
      const Function *g = &functions[i];
      const double nan = sign ? -(double)NAN : (double)NAN;
      SAME(g->of ? g->of(nan) : g->of_two(nan, 2), (double)NAN);
      if (g->of_two) SAME(g->of_two(2, nan), (double)NAN);
    }
}

/* xorshift: reproducible, and not of this program */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void put_double(Digest *d, double y) {
  const uint64_t u = bits_of(y);
  unsigned char byte[8];
  for (int k = 0; k < 8; k++) byte[k] = (unsigned char)(u >> 8 * k);
  digest_put(d, byte, sizeof byte);
}

TEST(many_results_have_one_sum_on_every_machine) {
  Digest d;
  char hex[DIGEST_HEX_BYTES];
  uint64_t state = 88172645463325252u;
  digest_begin(&d, DIGEST_SHA256);
  for (int i = 0; i < FUNCTIONS; i++)
    for (int k = 0; k < 20000; k++) {
      double x, y;
      const uint64_t u = next_random(&state), v = next_random(&state);
      memcpy(&x, &u, sizeof x); /* any double; and one of an ordinary size */
      y = ((double)(v >> 11) * 0x1p-53 - 0.5) * 20;
      const Function *g = &functions[i];
      put_double(&d, g->of ? g->of(x) : g->of_two(x, y));
      put_double(&d, g->of ? g->of(y) : g->of_two(fabs(y), y * y));
    }
  digest_end(&d, hex);
  CHECK_STR(hex, "be17219edf2e855a6290e0f1523f1327dd3331b8e7a261a8cecd637689a8424a");
}

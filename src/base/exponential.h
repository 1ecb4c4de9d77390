/* exponential.h - exp, log, powers and hyperbolic functions of doubles, with one result everywhere.
 *
 * C libraries round these functions differently, so a run's bits would depend on the library.
 * These use operations alone that IEEE 754 defines (two_doubles.h).  The error is below 0.9 units
 * in the last place (tests/base/test_mathematics.c); special values are those of C11's Annex F, and
 * a NaN that they return is positive.
 */
#ifndef GRPO_BASE_EXPONENTIAL_H
#define GRPO_BASE_EXPONENTIAL_H

double math_exp(double x);
double math_expm1(double x); /* exp(x) - 1 */
double math_log(double x);
double math_log1p(double x); /* log(1 + x) */
double math_log2(double x);
double math_log10(double x);
double math_pow(double x, double y);
double math_tanh(double x);
double math_sinh(double x);
double math_cosh(double x);

#endif

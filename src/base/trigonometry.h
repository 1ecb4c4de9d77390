/* trigonometry.h - sines and angles of doubles, with one result everywhere: see exponential.h.
 *
 * The error is below 0.9 units in the last place, of any argument (tests/base/test_mathematics.c).
 */
#ifndef GRPO_BASE_TRIGONOMETRY_H
#define GRPO_BASE_TRIGONOMETRY_H

#define MATH_PI 0x1.921fb54442d18p+1

double math_sin(double x);
double math_cos(double x);
double math_tan(double x);
double math_asin(double x);
double math_acos(double x);
double math_atan(double x);
double math_atan2(double y, double x);

#endif

/* erf.h - the error function of doubles, with one result everywhere: see exponential.h. */
#ifndef GRPO_BASE_ERF_H
#define GRPO_BASE_ERF_H

double math_erf(double x); /* error below 0.9 units in the last place */

#endif

/* real.h - the type of every tensor element: float in the program, double in the twin that the
 * gradient checks are built from (-DGRPO_DOUBLE). */
#ifndef GRPO_KERN_REAL_H
#define GRPO_KERN_REAL_H

#ifdef GRPO_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif

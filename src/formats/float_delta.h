/* float_delta.h - how an array of float32 has changed, in fewer bytes: exact.
 *
 * The bits of a number are taken as a 32-bit integer, so that the integers of near numbers of one
 * sign are near.  Differences are written in groups of 32 numbers.  The steps of an optimizer are
 * alike in size, so a difference has about as many bits as the number's exponent is low, which the
 * reader knows: a group is a 16-bit number c, little-endian, and then of each number max(0, c - e)
 * bits, 32 at most, where e is the exponent of the old number, 0 to 255.  The bits are a difference
 * whose sign is the lowest bit; they follow one another from the lowest bit of a byte on, and fill
 * whole bytes.  A group that has not changed is c = 0.
 */
#ifndef GRPO_FORMATS_FLOAT_DELTA_H
#define GRPO_FORMATS_FLOAT_DELTA_H

#include "base/buf.h"

enum { FLOAT_DELTA_GROUP = 32 };

/* Appends what makes `now` of `was`. */
void float_delta_put(Buf *to, const float *was, const float *now, size_t n);
/* x [n] changes.  EFORMAT, and x is as before: these are not n differences. */
Status float_delta_apply(const char *bytes, size_t len, float *x, size_t n);

#endif

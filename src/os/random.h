/* random.h - random bytes that nobody can foretell, from the system: for secrets, and for what must
 * not be known beforehand.  Everything that a run's results follow from is base/rng.h. */
#ifndef GRPO_OS_RANDOM_H
#define GRPO_OS_RANDOM_H

#include <stddef.h>

#include "base/err.h"

Status random_bytes(void *out, size_t n); /* EIO: the system has none */

#endif

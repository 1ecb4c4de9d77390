/* clock.h - the monotonic clock: time since some moment before the program began. */
#ifndef GRPO_BASE_CLOCK_H
#define GRPO_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void); /* safe in a signal handler */
double clock_seconds(void);

#endif

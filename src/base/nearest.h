/* nearest.h - the name that a misspelt one was probably meant to be. */
#ifndef GRPO_BASE_NEAREST_H
#define GRPO_BASE_NEAREST_H

#include <stddef.h>

/* Edit distance, where swapping two neighbouring letters counts as one edit.  It is 64, which is
 * never near, for names of more than 63 bytes. */
int name_distance(const char *a, const char *b);
/* The closest of n names, or NULL when none is near: at most a third of its letters differ. */
const char *nearest_name(const char *name, const char *const *names, size_t n);

#endif

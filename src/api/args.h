/* args.h - checks of what a host passes: structs with a size, pointers, words. */
#ifndef GRPO_API_ARGS_H
#define GRPO_API_ARGS_H

#include <stddef.h>

#include "base/err.h"
#include "grpo.h"

/* Fills *o, a struct of `size` bytes, with the defaults and sets its size. */
grpo_status options_init(void *o, size_t size, const void *defaults, size_t known);
/* Copies a host's struct over `to`, which holds the defaults; `from` may be NULL.  `name` begins
 * the messages. */
Status options_take(void *to, size_t known, const void *from, const char *name);

/* Both for a struct that has grown: programs compiled before have at least its `first` bytes, which
 * it had in the first version of grpo.h.  Fields that they lack keep their defaults. */
grpo_status options_init_grown(void *o, size_t size, const void *defaults, size_t known,
                               size_t first);
Status options_take_grown(void *to, size_t known, size_t first, const void *from, const char *name);

/* Fills a host's struct, whose size is set. */
Status struct_put(void *to, const void *value, size_t known, const char *name);
Status struct_put_grown(void *to, const void *value, size_t known, size_t first, const char *name);

Status need(const void *pointer, const char *name); /* EARG if it is NULL */
/* *out becomes the position of `word` among "a|b|c"; EARG lists them. */
Status choice_of(const char *what, const char *word, const char *choices, int *out);

#endif

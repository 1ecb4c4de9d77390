#include "api/args.h"

#include <stdbool.h>
#include <string.h>

enum { LARGEST_STRUCT = 1 << 16 };

/* Can a struct of this version, an older or a newer one have this size?  Every version ends with a
 * whole field or its padding, so no field is cut. */
static bool is_size(size_t size, size_t known, size_t first) {
  if (size >= known) return size <= LARGEST_STRUCT;
  return size >= first && size % _Alignof(size_t) == 0;
}

static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

grpo_status options_init_grown(void *o, size_t size, const void *defaults, size_t known,
                               size_t first) {
  if (!o) return fail(GRPO_EARG, "init: the struct is NULL");
  if (!is_size(size, known, first))
    return fail(GRPO_EARG, "init: the struct has %zu bytes, want %zu; pass its sizeof", size,
                known);
  memset(o, 0, size);
  memcpy(o, defaults, lesser(size, known));
  *(size_t *)o = size;
  return GRPO_OK;
}

grpo_status options_init(void *o, size_t size, const void *defaults, size_t known) {
  return options_init_grown(o, size, defaults, known, known);
}

static Status check_size(const void *s, size_t known, size_t first, const char *name) {
  const size_t size = *(const size_t *)s;
  if (is_size(size, known, first)) return GRPO_OK;
  return fail(GRPO_EARG, "%s: its size is %zu, want %zu; call its _init, or set size to its sizeof",
              name, size, known);
}

Status options_take_grown(void *to, size_t known, size_t first, const void *from,
                          const char *name) {
  if (!from) return GRPO_OK;
  try(check_size(from, known, first, name));
  const size_t size = *(const size_t *)from;
  for (size_t i = known; i < size; i++)
    if (((const char *)from)[i])
      return fail(GRPO_EARG, "%s: a field is set that this version of libgrpo does not know", name);
  memcpy(to, from, lesser(size, known));
  return GRPO_OK;
}

Status options_take(void *to, size_t known, const void *from, const char *name) {
  return options_take_grown(to, known, known, from, name);
}

Status struct_put_grown(void *to, const void *value, size_t known, size_t first, const char *name) {
  try(need(to, name));
  try(check_size(to, known, first, name));
  const size_t size = *(const size_t *)to;
  memcpy(to, value, lesser(size, known));
  *(size_t *)to = size;
  return GRPO_OK;
}

Status struct_put(void *to, const void *value, size_t known, const char *name) {
  return struct_put_grown(to, value, known, known, name);
}

Status need(const void *pointer, const char *name) {
  return pointer ? GRPO_OK : fail(GRPO_EARG, "%s is NULL", name);
}

Status choice_of(const char *what, const char *word, const char *choices, int *out) {
  const size_t n = strlen(word);
  int i = 0;
  for (const char *at = choices; *at; i++) {
    const size_t len = strcspn(at, "|");
    if (len == n && memcmp(at, word, n) == 0) return *out = i, GRPO_OK;
    at += len + (at[len] == '|');
  }
  return fail(GRPO_EARG, "%s: '%.40s' is unknown, want %s", what, word, choices);
}

/* base64.h - decodes base64 (RFC 4648). */
#ifndef GRPO_BASE_BASE64_H
#define GRPO_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the bytes that s, padded or not, stands for; false if it is not base64. */
bool base64_decode(const char *s, size_t n, Buf *out);

#endif

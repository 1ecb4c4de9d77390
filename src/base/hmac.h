/* hmac.h - HMAC with SHA-256 (RFC 2104): whoever knows the key can make and check it. */
#ifndef GRPO_BASE_HMAC_H
#define GRPO_BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"

/* Writes 64 hexadecimal digits and a NUL. */
void hmac_sha256(const void *key, size_t key_len, const void *data, size_t n,
                 char *hex /* [DIGEST_HEX_BYTES] */);
/* Are these bytes equal?  The time that it takes says nothing about where they differ. */
bool hmac_equal(const void *a, const void *b, size_t n);

#endif

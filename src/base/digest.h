/* digest.h - SHA-1 and SHA-256 (FIPS 180-4), to compare files with the sums that others publish.
 *
 * SHA-1 is here because git names files by it; it does not protect against forged files.
 */
#ifndef GRPO_BASE_DIGEST_H
#define GRPO_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef enum DigestKind { DIGEST_SHA1, DIGEST_SHA256 } DigestKind;
enum { DIGEST_HEX_BYTES = 65 };

typedef struct Digest {
  DigestKind kind;
  uint32_t h[8];
  uint64_t len;
  unsigned char block[64];
} Digest;

void digest_begin(Digest *d, DigestKind kind);
void digest_put(Digest *d, const void *data, size_t n);
/* Writes 40 or 64 hexadecimal digits and a NUL. */
void digest_end(Digest *d, char *hex /* [DIGEST_HEX_BYTES] */);

#endif

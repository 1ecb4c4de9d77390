/* decompress.h - gzip and zstd files, and the compressed blocks of containers.
 *
 * zlib and libzstd are loaded when they are asked; Snappy is our own.  A message names what is
 * read, and what brings a library that is missing.
 */
#ifndef GRPO_PARQUET_DECOMPRESS_H
#define GRPO_PARQUET_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef enum Codec { CODEC_NONE, CODEC_GZIP, CODEC_ZSTD, CODEC_SNAPPY } Codec;

/* A file may become FREE bytes, or RATIO times its size, up to MAX: a text does not shrink to a
 * thousandth, a decompression bomb does. */
#define DECOMPRESS_FREE  ((uint64_t)64 << 20)
#define DECOMPRESS_RATIO 1000u
#define DECOMPRESS_MAX   ((uint64_t)16 << 30)

/* GZIP, ZSTD, or NONE, by a file's first bytes. */
Codec codec_of_file(const void *data, size_t n);
/* "zlib", "libzstd" when the codec's library can be loaded, else NULL. */
const char *codec_library(Codec codec);
/* Appends the contents of a gzip or zstd file, member after member.  EFORMAT: it is damaged or cut
 * short; ELIMIT: it becomes larger than the bounds above; EARG: the library is not there. */
Status decompress_file(Codec codec, const void *data, size_t n, const char *what, Buf *out);
/* Decompresses a block into exactly out_n bytes.  EFORMAT, EARG as above. */
Status decompress_block(Codec codec, const void *in, size_t n, void *out, size_t out_n,
                        const char *what);

#endif

#include "parquet/snappy.h"

#include <string.h>

typedef struct Block {
  const uint8_t *in;
  size_t n, at;
  uint8_t *out;
  size_t out_n, put;
} Block;

/* The length of the decompressed bytes stands in front, 7 bits to a byte. */
static bool read_length(Block *b, uint64_t *length) {
  *length = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (b->at == b->n) return false;
    const uint8_t byte = b->in[b->at++];
    *length |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static bool little_endian(Block *b, size_t bytes, size_t *v) {
  *v = 0;
  if (b->n - b->at < bytes) return false;
  for (size_t i = 0; i < bytes; i++) *v |= (size_t)b->in[b->at++] << 8 * i;
  return true;
}

static bool put_literal(Block *b, uint8_t tag) {
  size_t length = tag >> 2;
  if (length >= 60 && !little_endian(b, length - 59, &length)) return false;
  length++;
  if (b->n - b->at < length || b->out_n - b->put < length) return false;
  memcpy(b->out + b->put, b->in + b->at, length);
  b->at += length;
  b->put += length;
  return true;
}

/* A copy may reach into what it is writing, which repeats a pattern. */
static bool put_copy(Block *b, uint8_t tag) {
  size_t length = (tag >> 2) + 1u, offset;
  const int kind = tag & 3;
  if (!little_endian(b, kind == 1 ? 1 : kind == 2 ? 2 : 4, &offset)) return false;
  if (kind == 1) {
    length = (tag >> 2 & 7) + 4u;
    offset |= (size_t)(tag >> 5) << 8;
  }
  if (!offset || offset > b->put || b->out_n - b->put < length) return false;
  for (size_t i = 0; i < length; i++, b->put++) b->out[b->put] = b->out[b->put - offset];
  return true;
}

bool snappy_decompress(const uint8_t *in, size_t n, uint8_t *out, size_t out_n) {
  Block b = {.in = in, .n = n, .out = out, .out_n = out_n};
  uint64_t length;
  if (!read_length(&b, &length) || length != out_n) return false;
  while (b.at < n) {
    const uint8_t tag = in[b.at++];
    if (!(tag & 3 ? put_copy(&b, tag) : put_literal(&b, tag))) return false;
  }
  return b.put == out_n;
}

/* oracle.h - rows of text, ids and decoded text against a tokenizer. */
#ifndef GRPO_TESTS_TEXT_ORACLE_H
#define GRPO_TESTS_TEXT_ORACLE_H

#include "formats/json.h"
#include "text/tokenizer.h"

/* Call fn on every line of a JSON Lines file; returns how many there were. */
int each_row(const char *path, void (*fn)(const Json *row, void *user), void *user);

/* A string of the row, which may hold NUL bytes; the result belongs to the caller. */
Buf row_text(const Json *row, const char *key);

/* Encode and decode one row {text, ids, ids_special, decoded, decoded_skip}, whichever it has. */
void check_encode_row(const Tokenizer *t, const Json *row);

/* Decode one row {ids, decoded, decoded_skip}. */
void check_decode_row(const Tokenizer *t, const Json *row);

/* Encode; the result belongs to the caller. */
IntBuf encode_all(const Tokenizer *t, const char *s, size_t n, unsigned flags);

/* decode(encode(s)) gives s again. */
void check_round_trip(const Tokenizer *t, const char *s, size_t n);

/* The file's bytes; the result belongs to the caller. */
Buf read_all(const char *path);

#endif

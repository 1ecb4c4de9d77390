/* gguf_reader.h - writes a config.json from the keys of a GGUF file. */
#ifndef GRPO_GGUF_READER_H
#define GRPO_GGUF_READER_H

#include "base/buf.h"
#include "gguf/gguf.h"
#include "gguf/gguf_keys.h"

typedef struct Reader {
  const Gguf *g;
  const GgufArch *a;
  Family family;
  Buf b; /* the config.json so far, an object that is open */
  char key[GGUF_KEY_BYTES];
} Reader;

void reader_put_name(Reader *r, const char *hf); /* ", "name": " */
void reader_put_int(Reader *r, const char *hf, int64_t v);
void reader_put_number(Reader *r, const char *hf, double v);
void reader_put_bool(Reader *r, const char *hf, bool v);
/* A float32 stands for the shortest decimal that reads as the same float: 1e-6, not
 * 9.99999997e-07. */
double reader_meant(double v);
/* Copies a key where the file and the family have it.  EFORMAT: it is wanted and missing. */
Status reader_copy_int(Reader *r, const KeyPair *p, bool wanted);
Status reader_copy_number(Reader *r, const KeyPair *p);

#endif

/* gguf_keys.h - the keys of a model's shape in GGUF files, beside those of config.json. */
#ifndef GRPO_GGUF_KEYS_H
#define GRPO_GGUF_KEYS_H

#include "gguf/gguf_arch.h"
#include "model/config_fields.h"

enum { GGUF_KEY_BYTES = 128 };

/* A key behind the architecture's name, and the same key in config.json. */
typedef struct KeyPair {
  const char *key, *hf;
} KeyPair;
enum { GGUF_INTEGERS = 7, GGUF_NUMBERS = 10 };
extern const KeyPair gguf_integers[GGUF_INTEGERS]; /* the first five are in every file */
extern const KeyPair gguf_numbers[GGUF_NUMBERS];   /* of some families; rope_theta is the first */

/* Of layers with a state: of DeltaNets, and of LFM2. */
enum { GGUF_DELTAS = 4 };
extern const KeyPair gguf_deltas[GGUF_DELTAS], gguf_filter;
#define GGUF_VALUES_WIDTH "ssm.inner_size" /* of all value heads */
#define GGUF_INTERVAL     "full_attention_interval"
#define GGUF_SECTIONS     "rope.dimension_sections"
#define GGUF_BESIDE       "nextn_predict_layers"

/* Our own keys: Llama 3's three factors cannot be told from rope_freqs.weight, and others are known
 * there only as float32, or as a part of another number. */
#define GGUF_LLAMA3_FACTOR  "grpo.rope.factor"
#define GGUF_LLAMA3_LOW     "grpo.rope.low_freq_factor"
#define GGUF_LLAMA3_HIGH    "grpo.rope.high_freq_factor"
#define GGUF_YARN_ATTENTION "grpo.rope.attention_factor"
#define GGUF_YARN_TRUNCATE  "grpo.rope.truncate"
#define GGUF_ALPHA          "grpo.rope.alpha"
#define GGUF_ALPHA_THETA    "grpo.rope.theta"

/* "llama.block_count", in out[GGUF_KEY_BYTES] */
const char *gguf_key(char *out, const GgufArch *a, const char *key);
const char *gguf_epsilon_key(const GgufArch *a);

Family gguf_family(const GgufArch *a);
bool gguf_has_trait(const GgufArch *a, Traits trait); /* one of the family, not of its fields */
/* The field that has this key, or this common name; false: the family has none. */
bool gguf_find_field(const GgufArch *a, const char *hf, Field *out);
bool gguf_has_field(const GgufArch *a, const char *hf);
static inline bool gguf_is_gemma(const GgufArch *a) { return GEMMAS >> gguf_family(a) & 1; }

/* Other programs divide gemma's scores by the square root of this. */
int64_t gguf_usual_query_scalar(const GgufArch *a, int64_t layers, int64_t hidden, int64_t heads,
                                int64_t head_dim);
/* The factor of cosines and sines, unless a file has its own: longrope's and YaRN's. */
double gguf_long_factor(double positions, double original);
double gguf_yarn_factor(double factor);

#endif

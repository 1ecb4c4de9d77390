/* config_fields.h - the plain fields of Config (numbers and switches), as config.def lists them.
 *
 * The same rows serve reading, checking and writing.  A field of a family has the family's key,
 * default and range.
 */
#ifndef GRPO_MODEL_CONFIG_FIELDS_H
#define GRPO_MODEL_CONFIG_FIELDS_H

#include "base/buf.h"
#include "formats/json.h"
#include "model/config.h"

/* Sets of families, as bits. */
typedef uint64_t Families;
#define IN(name)   ((Families)1 << FAMILY_##name)
#define ALL        (~(Families)0)
#define ROPED      (ALL & ~IN(GPT2) & ~IN(GPT2_MLA) & ~IN(OPT))
#define LATENTS    (IN(GPT2_MLA) | DEEPSEEKS)
#define DEEPSEEKS  (IN(DEEPSEEK2) | IN(DEEPSEEK3))
#define QWENS      (IN(QWEN2) | IN(QWEN3) | IN(QWEN2_MOE) | IN(QWEN3_MOE))
#define OLD_GEMMAS (IN(GEMMA2) | IN(GEMMA3))
#define GEMMAS     (OLD_GEMMAS | IN(GEMMA4))
#define GRANITES   (IN(GRANITE) | IN(GRANITE4) | IN(GRANITE_MOE))
#define LFMS       (IN(LFM2) | IN(LFM2_MOE) | IN(LFM3))
#define DELTANETS  (IN(QWEN3_5) | IN(QWEN3_5_MOE) | IN(QWEN3_NEXT))
#define MIXTURES                                                                                   \
  (IN(MIXTRAL) | IN(GRANITE_MOE) | IN(QWEN2_MOE) | IN(QWEN3_MOE) | IN(OLMOE) | IN(QWEN3_5_MOE) |   \
   IN(QWEN3_NEXT) | IN(DEEPSEEK3) | IN(GPT_OSS) | IN(LFM2_MOE))
/* Their files may have experts: Gemma 4 with enable_moe_block alone. */
#define ROUTED (MIXTURES | IN(GEMMA4))
/* intermediate_size is the width of an expert */
#define NARROW_MIXTURES (IN(MIXTRAL) | IN(GRANITE_MOE) | IN(OLMOE) | IN(GPT_OSS))
/* Some of their layers have a state. */
#define STATEFUL    (DELTANETS | LFMS)
#define LAYER_TYPED (WINDOW_TYPED | STATEFUL)
/* layer_types tells layers with a window from others. */
#define WINDOW_TYPED                                                                               \
  (QWENS | GEMMAS | IN(OLMO3) | IN(MINISTRAL) | IN(EXAONE4) | IN(COHERE2) | IN(GPT_OSS) | IN(LFM3))
#define WINDOWED                                                                                   \
  (WINDOW_TYPED | IN(MISTRAL) | IN(MIXTRAL) | IN(PHI3) | IN(MINISTRAL3) | IN(STARCODER2))
/* Layers without a window have no rotary positions where others have a window. */
#define UNROTATED (IN(EXAONE4) | IN(COHERE2))
#define PARTLY_ROPED                                                                               \
  (IN(PHI3) | IN(GLM4) | IN(STABLELM) | IN(NEMOTRON) | IN(GPT_NEOX) | IN(PHI) | DELTANETS)
/* Rotary positions of layers without a window are proportional, where the file does not say. */
#define PROPORTIONAL (IN(GEMMA4) | IN(LFM3))
/* Queries and keys are normed. */
#define QK_NORMED                                                                                  \
  (IN(QWEN3) | IN(QWEN3_MOE) | IN(GEMMA3) | IN(GEMMA4) | OLMOS | IN(EXAONE4) | IN(HUNYUAN) |       \
   STATEFUL)
#define LAYERNORMED                                                                                \
  (IN(STARCODER2) | IN(STABLELM) | IN(NEMOTRON) | IN(COHERE2) | IN(GPT_NEOX) | IN(OPT) | IN(PHI))
#define OLMOS (IN(OLMO2) | IN(OLMO3) | IN(OLMOE))
#define BIASED                                                                                     \
  (IN(LLAMA) | IN(ARCEE) | IN(QWEN3) | GEMMAS | DEEPSEEKS | IN(SMOLLM3) | GRANITES | OLMOS |       \
   IN(SEED_OSS) | IN(HUNYUAN) | IN(ERNIE) | IN(GLM4) | IN(STARCODER2) | IN(STABLELM) |             \
   IN(NEMOTRON) | IN(COHERE2) | IN(GPT_NEOX) | DELTANETS | IN(NANOCHAT) | IN(QWEN3_MOE) |          \
   IN(GPT_OSS) | IN(LFM3))

typedef enum FieldType { FIELD_INT, FIELD_NUM, FIELD_BOOL } FieldType;

/* One field as one family has it. */
typedef struct Field {
  const char *key, *common_key; /* key is "" where the family's files do not have the field */
  FieldType type;
  bool nullable;
  size_t at; /* its offset in Config */
  double otherwise, lo, hi;
} Field;

int config_num_fields(void);
Field config_field(Family f, int i);
double config_get(const Config *c, const Field *f);
void config_set(Config *c, const Field *f, double v);
/* May config.json list the type of each layer (layer_types) in this family? */
bool config_has_layer_types(const Config *c);

/* Single values of a config.json.  `what` names the file in messages; an error is GRPO_EFORMAT. */
bool config_absent(const Json *v); /* is it missing or null? */
Status config_read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out);
Status config_read_num(const Json *v, const char *key, double lo, double hi, const char *what,
                       double *out);
Status config_read_bool(const Json *v, const char *key, const char *what, bool *out);
void config_put_key(Buf *b, const char *key); /* ",\n  \"key\": " */

#endif

/* gguf_patterns.h - the regular expressions that only names in GGUF files stand for (gguf_pre.c).
 * They are made of parts of text/patterns.h. */
#ifndef GRPO_GGUF_PATTERNS_H
#define GRPO_GGUF_PATTERNS_H

#include "text/patterns.h"

#define PATTERN_SUFFIXES_         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define PATTERN_WORDS_OF_LETTERS_ "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define PATTERN_QWEN35                                                                             \
  PATTERN_SUFFIXES_ "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"     \
                    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_UFAKZEKA PATTERN_WORDS_OF_LETTERS_ "\\p{N}" PATTERN_REST_
#define PATTERN_MINICPM5 PATTERN_WORDS_ "\\p{N}+" PATTERN_REST_
#define PATTERN_SEED_CODER                                                                         \
  PATTERN_WORDS_ "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_BAILING                                                                            \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"   \
  "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define PATTERN_EXAONE_MOE                                                                         \
  PATTERN_SUFFIXES_ "[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"          \
                    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define PATTERN_JAIS2                                                                              \
  PATTERN_WORDS_ "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"       \
                 "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|"   \
                 "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define PATTERN_YOUTU PATTERN_CASED_(PATTERN_SUFFIX_) "|\\p{N}" PATTERN_TAIL_

/* A letter may follow a character of punctuation. */
#define PATTERN_AFTER_PUNCTUATION_ "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
#define PATTERN_DEEPSEEK3_WORDS_                                                                   \
  PATTERN_AFTER_PUNCTUATION_ "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define PATTERN_DEEPSEEK3 PATTERN_DEEPSEEK3_WORDS_ "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_SPARK     PATTERN_DEEPSEEK3_WORDS_ "|[\\r\\n]|\\s+(?!\\S)|\\s+"
#define PATTERN_POROUS    " ?[^(\\s|.,!?…。，、।۔،)]+"
#define PATTERN_CJK       "[一-龥぀-ゟ゠-ヿ]+"

/* Kimi K2: Chinese characters are cut off from other letters. */
#define PATTERN_UPPER_NOT_HAN_ "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define PATTERN_LOWER_NOT_HAN_ "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define PATTERN_KIMI                                                                               \
  "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" PATTERN_UPPER_NOT_HAN_ "*" PATTERN_LOWER_NOT_HAN_           \
  "+" PATTERN_SUFFIX_ "|[^\\r\\n\\p{L}\\p{N}]?" PATTERN_UPPER_NOT_HAN_ "+" PATTERN_LOWER_NOT_HAN_  \
  "*" PATTERN_SUFFIX_ "|\\p{N}{1,3}" PATTERN_REST_

#endif

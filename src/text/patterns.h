/* patterns.h - the regular expressions with which well-known byte-level tokenizers cut text.
 * Private to src/text. */
#ifndef GRPO_TEXT_PATTERNS_H
#define GRPO_TEXT_PATTERNS_H

#define PATTERN_GPT2                                                                               \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define PATTERN_WORDS_ "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define PATTERN_REST_  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* GPT-4 and Llama 3 take up to three digits together, Qwen 2 takes one at a time. */
#define PATTERN_GPT4 PATTERN_WORDS_ "\\p{N}{1,3}" PATTERN_REST_
#define PATTERN_QWEN PATTERN_WORDS_ "\\p{N}" PATTERN_REST_

#define PATTERN_UPPER_ "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define PATTERN_LOWER_ "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PATTERN_CASED_(ends)                                                                       \
  "[^\\r\\n\\p{L}\\p{N}]?" PATTERN_UPPER_ "*" PATTERN_LOWER_ "+" ends                              \
  "|[^\\r\\n\\p{L}\\p{N}]?" PATTERN_UPPER_ "+" PATTERN_LOWER_ "*" ends
#define PATTERN_TAIL_   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_SUFFIX_ "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
/* GPT-4o (o200k) and Mistral's Tekken. */
#define PATTERN_GPT4O  PATTERN_CASED_(PATTERN_SUFFIX_) "|\\p{N}{1,3}" PATTERN_TAIL_
#define PATTERN_TEKKEN PATTERN_CASED_("") "|\\p{N}" PATTERN_TAIL_

/* Numbers in groups of three digits from their end. */
#define PATTERN_THREES   "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define PATTERN_THREES_N "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define PATTERN_BEFORE_3 "(?=(\\d{3})+(?!\\d))"

#endif

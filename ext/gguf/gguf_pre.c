#include "gguf/gguf_pre.h"

#include <string.h>

#include "gguf/gguf_patterns.h"
#include "text/component.h"

#define DIGIT "\\p{N}" /* component Digits, one at a time */

/* Letters that have a case, as DeepSeek's first tokenizers list them. */
/* clang-format off */
#define CASED_LETTERS \
  "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓ" \
  "ʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵ" \
  "Ϸ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿ" \
  "ᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ" \
  "ὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌ" \
  "ῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝ" \
  "ℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻ" \
  "Ȿ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇ" \
  "Ꞌ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓" \
  "𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
/* clang-format on */

/* The names are those that llama.cpp knows; the patterns are those of the models' own files. */
static const GgufPre table[] = {
    {.names =
         "gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe "
         "mpt olmo jais trillion granite-docling exaone4 modern-bert gigachat a.x-4.0 mellum",
     .pattern = {PATTERN_GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .pattern = {PATTERN_GPT4},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "smaug-bpe dbrx chatglm-bpe", .pattern = {PATTERN_GPT4}},
    {.names = "glm4 glm5", .pattern = {PATTERN_GPT4}, .ignore_merges = true},
    {.names = "qwen2 deepseek-r1-qwen megrez f2llmv2", .pattern = {PATTERN_QWEN}, .nfc = true},
    {.names = "stablelm2 hunyuan solar-open grok-2 kormo", .pattern = {PATTERN_QWEN}},
    {.names = "qwen35", .pattern = {PATTERN_QWEN35}, .nfc = true},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     .pattern = {DIGIT, PATTERN_GPT2}},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2", .pattern = {PATTERN_GPT4O}},
    {.names = "granite-embed-multi-97m", .pattern = {PATTERN_GPT4O}, .ignore_merges = true},
    {.names = "tekken", .pattern = {PATTERN_TEKKEN}, .ignore_merges = true, .add_bos = true},
    {.names = "default",
     .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|]+", PATTERN_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "falcon", .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", PATTERN_GPT2, "[0-9][0-9][0-9]"}},
    {.names = "deepseek-llm",
     .pattern = {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
                 "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"}},
    {.names = "deepseek-coder",
     .pattern = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", DIGIT}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .pattern = {"\\p{N}{1,3}", PATTERN_CJK, PATTERN_DEEPSEEK3}},
    {.names = "spark2_5", .pattern = {"\\p{N}{1,3}", PATTERN_CJK, PATTERN_SPARK, DIGIT}},
    {.names = "youtu",
     .pattern = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+"
                 "|" PATTERN_CJK,
                 PATTERN_YOUTU},
     .ignore_merges = true},
    {.names = "bloom poro-chat gpt3-finnish", .pattern = {PATTERN_POROUS}},
    {.names = "viking", .pattern = {PATTERN_POROUS, DIGIT}},
    {.names = "jais-2", .pattern = {PATTERN_JAIS2}},
    {.names = "tiny_aya cohere2moe", .pattern = {PATTERN_THREES, PATTERN_GPT4O}},
    {.names = "kimi-k2", .pattern = {PATTERN_KIMI}},
    {.names = "superbpe", .pattern = {"\\p{N}+", PATTERN_BEFORE_3}},
    {.names = "bailingmoe bailingmoe2 llada-moe", .pattern = {PATTERN_BAILING}},
    {.names = "seed-coder", .pattern = {PATTERN_SEED_CODER}},
    {.names = "ufakzeka", .pattern = {PATTERN_UFAKZEKA}},
    {.names = "afmoe",
     .pattern =
         {PATTERN_THREES_N,
          "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-"
          "ꩿꧠ-"
          "꧿가-"
          "힯ᄀ-"
          "ᇿ]+",
          PATTERN_DEEPSEEK3}},
    {.names = "laguna", .pattern = {"[^\\n]+|[\\n]+", PATTERN_QWEN}},
    {.names = "exaone-moe", .pattern = {PATTERN_EXAONE_MOE}},
    {.names = "minicpm5", .pattern = {"\\p{N}{1,3}", PATTERN_MINICPM5}, .ignore_merges = true},
    {.names = "chameleon",
     .pattern = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
                 DIGIT, "[\\p{P}!-/:-@\\[-`{-~]", PATTERN_GPT2},
     .add_bos = true},
};
enum { NPRE = sizeof table / sizeof *table };

const GgufPre *gguf_pre_find(const char *name, size_t n) {
  for (int i = 0; i < NPRE; i++)
    for (const char *p = table[i].names; *p;) {
      const size_t k = strcspn(p, " ");
      if (k == n && memcmp(p, name, n) == 0) return &table[i];
      p += k + (p[k] == ' ');
    }
  return NULL;
}

/* ---- finding the name for a tokenizer.json ------------------------------------------------ */

typedef struct Found {
  const char *pattern[GGUF_PRE_PATTERNS];
  int n;
} Found;

static Status found_pattern(Found *f, const char *pattern) {
  if (f->n == GGUF_PRE_PATTERNS) return fail(GRPO_EFORMAT, "too many pre-tokenizers");
  f->pattern[f->n++] = pattern;
  return GRPO_OK;
}

static Status add_step(void *user, const Json *j) {
  Found *f = user;
  const char *type = component_type(j);
  const char *regex = json_string(json_get(json_get(j, "pattern"), "Regex"));
  const char *behavior = json_string(json_get(j, "behavior"));
  if (strcmp(type, "ByteLevel") == 0) {
    const Json *use = json_get(j, "use_regex");
    if (json_bool(json_get(j, "add_prefix_space")))
      return fail(GRPO_EFORMAT, "ByteLevel with add_prefix_space");
    return use && !json_bool(use) ? GRPO_OK : found_pattern(f, PATTERN_GPT2);
  }
  if (strcmp(type, "Digits") == 0 && json_bool(json_get(j, "individual_digits")))
    return found_pattern(f, DIGIT);
  const bool isolated = behavior && strcmp(behavior, "Isolated") == 0;
  if (strcmp(type, "Split") == 0 && regex && isolated && !json_bool(json_get(j, "invert")))
    return found_pattern(f, regex);
  return fail(GRPO_EFORMAT, "%s", type);
}

static bool same_patterns(const GgufPre *pre, const Found *f) {
  for (int i = 0; i < GGUF_PRE_PATTERNS; i++) {
    const char *want = pre->pattern[i], *has = i < f->n ? f->pattern[i] : NULL;
    if (!want || !has) return !want && !has;
    if (strcmp(want, has) != 0) return false;
  }
  return true;
}

Status gguf_pre_of(const Json *tokenizer, const GgufPre **out) {
  Found f = {0};
  const Json *model = json_get(tokenizer, "model");
  const bool whole = json_bool(json_get(model, "ignore_merges"));
  const bool normalizer = !component_is_null(json_get(tokenizer, "normalizer"));
  Status s = component_each(json_get(tokenizer, "pre_tokenizer"), "pretokenizers", add_step, &f);
  if (s != GRPO_OK) return err_context(s, "no tokenizer.ggml.pre stands for this pre-tokenizer");
  /* Without merges, as in the byte tokenizer, it does not matter where text is cut. */
  if (!f.n && !json_child(json_get(model, "merges"))) f = (Found){{PATTERN_GPT2}, 1};
  for (int pass = 0; pass < 2; pass++) /* the first pass also wants the same answer about NFC */
    for (int i = 0; i < NPRE; i++)
      if (same_patterns(&table[i], &f) && table[i].ignore_merges == whole &&
          (pass || table[i].nfc == normalizer)) {
        *out = &table[i];
        return GRPO_OK;
      }
  return fail(GRPO_EFORMAT,
              "no tokenizer.ggml.pre stands for a pre-tokenizer with this regular expression%s",
              whole ? " and ignore_merges" : "");
}

/* ---- writing a tokenizer.json -------------------------------------------------------------- */

void gguf_pre_put_json(Buf *b, const GgufPre *pre) {
  buf_puts(b, "{\"type\": \"Sequence\", \"pretokenizers\": [");
  for (int i = 0; i < GGUF_PRE_PATTERNS && pre->pattern[i]; i++) {
    if (strcmp(pre->pattern[i], DIGIT) == 0) {
      buf_puts(b, "{\"type\": \"Digits\", \"individual_digits\": true}, ");
      continue;
    }
    buf_puts(b, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    json_put_string(b, pre->pattern[i], strlen(pre->pattern[i]));
    buf_puts(b, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
  }
  buf_puts(b, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
              "\"use_regex\": false}]}");
}

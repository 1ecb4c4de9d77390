/* test_pretoken.c - the hand-written parts against slower, plainer ones. */
#include <stdlib.h>

#include "base/regex.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "testing.h"
#include "text/bpe.h"
#include "text/bpe_train.h"
#include "text/bytelevel.h"
#include "text/pretoken.h"
#include "text/unicode.h"

static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static uint32_t below(uint64_t i, uint32_t n) {
  const RngKey key = {.seed = 11, .stream = RNG_TASK};
  return (uint32_t)(rng_uniform(&key, i) * n);
}

/* Characters that the patterns tell apart, and some beyond ASCII of each class. */
static const uint32_t alphabet[] = {'\'', '\'', 's',     't',     'r',    'e',    'v',    'l',
                                    'L',  'D',  'm',     'a',     'Z',    ' ',    ' ',    ' ',
                                    '\n', '\r', '\t',    '0',     '7',    '9',    '.',    '!',
                                    '(',  '_',  0x17F,   0xE9,    0x3000, 0xA0,   0x2028, 0x4E2D,
                                    0xB2, 0xBD, 0x1D7D8, 0x1F600, 0x301,  0x200B, 0xAD,   0x0F};

static size_t random_subject(uint64_t seed, char *s) {
  size_t n = 0, count = 1 + below(seed * 64, 24);
  for (size_t i = 0; i < count; i++) {
    uint32_t k = below(seed * 64 + 1 + i, sizeof alphabet / sizeof *alphabet);
    n += utf8_encode(alphabet[k], s + n);
  }
  return n;
}

static void compare(const char *pattern, PreKind kind) {
  Regex *re = NULL;
  char s[128];
  CHECK(pre_kind_of(pattern) == kind);
  CHECK(regex_compile(&re, pattern, strlen(pattern), REGEX_VALID_UTF) == GRPO_OK);
  for (uint64_t seed = 0; re && seed < 20000; seed++) {
    size_t n = random_subject(seed, s);
    for (size_t at = 0; at < n;) {
      bool found;
      const size_t *m;
      CHECK(regex_exec(re, s, n, at, &found, &m) == GRPO_OK);
      size_t len = pre_scan(kind, s + at, n - at);
      if (!found || m[0] != at || m[1] != at + len) {
        test_fail(__FILE__, __LINE__, "\"%.*s\" from %zu: %zu bytes, the regex has %zu", (int)n, s,
                  at, len, found ? m[1] - m[0] : 0);
        break;
      }
      at += len;
    }
  }
  regex_free(re);
}

TEST(the_gpt2_scanner_is_its_regex) { compare(gpt2, PRE_GPT2); }
TEST(the_llama3_scanner_is_its_regex) { compare(llama3, PRE_LLAMA3); }
TEST(the_qwen_scanner_is_its_regex) { compare(qwen, PRE_QWEN); }

TEST(the_unicode_tables_agree_with_pcre_where_both_know_the_character) {
  static const struct {
    const char *pattern;
    unsigned flag;
    int tolerance; /* letters and numbers assigned after PCRE2's Unicode version */
  } classes[] = {{"\\p{L}", UNI_LETTER, 20000}, {"\\p{N}", UNI_NUMBER, 400}, {"\\s", UNI_SPACE, 1}};
  for (int i = 0; i < 3; i++) {
    Regex *re = NULL;
    int differ = 0;
    CHECK(regex_compile(&re, classes[i].pattern, strlen(classes[i].pattern), 0) == GRPO_OK);
    for (uint32_t cp = 0; re && cp < 0x30000; cp++) {
      char s[4];
      bool found;
      const size_t *m;
      if (cp >= 0xD800 && cp < 0xE000) continue;
      CHECK(regex_exec(re, s, utf8_encode(cp, s), 0, &found, &m) == GRPO_OK);
      bool ours = (unicode_class(cp) & classes[i].flag) != 0;
      differ += ours != found;
      if (cp < 0x500) CHECK(ours == found);
    }
    CHECK(differ <= classes[i].tolerance);
    printf("# %s: %d code points differ\n", classes[i].pattern, differ);
    regex_free(re);
  }
}

TEST(the_byte_alphabet_is_one_to_one) {
  bool seen[0x200] = {false};
  for (int b = 0; b < 256; b++) {
    uint32_t cp = bytelevel_char((unsigned char)b);
    CHECK(cp < 0x144 && !seen[cp]);
    CHECK(bytelevel_byte(cp) == b);
    seen[cp] = true;
  }
  CHECK(bytelevel_char(' ') == 0x120 && bytelevel_char('\n') == 0x10A);
  CHECK(bytelevel_byte(0x144) == -1 && bytelevel_byte(' ') == -1 && bytelevel_byte(0x1F600) == -1);
}

/* ---- BPE against the textbook -------------------------------------------------------------- */

/* Merge the pair of lowest rank, the leftmost first, looking at everything every time. */
static size_t textbook(const Bpe *b, const char *s, size_t n, int32_t *id) {
  for (size_t i = 0; i < n; i++) id[i] = b->byte_id[(unsigned char)s[i]];
  for (;;) {
    const MapEntry *best = NULL;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      const MapEntry *m = bpe_find(b, id[i], id[i + 1]);
      if (m && (!best || bpe_rank(m) < bpe_rank(best))) best = m, at = i;
    }
    if (!best) return n;
    id[at] = bpe_id(best);
    memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
    n--;
  }
}

TEST(the_heap_merges_as_the_textbook_does) {
  Bpe b;
  BpeScratch w = {0};
  IntBuf out = {0};
  CHECK(bpe_init(&b, 200) == GRPO_OK);
  for (int i = 0; i < 256; i++) b.byte_id[i] = i < 4 ? i : -1;
  for (int32_t rank = 0; rank < 200; rank++) /* any pairs at all, also ones that make loops */
    bpe_put(&b, (int32_t)below(2 * (uint64_t)rank, 4 + (uint32_t)rank / 3),
            (int32_t)below(2 * (uint64_t)rank + 1, 4 + (uint32_t)rank / 3), rank, 4 + rank / 3);
  for (uint64_t seed = 0; seed < 3000; seed++) {
    char s[40];
    int32_t want[40];
    size_t n = 1 + below(seed, 40);
    for (size_t i = 0; i < n; i++) s[i] = (char)below(5000 + seed * 40 + i, 4);
    size_t nwant = textbook(&b, s, n, want);
    intbuf_clear(&out);
    CHECK(bpe_encode(&b, &w, s, n, &out) == GRPO_OK);
    CHECK(out.len == nwant && memcmp(out.data, want, nwant * sizeof *want) == 0);
  }
  intbuf_free(&out);
  bpe_scratch_free(&w);
  bpe_free(&b);
}

/* ---- training against counting everything for each merge ------------------------------------ */

enum { ALPHABET = 3, FIRST = 256, MERGES = 60 };

typedef struct Naive {
  int32_t sym[64][64];
  size_t len[64];
  int64_t count[FIRST + MERGES][FIRST + MERGES];
} Naive;

static bool naive_best(Naive *x, const WordCounts *w, int32_t *left, int32_t *right) {
  int64_t best = 1;
  memset(x->count, 0, sizeof x->count);
  for (size_t i = 0; i < w->n; i++)
    for (size_t k = 0; k + 1 < x->len[i]; k++)
      x->count[x->sym[i][k]][x->sym[i][k + 1]] += w->word[i].count;
  for (int32_t a = 0; a < FIRST + MERGES; a++)
    for (int32_t b = 0; b < FIRST + MERGES; b++)
      if (x->count[a][b] > best) best = x->count[a][b], *left = a, *right = b;
  return best > 1;
}

static void naive_merge(Naive *x, const WordCounts *w, int32_t left, int32_t right, int32_t id) {
  for (size_t i = 0; i < w->n; i++) {
    size_t to = 0;
    for (size_t k = 0; k < x->len[i]; to++) {
      bool hit = k + 1 < x->len[i] && x->sym[i][k] == left && x->sym[i][k + 1] == right;
      x->sym[i][to] = hit ? id : x->sym[i][k];
      k += hit ? 2 : 1;
    }
    x->len[i] = to;
  }
}

TEST(training_equals_counting_everything_anew) {
  Naive *x = calloc(1, sizeof *x);
  for (uint64_t seed = 0; seed < 12; seed++) {
    WordCounts w = {0};
    Vocab v = {0};
    IntBuf merges = {0};
    for (uint64_t i = 0; i < 30; i++) {
      char s[30];
      size_t n = 1 + below(seed * 4096 + i, 30);
      for (size_t k = 0; k < n; k++) s[k] = (char)('a' + below(seed * 4096 + 100 + i * 32 + k, 3));
      CHECK(words_count(&w, s, n, false) == GRPO_OK);
    }
    for (int b = 0; b < 256; b++)
      CHECK(vocab_add(&v, &(char){(char)b}, 1, b, TOKEN_MODEL) == GRPO_OK);
    for (size_t i = 0; i < w.n; i++) {
      x->len[i] = w.word[i].n;
      for (size_t k = 0; k < x->len[i]; k++)
        x->sym[i][k] = (unsigned char)w.bytes.data[w.word[i].at + k];
    }
    CHECK(bpe_train(&w, FIRST + MERGES, 2, &v, &merges) == GRPO_OK);
    int32_t next = FIRST;
    for (size_t k = 0; k < merges.len; k += 2) {
      int32_t left = -1, right = -1;
      CHECK(naive_best(x, &w, &left, &right));
      CHECK(merges.data[k] == left && merges.data[k + 1] == right);
      char both[64];
      const VocabEntry *a = vocab_entry(&v, left), *b = vocab_entry(&v, right);
      if (!a || !b) break;
      memcpy(both, v.text.data + a->text, a->len);
      memcpy(both + a->len, v.text.data + b->text, b->len);
      int32_t id = vocab_find(&v, both, a->len + b->len);
      CHECK(id <= next);
      next += id == next;
      naive_merge(x, &w, left, right, id);
    }
    CHECK(merges.len > 40);
    words_free(&w);
    vocab_free(&v);
    intbuf_free(&merges);
  }
  free(x);
}

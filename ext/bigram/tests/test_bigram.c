/* Counting pairs of tokens, and the rows of logits that come of it. */
#include <math.h>
#include <stdlib.h>

#include "base/exponential.h"
#include "base/mem.h"
#include "bigram/bigram.h"
#include "status.h"

/* Every row of b is log((count + 1) / (sum + vocab)) of these counts, to the last bit. */
static void check_rows(const Bigram *b, int v, const uint32_t *count) {
  real *row = malloc((size_t)v * sizeof *row);
  for (int i = 0; i < v; i++) {
    double total = (double)v;
    for (int j = 0; j < v; j++) total += count[i * v + j];
    bigram_row(b, i, row);
    for (int j = 0; j < v; j++) CHECK(row[j] == (real)math_log((count[i * v + j] + 1.0) / total));
  }
  free(row);
}

TEST(a_bigram_counts_with_one_added) {
  Bigram *b;
  CHECK(!bigram_new(&b, 3));
  check_rows(b, 3, (uint32_t[9]){0});
  const int32_t text[] = {0, 1, 1, 0, 1}, more[] = {2, 2};
  CHECK(!bigram_count(b, 5, text));
  CHECK(!bigram_count(b, 2, more));
  CHECK(!bigram_count(b, 0, NULL));
  CHECK(!bigram_update(b));
  check_rows(b, 3, (uint32_t[]){0, 2, 0, 1, 1, 0, 0, 0, 1});
  CHECK(bigram_pairs(b) == 4);
  CHECK(bigram_count(b, 1, (int32_t[]){3}) == GRPO_EARG);
  bigram_free(bigram_retain(b));
  CHECK(bigram_vocab(b) == 3);
  bigram_free(b);
}

/* Tokens whose frequency falls as in texts. */
static int32_t skewed(uint64_t i, int vocab) {
  const uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u;
  const double u = (double)((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 11) / 9007199254740992.0;
  return (int32_t)(math_pow(vocab, u) - 1);
}

TEST(a_bigram_has_the_logits_of_a_dense_table) {
  enum { V = 97, N = 300, TEXTS = 90 };
  static uint32_t count[V * V];
  int32_t text[N];
  Bigram *b;
  REQUIRE(bigram_new(&b, V));
  for (uint64_t k = 0; k < TEXTS; k++) { /* more pairs than may wait */
    for (uint64_t i = 0; i < N; i++) text[i] = skewed(k * N + i, V);
    for (int i = 1; i < N; i++) count[text[i - 1] * V + text[i]]++;
    OK(bigram_count(b, N, text));
    if (k % 40 == 7) OK(bigram_update(b)); /* between the texts, too */
  }
  OK(bigram_update(b));
  check_rows(b, V, count);
  size_t seen = 0;
  for (int i = 0; i < V * V; i++) seen += count[i] > 0;
  CHECK(bigram_pairs(b) == seen);
  bigram_free(b);
}

TEST(a_bigram_of_a_large_vocabulary_takes_memory_for_what_was_seen) {
  enum { V = 50257, N = 200000 };
  const size_t live = mem_live_bytes();
  int32_t *text = malloc(N * sizeof *text);
  real *row = malloc(V * sizeof *row);
  Bigram *b;
  for (uint64_t i = 0; i < N; i++) text[i] = skewed(i, V);
  REQUIRE(bigram_new(&b, V));
  OK(bigram_count(b, N, text));
  OK(bigram_update(b));
  const size_t bytes = mem_live_bytes() - live;
  CHECK(bigram_pairs(b) > 50000 && bigram_pairs(b) < N);
  CHECK(bigram_bytes(b) <= 12 * bigram_pairs(b) + 12 * (V + 1) + 256);
  /* each of four large blocks may begin and end within a page */
  CHECK(bytes >= bigram_bytes(b) && bytes <= bigram_bytes(b) + 4 * 4096);
  for (int32_t prev = 0; prev < V; prev += 1777) {
    double sum = 0;
    bigram_row(b, prev, row);
    for (int j = 0; j < V; j++) sum += math_exp((double)row[j]);
    CHECK_NEAR(sum, 1, 1e-5);
  }
  bigram_free(b);
  free(text);
  free(row);
  CHECK(mem_live_bytes() == live);
}

TEST(a_bigram_without_memory_is_refused_and_stays_what_it_was) {
  enum { V = 8, N = 9000 };
  static uint32_t count[V * V];
  Bigram *b;
  int32_t text[N];
  for (uint64_t n = 1; n <= 4; n++) {
    const size_t live = mem_live_bytes();
    mem_fail_after(n);
    CHECK(bigram_new(&b, V) == GRPO_ENOMEM && !b);
    mem_fail_after(0);
    CHECK(mem_live_bytes() == live);
  }
  for (uint64_t i = 0; i < N; i++) text[i] = skewed(i, V);
  for (int i = 1; i < N; i++) count[text[i - 1] * V + text[i]]++;
  REQUIRE(bigram_new(&b, V));
  mem_fail_after(1);
  CHECK(bigram_count(b, N, text) == GRPO_ENOMEM);
  mem_fail_after(0);
  check_rows(b, V, (uint32_t[V * V]){0});
  OK(bigram_count(b, N, text));
  mem_fail_after(1);
  CHECK(bigram_update(b) == GRPO_ENOMEM);
  mem_fail_after(0);
  OK(bigram_update(b));
  check_rows(b, V, count);
  bigram_free(b);
}

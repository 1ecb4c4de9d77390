/* Sets of tokens as lists and as bits, and rows of logits compacted to them and expanded again. */
#include "kern/token_set.h"
#include "kern_test.h"

enum { V = 1000 };

/* Every k-th token from `first` on, n of them. */
static void make_set(uint32_t *set, int n, int first, int k) {
  token_set_begin(set, V, n);
  for (int i = 0; i < n; i++) token_set_add(set, V, i, first + i * k);
}

static void check_set(int n, int first, int k, size_t words) {
  uint32_t set[V + 2];
  float row[V], part[V];
  int next = 0;
  for (int i = 0; i < V + 2; i++) set[i] = 0xdeadbeef;
  for (int i = 0; i < V; i++) row[i] = (float)(i + 1);
  make_set(set, n, first, k);
  CHECK(token_set_words(V, n == V ? 0 : n) == words);
  CHECK(token_set_next(set, V) == set + words && set[words] == 0xdeadbeef);
  CHECK(token_set_compact(set, V, row, part) == n);
  CHECK(token_set_compact(set, V, row, row) == n);
  for (int i = 0; i < n; i++) CHECK(part[i] == (float)(first + i * k + 1) && row[i] == part[i]);
  token_set_expand(set, V, row);
  for (int i = 0; i < V; i++) {
    const bool in = next < n && i == first + next * k;
    CHECK(token_set_place(set, V, i) == (in ? next : -1));
    CHECK(row[i] == (in ? (float)(i + 1) : 0));
    next += in;
  }
}

TEST(sets_of_any_size_give_back_their_tokens) {
  check_set(1, 0, 1, 2);
  check_set(1, 999, 1, 2);
  check_set(2, 0, 999, 3);
  check_set(32, 3, 31, 33); /* the longest list */
  check_set(33, 3, 30, 33); /* from here on bits */
  check_set(500, 1, 2, 33);
  check_set(999, 0, 1, 33);
  check_set(999, 1, 1, 33);
}

TEST(what_is_no_set_is_found) {
  uint32_t list[] = {3, 5, 6, 999}, bits[33];
  const uint32_t all = 0;
  CHECK(token_set_is_valid(list, 4, V) && token_set_is_valid(&all, 1, V));
  CHECK(!token_set_is_valid(list, 3, V) && !token_set_is_valid(&all, 0, V));
  list[3] = V;
  CHECK(!token_set_is_valid(list, 4, V));
  list[3] = 6;
  CHECK(!token_set_is_valid(list, 4, V));
  make_set(bits, 500, 1, 2);
  CHECK(token_set_is_valid(bits, 33, V) && !token_set_is_valid(bits, 32, V));
  bits[0]--;
  CHECK(!token_set_is_valid(bits, 33, V));
  make_set(bits, 500, 0, 2);
  bits[32] = bits[32] << 8; /* tokens past the vocabulary */
  CHECK(!token_set_is_valid(bits, 33, V));
  bits[0] = V;
  CHECK(!token_set_is_valid(bits, 33, V));
}

TEST(all_tokens_take_one_word) { check_set(V, 0, 1, 1); }

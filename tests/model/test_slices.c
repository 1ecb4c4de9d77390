/* How ranks divide trained numbers: every number has one owner, and cuts are between pieces. */
#include "model/slices.h"

#include "model/model_struct.h"
#include "model/modeltest.h"

enum { PARAMS = 6, MOST_RANKS = 9 };

static const int lengths[PARAMS] = {5 * SLICE_PIECE + 7, 3, SLICE_PIECE, 40,
                                    2 * SLICE_PIECE - 1, 1};

static void make(Model *m, Param *param) {
  *m = (Model){.nparams = PARAMS, .param = param, .trainable = true};
  for (int i = 0; i < PARAMS; i++) {
    param[i] = (Param){.trainable = i != 3};
    param[i].t = tensor_view(NULL, 1, &lengths[i]);
  }
}

/* Is number `to` where a parameter begins or ends, or a piece of one? */
static bool between_pieces(Model *m, uint64_t to) {
  const Param *p;
  uint64_t at = 0;
  for (int i = 0; (p = model_next_trainable(m, &i)); at += p->t.n)
    if (to >= at && to < at + p->t.n) return (to - at) % SLICE_PIECE == 0;
  return to == at;
}

TEST(every_number_has_one_owner) {
  Param param[PARAMS];
  Model m;
  make(&m, param);
  const uint64_t n = model_count_trainable(&m);
  for (int size = 1; size <= MOST_RANKS; size++) {
    uint64_t next = 0;
    for (int r = 0; r < size; r++) {
      const Slice s = slice_of_rank(&m, r, size);
      CHECK(s.from == next && s.end >= s.from && between_pieces(&m, s.end));
      CHECK(s.end - s.from <= n / (uint64_t)size + SLICE_PIECE + 1);
      next = s.end;
    }
    CHECK(next == n);
  }
}

TEST(parts_are_those_of_a_slice) {
  size_t first, count;
  CHECK(!slice_part((Slice){10, 20}, 0, 10, &first, &count));
  CHECK(!slice_part((Slice){10, 20}, 20, 5, &first, &count));
  CHECK(!slice_part((Slice){10, 10}, 5, 10, &first, &count));
  CHECK(slice_part((Slice){10, 20}, 5, 10, &first, &count) && first == 5 && count == 5);
  CHECK(slice_part((Slice){10, 20}, 12, 100, &first, &count) && first == 0 && count == 8);
  CHECK(slice_part((Slice){10, 20}, 0, 100, &first, &count) && first == 10 && count == 10);
}

TEST(pieces_are_counted_by_parameter) {
  Param param[PARAMS];
  Model m;
  make(&m, param);
  CHECK(slice_pieces_before(&m, 0) == 0);
  CHECK(slice_pieces_before(&m, 2 * SLICE_PIECE) == 2);
  CHECK(slice_pieces_before(&m, (uint64_t)lengths[0]) == 6);
  CHECK(slice_pieces_before(&m, (uint64_t)lengths[0] + 3) == 7);
  CHECK(slice_pieces_before(&m, model_count_trainable(&m)) == 6 + 1 + 1 + 2 + 1);
}

TEST(what_ranks_exchange_at_once_is_bounded) {
  CHECK(slice_chunk(1) == 1 << 16 && slice_chunk(16) == 1 << 16 && slice_chunk(64) == 1 << 14);
  CHECK(slice_chunk(4096) == 1 << 10);
}

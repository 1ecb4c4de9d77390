/* Completions as bytes, as ranks exchange them. */
#include "rl/completion_bytes.h"

#include <string.h>

#include "testing.h"

enum { MOST = 12, WORDS = 64 };

typedef struct Room {
  int32_t ids[MOST];
  float logp[MOST], entropy[MOST], target[MOST];
  uint8_t sampled[MOST];
  SamplingMask mask;
  Completion c;
} Room;

static void room_for(Room *r, bool sampled, bool mask) {
  *r = (Room){0};
  r->c = (Completion){.ids = r->ids, .logp = r->logp, .entropy = r->entropy};
  r->c.target_logp = r->target;
  if (sampled) r->c.sampled = r->sampled;
  if (mask) r->c.sampling_mask = &r->mask;
}

/* Three tokens of a vocabulary of 100, from two, all and three tokens. */
static void fill(Room *r) {
  static const uint32_t sets[] = {2, 5, 9, 0, 3, 1, 2, 90};
  const int32_t ids[] = {9, 4, 90};
  for (int t = 0; t < 3; t++) {
    r->ids[t] = ids[t];
    r->logp[t] = -(float)t;
    r->entropy[t] = (float)t / 2;
    r->target[t] = -2;
    r->sampled[t] = t != 1;
  }
  r->c.len = 3;
  r->c.finish = FINISH_STOP;
  if (!r->c.sampling_mask) return;
  CHECK(!sampling_mask_reserve(&r->mask, WORDS));
  memcpy(r->mask.words, sets, sizeof sets);
  r->mask.len = sizeof sets / sizeof *sets;
}

TEST(a_completion_survives_as_bytes) {
  for (int form = 0; form < 4; form++) {
    Room from, to;
    Buf bytes = {0}, again = {0};
    room_for(&from, form & 1, form & 2);
    room_for(&to, form & 1, form & 2);
    fill(&from);
    completion_put(&bytes, &from.c, 2);
    const char *at = bytes.data, *end = at + bytes.len;
    CHECK(!completion_take(&at, end, MOST, 2, &to.c));
    CHECK(at == end && to.c.len == 3 && to.c.finish == FINISH_STOP && to.target[2] == 0);
    completion_put(&again, &to.c, 2);
    CHECK(again.len == bytes.len && memcmp(again.data, bytes.data, bytes.len) == 0);
    for (size_t n = 0; n < bytes.len; n++) { /* cut anywhere */
      at = bytes.data;
      CHECK(completion_take(&at, bytes.data + n, MOST, 2, &to.c) == GRPO_EFORMAT && to.c.len == 0);
    }
    at = bytes.data; /* no room */
    CHECK(completion_take(&at, end, 2, 2, &to.c) == GRPO_EFORMAT && to.c.len == 0);
    sampling_mask_free(&from.mask);
    sampling_mask_free(&to.mask);
    buf_free(&bytes);
    buf_free(&again);
  }
}

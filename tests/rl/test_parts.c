/* Rollouts in parts, some of which another process samples: every bit of the steps is that of a
 * rollout in one piece; completions that nobody can have sampled are refused. */
#include "rl/completion_bytes.h"
#include "steps.h"

/* ---- the same bits ------------------------------------------------------------------------- */

static void check_parts(Setup s) {
  Result whole = run(s, false);
  s.parts = true;
  Result parts = run(s, false);
  check_equal(&whole, &parts);
  if (s.reuse == REUSE_ON) CHECK(parts.replayed_units > 0);
  if (s.reuse == REUSE_ON) CHECK(parts.replayed_units < whole.replayed_units);
  release(&whole);
  release(&parts);
}

TEST_BOTH(a_rollout_in_parts_has_the_bits_of_one_in_one_piece) {
  const Setup setups[] = {
      {.entropy = 0.01},
      {.entropy = 0.01, .reuse = REUSE_ON},
      {.entropy = 0.01, .reuse = REUSE_ON, .replace = true},
      {.entropy = 0.01, .reuse = REUSE_ON, .lora = true},
      {.entropy = 0.01, .reuse = REUSE_ON, .truncated = true, .replace = true},
      {.kl = 0.05, .estimator = KL_K3, .iterations = 3, .reuse = REUSE_ON},
  };
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) check_parts(setups[i]);
}

TEST(a_group_that_is_cut_into_units_may_be_in_parts) {
  check_parts((Setup){.entropy = 0.01,
                      .prompts = 3,
                      .group = 300,
                      .max_prompt = 4,
                      .max_new = 60,
                      .reuse = REUSE_ON});
}

/* ---- completions that are sampled once more --------------------------------------- */

static void prompts_and_options(Tiny *t, Prompt *prompts, int32_t ids[][MOST_TOKENS],
                                RolloutOptions *o) {
  *o = (RolloutOptions){.group = t->o.group_size, .seed = 3, .step = 1};
  sampling_init(&o->sampling);
  o->sampling.max_new_tokens = t->o.max_new_tokens;
  make_prompts(t, 1, t->o.prompts_per_step, prompts, ids);
}

static void check_once_more(bool truncated) {
  static int32_t ids[MOST_PROMPTS][MOST_TOKENS];
  Prompt prompts[MOST_PROMPTS];
  RolloutOptions o;
  const int which[] = {6, 15, 0, 7};
  const Setup s = {.reuse = REUSE_ON};
  bool same[4];
  Tiny t;
  open_engine(&t, &s);
  prompts_and_options(&t, prompts, ids, &o);
  if (truncated) o.sampling.top_k = 9;
  OK(engine_rollout(t.engine, BATCH_SAMPLE, TINY_PROMPTS, prompts, &o));
  const Prompt of[] = {prompts[1], prompts[3], prompts[0], prompts[1]};
  Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  OK(engine_check_samples(t.engine, BATCH_SAMPLE, 4, which, of, &o, same));
  CHECK(same[0] && same[1] && same[2] && same[3]);
  uint32_t bits;
  memcpy(&bits, &b->completion[15].logp[0], sizeof bits);
  bits ^= 1;
  memcpy(&b->completion[15].logp[0], &bits, sizeof bits);
  b->completion[0].ids[0] ^= 1;
  b->completion[7].len--;
  OK(engine_check_samples(t.engine, BATCH_SAMPLE, 4, which, of, &o, same));
  CHECK(same[0] && !same[1] && !same[2] && !same[3]);
  CHECK(engine_check_samples(t.engine, BATCH_SAMPLE, 1, &(int){16}, of, &o, same) == GRPO_EARG);
  tiny_close(&t);
}

TEST_BOTH(a_completion_sampled_once_more_has_the_same_bits_or_is_noticed) {
  check_once_more(false);
  check_once_more(true);
}

/* ---- bytes --------------------------------------------------------------------------- */

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
    const CompletionLimits l = {100, MOST, 2};
    OK(completion_take(&at, end, &l, &to.c));
    CHECK(at == end && to.c.len == 3 && to.c.finish == FINISH_STOP && to.target[2] == 0);
    completion_put(&again, &to.c, 2);
    CHECK(again.len == bytes.len && memcmp(again.data, bytes.data, bytes.len) == 0);
    for (size_t n = 0; n < bytes.len; n++) { /* cut anywhere */
      at = bytes.data;
      CHECK(completion_take(&at, bytes.data + n, &l, &to.c) == GRPO_EFORMAT && to.c.len == 0);
    }
    sampling_mask_free(&from.mask);
    sampling_mask_free(&to.mask);
    buf_free(&bytes);
    buf_free(&again);
  }
}

/* Reads bytes in which one 32-bit number was replaced. */
static Status changed(int vocab, int max_new, size_t place, uint32_t value) {
  Room from, to;
  Buf bytes = {0};
  room_for(&from, true, true);
  room_for(&to, true, true);
  fill(&from);
  completion_put(&bytes, &from.c, 2);
  memcpy(bytes.data + place, &value, sizeof value);
  const char *at = bytes.data;
  const Status s =
      completion_take(&at, at + bytes.len, &(CompletionLimits){vocab, max_new, 2}, &to.c);
  CHECK(s == GRPO_OK || to.c.len == 0);
  sampling_mask_free(&from.mask);
  sampling_mask_free(&to.mask);
  buf_free(&bytes);
  return s;
}

TEST(what_nobody_can_have_sampled_is_refused) {
  enum { HEAD = 16, LOGP = HEAD + 12, MARKS = HEAD + 36 + 8, MASK = MARKS + 3 };
  CHECK(changed(100, MOST, 0, 3) == GRPO_OK);
  CHECK(changed(100, MOST, 0, 0) == GRPO_EFORMAT);          /* no token */
  CHECK(changed(100, MOST, 0, 0x80000003) == GRPO_EFORMAT); /* less than none */
  CHECK(changed(100, 2, 0, 3) == GRPO_EFORMAT);             /* more than there may be */
  CHECK(changed(100, MOST, 4, 3) == GRPO_EFORMAT);          /* an unknown end */
  CHECK(changed(100, MOST, 8, 0) == GRPO_EFORMAT);          /* no sets */
  CHECK(changed(100, MOST, 8, 7) == GRPO_EFORMAT);          /* a set less */
  CHECK(changed(100, MOST, 12, 1u << 31) == GRPO_EFORMAT);  /* 2^63 words */
  CHECK(changed(90, MOST, 0, 3) == GRPO_EFORMAT);           /* an id outside the vocabulary */
  CHECK(changed(100, MOST, HEAD, 0x80000000) == GRPO_EFORMAT);
  CHECK(changed(100, MOST, LOGP, 0x7fc00000) == GRPO_EFORMAT); /* NaN */
  CHECK(changed(100, MOST, MARKS, 0x02020202) == GRPO_EFORMAT);
  CHECK(changed(100, MOST, MASK, 9) == GRPO_EFORMAT);      /* more tokens than words */
  CHECK(changed(100, MOST, MASK + 4, 10) == GRPO_EFORMAT); /* not in order */
  CHECK(changed(100, MOST, MASK + 8, 8) == GRPO_EFORMAT);  /* the token is not in its set */
}

#include "rl/completion_bytes.h"

#include <string.h>

#include "base/minmax.h"

typedef struct Head {
  int32_t len, finish;
  uint64_t mask; /* words */
} Head;

/* An array of a completion; writing and reading have one order. */
typedef struct Part {
  void *data;
  size_t bytes;
} Part;
enum { PARTS = 6 };

static void parts_of(Completion *c, int target_len, Part *out) {
  const size_t n = (size_t)c->len;
  const SamplingMask none = {0}, *mask = c->sampling_mask ? c->sampling_mask : &none;
  const int targets = c->target_logp ? min_int(c->len, target_len) : 0;
  out[0] = (Part){c->ids, n * sizeof *c->ids};
  out[1] = (Part){c->logp, n * sizeof *c->logp};
  out[2] = (Part){c->entropy, n * sizeof *c->entropy};
  out[3] = (Part){c->target_logp, (size_t)targets * sizeof *c->target_logp};
  out[4] = (Part){c->sampled, c->sampled ? n : 0};
  out[5] = (Part){mask->words, mask->len * sizeof *mask->words};
}

void completion_put(Buf *to, Completion *c, int target_len) {
  const Head h = {c->len, (int32_t)c->finish, c->sampling_mask ? c->sampling_mask->len : 0};
  Part part[PARTS];
  buf_put(to, &h, sizeof h);
  parts_of(c, target_len, part);
  for (int i = 0; i < PARTS; i++)
    if (part[i].bytes) buf_put(to, part[i].data, part[i].bytes);
}

/* ---- reading ------------------------------------------------------------------------------ */

static Status check_head(const Head *h, const char *from, const char *end, int max_new,
                         const Completion *c) {
  if (h->len < 1 || h->len > max_new)
    return fail(GRPO_EFORMAT, "a completion has %d tokens, want 1 to %d", (int)h->len, max_new);
  if ((h->mask > 0) != (c->sampling_mask != NULL))
    return fail(GRPO_EFORMAT, "a completion has %s sets of filtered tokens",
                c->sampling_mask ? "no" : "unexpected");
  if (h->mask > (size_t)(end - from) / sizeof(uint32_t))
    return fail(GRPO_EFORMAT, "a completion ends in the middle");
  return GRPO_OK;
}

static Status take_parts(const char **at, const char *end, int target_len, const Head *h,
                         Completion *c) {
  Part part[PARTS];
  c->len = h->len;
  c->finish = (Finish)h->finish;
  if (c->sampling_mask) {
    try(sampling_mask_reserve(c->sampling_mask, (size_t)h->mask));
    c->sampling_mask->len = (size_t)h->mask;
  }
  parts_of(c, target_len, part);
  for (int i = 0; i < PARTS; i++) {
    if (part[i].bytes > (size_t)(end - *at))
      return fail(GRPO_EFORMAT, "a completion ends in the middle");
    if (part[i].bytes) memcpy(part[i].data, *at, part[i].bytes);
    *at += part[i].bytes;
  }
  return GRPO_OK;
}

Status completion_take(const char **at, const char *end, int max_new, int target_len,
                       Completion *c) {
  Head h;
  c->len = 0;
  if ((size_t)(end - *at) < sizeof h) return fail(GRPO_EFORMAT, "a completion ends in the middle");
  memcpy(&h, *at, sizeof h);
  *at += sizeof h;
  try(check_head(&h, *at, end, max_new, c));
  const Status s = take_parts(at, end, target_len, &h, c);
  if (s != GRPO_OK) c->len = 0;
  return s;
}

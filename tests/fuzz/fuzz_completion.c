/* fuzz_completion.c - any bytes as what another process has sampled, and as differences of weights:
 * refused with one line, or read as something that is written as the same bytes.
 *
 * The first four bytes of the input: kind (even: completions), vocabulary - 1, max_new - 1, and
 * whether there are marks (1), sets (2) and a target (4); for differences, the second is how many
 * numbers there are, which come first. */
#include <string.h>

#include "base/mem.h"
#include "formats/float_delta.h"
#include "fuzz.h"
#include "rl/completion_bytes.h"

enum { MOST = 256 };

static void check_completions(const uint8_t *head, const char *data, size_t size) {
  int32_t ids[MOST];
  float logp[MOST], entropy[MOST], target[MOST];
  uint8_t sampled[MOST];
  SamplingMask mask = {0};
  Completion c = {.ids = ids, .logp = logp, .entropy = entropy, .target_logp = target};
  const CompletionLimits l = {head[1] + 1, head[2] + 1, head[3] & 4 ? 5 : 0};
  const char *at = data, *end = data + size;
  Buf again = {0};
  if (head[3] & 1) c.sampled = sampled;
  if (head[3] & 2) c.sampling_mask = &mask;
  while (at < end) {
    const char *from = at;
    const Status s = completion_take(&at, end, &l, &c);
    if (s != GRPO_OK) {
      FUZZ_CHECK(s == GRPO_EFORMAT && c.len == 0 && !strchr(err_message(), '\n'));
      break;
    }
    FUZZ_CHECK(at > from && at <= end && c.len >= 1 && c.len <= l.max_new);
    buf_clear(&again);
    completion_put(&again, &c, l.target_len);
    FUZZ_CHECK(again.len == (size_t)(at - from) && memcmp(again.data, from, again.len) == 0);
  }
  sampling_mask_free(&mask);
  buf_free(&again);
}

static void check_differences(const uint8_t *head, const char *data, size_t size) {
  float was[MOST], now[MOST], then[MOST];
  const size_t n = head[1], bytes = n * sizeof *was;
  Buf again = {0};
  if (size < bytes) return;
  memcpy(was, data, bytes);
  memcpy(now, was, bytes);
  memcpy(then, was, bytes);
  if (float_delta_apply(data + bytes, size - bytes, now, n) != GRPO_OK) {
    FUZZ_CHECK(memcmp(was, now, bytes) == 0 && !strchr(err_message(), '\n'));
    return;
  }
  float_delta_put(&again, was, now, n); /* perhaps in fewer bytes */
  FUZZ_CHECK(again.len <= size - bytes);
  FUZZ_CHECK(float_delta_apply(again.data, again.len, then, n) == GRPO_OK);
  FUZZ_CHECK(memcmp(now, then, bytes) == 0);
  buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) return 0;
  if (data[0] % 2 == 0)
    check_completions(data, (const char *)data + 4, size - 4);
  else
    check_differences(data, (const char *)data + 4, size - 4);
  return 0;
}

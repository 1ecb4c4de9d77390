#include "model/sampling_mask.h"

#include "base/mem.h"
#include "kern/token_set.h"

Status sampling_mask_reserve(SamplingMask *k, size_t room) {
  if (room <= k->room) return GRPO_OK;
  uint32_t *words = mem_realloc(k->words, room * sizeof *words);
  if (!words)
    return fail(GRPO_ENOMEM,
                "rollout: no memory for %zu numbers that say which tokens the filters of sampling "
                "have left; set sampling.top_k, which bounds them",
                room);
  k->words = words;
  k->room = room;
  return GRPO_OK;
}

void sampling_mask_free(SamplingMask *k) {
  mem_free(k->words);
  *k = (SamplingMask){0};
}

size_t sampling_mask_words(int vocab, int mask_tokens, int max_new) {
  return mask_tokens ? (size_t)max_new * token_set_words(vocab, mask_tokens) : 0;
}

#include "model/top_tokens.h"

/* Few of a vocabulary's tokens reach the list, so that an insertion costs nothing. */
void top_tokens(const real *logits, int vocab, int n, int32_t *ids) {
  int have = 0;
  for (int32_t id = 0; id < vocab; id++) {
    if (have == n && logits[id] <= logits[ids[n - 1]]) continue;
    int at = have < n ? have++ : n - 1;
    for (; at > 0 && logits[ids[at - 1]] < logits[id]; at--) ids[at] = ids[at - 1];
    ids[at] = id;
  }
}

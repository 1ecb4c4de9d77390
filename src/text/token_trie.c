#include "text/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct Piece {
  const char *bytes;
  size_t n;
  int32_t id;
} Piece;

static int by_bytes(const void *x, const void *y) {
  const Piece *a = x, *b = y;
  const int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
  if (c) return c;
  if (a->n != b->n) return a->n < b->n ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Returns how many there are; *bytes: the sum of their lengths. */
static int pieces(const Tokenizer *tok, int vocab, Piece *out, size_t *bytes) {
  int n = 0;
  *bytes = 0;
  for (int32_t id = 0; id < vocab && id < tokenizer_size(tok); id++) {
    Piece p = {.id = id};
    tokenizer_piece_bytes(tok, id, &p.bytes, &p.n);
    if (!p.n || !tokenizer_token(tok, id) || tokenizer_is_special(tok, id)) continue;
    *bytes += p.n;
    out[n++] = p;
  }
  qsort(out, (size_t)n, sizeof *out, by_bytes);
  return n;
}

static size_t common(const Piece *a, const Piece *b) {
  size_t n = 0;
  while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n]) n++;
  return n;
}

/* path [depth + 1]: the nodes of the piece before. */
static void add(TokenTrie *t, const Piece *p, size_t from, size_t before, int32_t *path) {
  for (size_t d = from; d < before; d++) t->node[path[d]].end = t->nnodes;
  for (size_t d = from; d < p->n; d++) {
    path[d] = t->nnodes;
    t->node[t->nnodes++] = (TrieNode){.depth = (int32_t)d, .byte = (uint8_t)p->bytes[d]};
  }
}

static Status fill(TokenTrie *t, const Piece *p, int n, size_t bytes) {
  size_t before = 0;
  for (int i = 0; i < n; i++)
    if ((int)p[i].n > t->depth) t->depth = (int)p[i].n;
  int32_t *path = mem_alloc(((size_t)t->depth + 1) * sizeof *path);
  t->node = mem_alloc((bytes + 1) * sizeof *t->node);
  t->ids = mem_alloc(((size_t)n + 1) * sizeof *t->ids);
  const bool ok = path && t->node && t->ids;
  for (int i = 0; ok && i < n; i++) {
    add(t, &p[i], i ? common(&p[i - 1], &p[i]) : 0, before, path);
    TrieNode *last = &t->node[path[p[i].n - 1]];
    if (!last->count++) last->first = i;
    t->ids[i] = p[i].id;
    before = p[i].n;
  }
  for (size_t d = 0; ok && d < before; d++) t->node[path[d]].end = t->nnodes;
  mem_free(path);
  return ok ? GRPO_OK : fail(GRPO_ENOMEM, "no memory for the bytes of %d tokens", n);
}

Status token_trie_make(TokenTrie *t, const Tokenizer *tok, int vocab) {
  *t = (TokenTrie){0};
  size_t bytes;
  Piece *p = mem_alloc(((size_t)vocab + 1) * sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "no memory for the bytes of %d tokens", vocab);
  const int n = pieces(tok, vocab, p, &bytes);
  const Status s = fill(t, p, n, bytes);
  mem_free(p);
  return s;
}

void token_trie_free(TokenTrie *t) {
  mem_free(t->node);
  mem_free(t->ids);
  *t = (TokenTrie){0};
}

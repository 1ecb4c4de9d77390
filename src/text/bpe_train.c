#include "text/bpe_train.h"

#include <string.h>

#include "base/mem.h"
#include "text/bpe.h"

typedef struct TrainPair {
  int32_t left, right;
  int64_t count; /* exact */
  int32_t where; /* the head of a list in BpeTrainer.place; -1: empty */
  bool touched;  /* its count grew in the current merge */
  bool merged;   /* it is already in the list of merges */
} TrainPair;

typedef struct PairPlace {
  uint32_t word; /* a word that holds, or once held, the pair */
  int32_t next;
} PairPlace;

typedef struct PairCandidate {
  int64_t count; /* when it was pushed; now the pair's count is at most that */
  int32_t left, right;
  uint32_t pair;
} PairCandidate;

typedef struct BpeTrainer {
  const WordCounts *words;
  int32_t *sym;        /* [bytes.len] the symbols of every word, from the word's offset on */
  uint32_t *len;       /* [words->n] symbols left in each word */
  TrainPair *pair;     /* [npair] */
  Map index;           /* into `pair`, by bpe_pair() */
  PairPlace *place;    /* [nplace] */
  PairCandidate *heap; /* [nheap] largest first */
  IntBuf touched;      /* pairs whose counts grew in the current merge */
  size_t npair, cap_pair, nplace, cap_place, nheap, cap_heap;
} BpeTrainer;

/* ---- the heap of candidates ------------------------------------------------------ */

static bool before(const PairCandidate *a, const PairCandidate *b) {
  if (a->count != b->count) return a->count > b->count;
  return a->left != b->left ? a->left < b->left : a->right < b->right;
}

/* `array` is the address of a pointer to items; it is copied by memcpy because its type is not
 * known here. */
static Status grow(void *array, size_t *cap, size_t need, size_t item, const char *what) {
  if (need <= *cap) return GRPO_OK;
  size_t n = *cap ? *cap + *cap / 2 : 1024;
  void *p;
  memcpy(&p, array, sizeof p);
  p = n < INT32_MAX && n <= MEM_MOST / item ? mem_realloc(p, n * item) : NULL;
  if (!p) return fail(GRPO_ENOMEM, "training a tokenizer: %zu %s", n, what);
  memcpy(array, &p, sizeof p);
  *cap = n;
  return GRPO_OK;
}

static Status push(BpeTrainer *t, uint32_t pair) {
  try(grow(&t->heap, &t->cap_heap, t->nheap + 1, sizeof *t->heap, "candidates"));
  const TrainPair *p = &t->pair[pair];
  const PairCandidate x = {p->count, p->left, p->right, pair};
  size_t i = t->nheap++;
  for (size_t up; i > 0 && before(&x, &t->heap[up = (i - 1) / 2]); i = up) t->heap[i] = t->heap[up];
  t->heap[i] = x;
  return GRPO_OK;
}

static PairCandidate pop(BpeTrainer *t) {
  const PairCandidate top = t->heap[0], x = t->heap[--t->nheap];
  size_t i = 0, kid;
  while ((kid = 2 * i + 1) < t->nheap) {
    if (kid + 1 < t->nheap && before(&t->heap[kid + 1], &t->heap[kid])) kid++;
    if (!before(&t->heap[kid], &x)) break;
    t->heap[i] = t->heap[kid];
    i = kid;
  }
  t->heap[i] = x;
  return top;
}

/* ---- pairs and their counts --------------------------------------------------------- */

/* The index of a pair, which is added if it is new. */
static Status find_pair(BpeTrainer *t, int32_t left, int32_t right, uint32_t *out) {
  const MapEntry *e = map_find(&t->index, bpe_pair(left, right));
  *out = e ? (uint32_t)e->value : (uint32_t)t->npair;
  if (e) return GRPO_OK;
  try(grow(&t->pair, &t->cap_pair, t->npair + 1, sizeof *t->pair, "pairs"));
  try(map_add(&t->index, bpe_pair(left, right), t->npair));
  t->pair[t->npair++] = (TrainPair){.left = left, .right = right, .where = -1};
  return GRPO_OK;
}

/* Records that a pair occurs `by` times more (or less) because of a word. */
static Status change(BpeTrainer *t, int32_t left, int32_t right, int64_t by, uint32_t word) {
  uint32_t i;
  try(find_pair(t, left, right, &i));
  TrainPair *p = &t->pair[i];
  p->count += by;
  if (by < 0) return GRPO_OK;
  if (p->where < 0 || t->place[p->where].word != word) {
    try(grow(&t->place, &t->cap_place, t->nplace + 1, sizeof *t->place, "places"));
    t->place[t->nplace] = (PairPlace){word, p->where};
    p->where = (int32_t)t->nplace++;
  }
  if (p->touched) return GRPO_OK;
  p->touched = true;
  intbuf_put(&t->touched, (int32_t)i);
  return intbuf_status(&t->touched);
}

static Status push_touched(BpeTrainer *t) {
  for (size_t k = 0; k < t->touched.len; k++) {
    uint32_t i = (uint32_t)t->touched.data[k];
    t->pair[i].touched = false;
    if (t->pair[i].count > 0) try(push(t, i));
  }
  intbuf_clear(&t->touched);
  return GRPO_OK;
}

/* ---- learning ------------------------------------------------------------------------- */

static Status start(BpeTrainer *t, const Vocab *vocab) {
  const WordCounts *w = t->words;
  t->sym = mem_alloc((w->bytes.len + 1) * sizeof *t->sym);
  t->len = mem_alloc((w->n + 1) * sizeof *t->len);
  if (!t->sym || !t->len)
    return fail(GRPO_ENOMEM, "training a tokenizer: %zu bytes of different words", w->bytes.len);
  try(map_reserve(&t->index, w->n));
  for (size_t i = 0; i < w->bytes.len; i++) t->sym[i] = vocab_find(vocab, w->bytes.data + i, 1);
  for (size_t i = 0; i < w->n; i++) {
    const int32_t *s = t->sym + w->word[i].at;
    t->len[i] = w->word[i].n;
    for (uint32_t k = 0; k + 1 < t->len[i]; k++)
      try(change(t, s[k], s[k + 1], w->word[i].count, (uint32_t)i));
  }
  return push_touched(t);
}

/* Replaces left, right by id in one word, from left to right, and corrects the counts of the pairs
 * that appear and disappear beside each replacement. */
static Status merge_word(BpeTrainer *t, uint32_t word, int32_t left, int32_t right, int32_t id) {
  int32_t *s = t->sym + t->words->word[word].at;
  const int64_t count = t->words->word[word].count;
  const uint32_t n = t->len[word];
  uint32_t to = 0;
  for (uint32_t i = 0; i < n; to++) {
    if (s[i] != left || i + 1 == n || s[i + 1] != right) {
      s[to] = s[i++];
      continue;
    }
    if (to > 0) {
      try(change(t, s[to - 1], left, -count, word));
      try(change(t, s[to - 1], id, count, word));
    }
    i += 2;
    if (i < n) {
      try(change(t, right, s[i], -count, word));
      try(change(t, id, s[i], count, word));
    }
    s[to] = id;
  }
  t->len[word] = to;
  return GRPO_OK;
}

static Status merge_everywhere(BpeTrainer *t, uint32_t pair, int32_t id) {
  const int32_t left = t->pair[pair].left, right = t->pair[pair].right;
  int32_t at = t->pair[pair].where;
  for (; at >= 0; at = t->place[at].next) try(merge_word(t, t->place[at].word, left, right, id));
  t->pair[pair].count = 0;
  t->pair[pair].where = -1;
  return push_touched(t);
}

/* The token that joins both parts: a new one, or one that another pair made before. */
static Status joined_token(Vocab *v, int32_t left, int32_t right, int32_t *id) {
  char both[2 * WORD_MAX];
  const VocabEntry *a = vocab_entry(v, left), *b = vocab_entry(v, right);
  memcpy(both, v->text.data + a->text, a->len);
  memcpy(both + a->len, v->text.data + b->text, b->len);
  *id = vocab_find(v, both, a->len + b->len);
  if (*id >= 0) return GRPO_OK;
  *id = v->size;
  return vocab_add(v, both, a->len + b->len, *id, TOKEN_MODEL);
}

static Status learn(BpeTrainer *t, int max_size, int64_t min_frequency, Vocab *vocab,
                    IntBuf *merges) {
  while (vocab->size < max_size && t->nheap) {
    const PairCandidate c = pop(t);
    if (c.count != t->pair[c.pair].count) { /* it shrank since it was pushed */
      if (t->pair[c.pair].count > 0) try(push(t, c.pair));
      continue;
    }
    if (c.count < min_frequency) break;
    int32_t id;
    try(joined_token(vocab, c.left, c.right, &id));
    if (!t->pair[c.pair].merged) {
      intbuf_put(merges, c.left);
      intbuf_put(merges, c.right);
      t->pair[c.pair].merged = true;
    }
    try(merge_everywhere(t, c.pair, id));
  }
  return intbuf_status(merges);
}

Status bpe_train(const WordCounts *words, int max_size, int64_t min_frequency, Vocab *vocab,
                 IntBuf *merges) {
  BpeTrainer t = {.words = words};
  Status s = start(&t, vocab);
  if (s == GRPO_OK) s = learn(&t, max_size, min_frequency, vocab, merges);
  mem_free(t.sym);
  mem_free(t.len);
  mem_free(t.pair);
  map_free(&t.index);
  mem_free(t.place);
  mem_free(t.heap);
  intbuf_free(&t.touched);
  return s;
}

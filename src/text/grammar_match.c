#include "text/grammar_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "text/token_trie.h"

enum {
  MOST_STATES = 1 << 16,
  MOST_STACKS = 1 << 20,
  MOST_PLACES = 1 << 12, /* of one state */
  ALL_PLACES = 1 << 26,
  KEPT_BYTES = 1 << 26, /* of the tokens that may follow, before they are forgotten */
  UNKNOWN = -2          /* a transition that was not looked for yet */
};

/* The rules that are still to be finished, as a list: what follows is `node`, then below. */
typedef struct Stack {
  int32_t node, below; /* below: -1: nothing */
} Stack;

typedef struct Place {
  int32_t node, stack; /* node: NODE_BYTES; stack -1: the rule is the whole text */
} Place;

typedef struct State {
  int32_t next[256];
  int first, count; /* of `places` */
  bool complete;
  int allowed;    /* the number of tokens that may follow; -1: not counted yet */
  uint32_t *bits; /* these tokens */
} State;

struct Matcher {
  Grammar *g;
  const Tokenizer *tok;
  TokenTrie trie;
  int32_t *path; /* [trie.depth + 1] the states on the way down the trie */
  int32_t *ends;
  int nends, vocab;
  size_t kept_bytes; /* of the bits of all states */
  uint64_t generation;
  State **state; /* [MOST_STATES] */
  int nstates;
  Place *place; /* [places_room] */
  int nplaces, places_room;
  Stack *stack; /* [stacks_room] */
  int nstacks, stacks_room;
  Map states, stacks; /* hash -> number; node and below -> number */
  /* the state that is being made */
  Place *work, *found; /* [MOST_PLACES] */
  int nwork, nfound;
  Map seen;
  bool complete;
};

/* ---- memory ------------------------------------------------------------------------------- */

static size_t mask_words(const Matcher *m) { return ((size_t)m->vocab + 31) / 32; }

/* Makes room for `need` elements of this size in the array *at; most: elements. */
static Status grow(void **at, int *room, int need, int most, size_t size, const char *what) {
  if (need > most)
    return fail(GRPO_ELIMIT, "its texts need more than %d %s at a time; make the grammar simpler",
                most, what);
  const int want = 2 * need < most ? 2 * need : most;
  void *p = mem_realloc(*at, (size_t)want * size);
  if (!p) return fail(GRPO_ENOMEM, "no memory for %d %s of a grammar", want, what);
  *at = p;
  *room = want;
  return GRPO_OK;
}

static void forget(Matcher *m) {
  for (int i = 0; i < m->nstates; i++) {
    mem_free(m->state[i]->bits);
    mem_free(m->state[i]);
  }
  m->nstates = m->nplaces = m->nstacks = 0;
  m->kept_bytes = 0;
  map_clear(&m->states);
  map_clear(&m->stacks);
  m->generation++;
}

/* ---- a state -------------------------------------------------------------------------------- */

/* The number of the list of `node` and what is below. */
static Status push(Matcher *m, int32_t node, int32_t below, int32_t *out) {
  const uint64_t key = (uint64_t)(uint32_t)node << 32 | (uint32_t)(below + 1);
  const MapEntry *e = map_find(&m->stacks, key);
  *out = e ? (int32_t)e->value : m->nstacks;
  if (e) return GRPO_OK;
  if (m->nstacks == m->stacks_room) {
    void *at = m->stack;
    try(grow(&at, &m->stacks_room, m->nstacks + 1, MOST_STACKS, sizeof *m->stack, "rule lists"));
    m->stack = at;
  }
  m->stack[m->nstacks] = (Stack){node, below};
  return map_put(&m->stacks, key, (uint64_t)m->nstacks++);
}

static Status reach(Matcher *m, int32_t node, int32_t stack) {
  const uint64_t key = (uint64_t)(uint32_t)node << 32 | (uint32_t)(stack + 1);
  if (map_find(&m->seen, key)) return GRPO_OK;
  if (m->nwork == MOST_PLACES || m->seen.count >= MOST_PLACES)
    return fail(GRPO_ELIMIT,
                "a text of it can be read in more than %d ways at one place; make the "
                "grammar simpler",
                (int)MOST_PLACES);
  m->work[m->nwork++] = (Place){node, stack};
  return map_put(&m->seen, key, 1);
}

static Status call(Matcher *m, const GrammarNode *n, int32_t stack) {
  int32_t inner = stack;
  if (m->g->node[n->next].kind != NODE_RETURN) try(push(m, n->next, stack, &inner));
  return reach(m, m->g->start[n->other], inner);
}

static Status leave(Matcher *m, int32_t stack) {
  if (stack >= 0) return reach(m, m->stack[stack].node, m->stack[stack].below);
  m->complete = true;
  return GRPO_OK;
}

/* Follows everything that needs no byte: found = the places that need one. */
static Status close_places(Matcher *m) {
  m->nfound = 0;
  m->complete = false;
  while (m->nwork > 0) {
    const Place p = m->work[--m->nwork];
    const GrammarNode *n = &m->g->node[p.node];
    switch ((GrammarNodeKind)n->kind) {
    case NODE_BYTES:
      m->found[m->nfound++] = p;
      break;
    case NODE_SPLIT:
      try(reach(m, n->next, p.stack));
      try(reach(m, n->other, p.stack));
      break;
    case NODE_CALL:
      try(call(m, n, p.stack));
      break;
    case NODE_RETURN:
      try(leave(m, p.stack));
      break;
    }
  }
  return GRPO_OK;
}

static int by_place(const void *x, const void *y) {
  const Place *a = x, *b = y;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static bool is_found(const Matcher *m, const State *s) {
  if (s->count != m->nfound || s->complete != m->complete) return false;
  return m->nfound == 0 ||
         memcmp(m->place + s->first, m->found, (size_t)m->nfound * sizeof *m->found) == 0;
}

static Status new_state(Matcher *m, uint64_t key, int32_t *out) {
  if (m->nstates == MOST_STATES)
    return fail(GRPO_ELIMIT,
                "its texts need more than %d states at a time; make the grammar simpler",
                (int)MOST_STATES);
  if (m->nplaces + m->nfound > m->places_room) {
    void *at = m->place;
    try(grow(&at, &m->places_room, m->nplaces + m->nfound, ALL_PLACES, sizeof *m->place, "places"));
    m->place = at;
  }
  State *s = mem_alloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "no memory for the states of a grammar");
  for (int i = 0; i < 256; i++) s->next[i] = UNKNOWN;
  s->first = m->nplaces;
  s->count = m->nfound;
  s->complete = m->complete;
  s->allowed = -1;
  s->bits = NULL;
  if (m->nfound) memcpy(m->place + m->nplaces, m->found, (size_t)m->nfound * sizeof *m->found);
  m->nplaces += m->nfound;
  *out = m->nstates;
  m->state[m->nstates++] = s;
  return map_add(&m->states, key, (uint64_t)*out);
}

/* The number of the state that the work leads to. */
static Status intern(Matcher *m, int32_t *out) {
  try(close_places(m));
  *out = MATCHER_DEAD;
  if (!m->nfound && !m->complete) return GRPO_OK;
  if (m->nfound > 1) qsort(m->found, (size_t)m->nfound, sizeof *m->found, by_place);
  const uint64_t key = map_hash((const char *)m->found, (size_t)m->nfound * sizeof *m->found);
  for (const MapEntry *e = map_find(&m->states, key); e; e = map_next(&m->states, e)) {
    *out = (int32_t)e->value;
    if (is_found(m, m->state[*out])) return GRPO_OK;
  }
  return new_state(m, key, out);
}

static Status step(Matcher *m, int32_t from, uint8_t byte, int32_t *to) {
  const State *s = m->state[from];
  *to = s->next[byte];
  if (*to != UNKNOWN) return GRPO_OK;
  Status status = GRPO_OK;
  for (int i = 0; i < s->count && status == GRPO_OK; i++) {
    const Place p = m->place[s->first + i];
    const GrammarNode *n = &m->g->node[p.node];
    if (byte >= n->low && byte <= n->high) status = reach(m, n->next, p.stack);
  }
  status = status == GRPO_OK ? intern(m, to) : status;
  m->nwork = 0;
  map_clear(&m->seen);
  if (status == GRPO_OK) m->state[from]->next[byte] = *to;
  return status;
}

static Status begin(Matcher *m) {
  int32_t first;
  try(reach(m, m->g->start[0], -1));
  try(intern(m, &first));
  map_clear(&m->seen);
  return GRPO_OK;
}

/* ---- a matcher ------------------------------------------------------------------------------- */

static Status fill(Matcher *m, const int32_t *ends) {
  m->ends = mem_alloc(((size_t)m->nends + 1) * sizeof *m->ends);
  m->state = mem_alloc(MOST_STATES * sizeof *m->state);
  m->work = mem_alloc(MOST_PLACES * sizeof *m->work);
  m->found = mem_alloc(MOST_PLACES * sizeof *m->found);
  if (!m->ends || !m->state || !m->work || !m->found)
    return fail(GRPO_ENOMEM, "no memory for the states of a grammar");
  if (m->nends) memcpy(m->ends, ends, (size_t)m->nends * sizeof *ends);
  try(token_trie_make(&m->trie, m->tok, m->vocab));
  m->path = mem_alloc(((size_t)m->trie.depth + 1) * sizeof *m->path);
  if (!m->path) return fail(GRPO_ENOMEM, "no memory for the states of a grammar");
  return begin(m);
}

Status matcher_new(Matcher **out, Grammar *g, const Tokenizer *tok, int vocab, const int32_t *ends,
                   int nends) {
  Matcher *m = mem_zalloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "no memory for a grammar");
  m->g = grammar_retain(g);
  m->tok = tok;
  m->vocab = vocab;
  m->nends = nends;
  const Status s = fill(m, ends);
  if (s == GRPO_OK)
    *out = m;
  else
    matcher_free(m);
  return s;
}

void matcher_free(Matcher *m) {
  if (!m) return;
  forget(m);
  mem_free(m->ends);
  mem_free(m->state);
  mem_free(m->work);
  mem_free(m->found);
  mem_free(m->path);
  mem_free(m->place);
  mem_free(m->stack);
  map_free(&m->states);
  map_free(&m->stacks);
  map_free(&m->seen);
  token_trie_free(&m->trie);
  grammar_free(m->g);
  mem_free(m);
}

bool matcher_fits(const Matcher *m, const Grammar *g, const int32_t *ends, int nends) {
  return m && m->nends == nends && grammar_equal(m->g, g) &&
         (!nends || memcmp(m->ends, ends, (size_t)nends * sizeof *ends) == 0);
}

uint64_t matcher_generation(const Matcher *m) { return m->generation; }

Status matcher_trim(Matcher *m) {
  if (m->nstates < MOST_STATES / 2 && m->nstacks < MOST_STACKS / 2 && m->kept_bytes < KEPT_BYTES)
    return GRPO_OK;
  forget(m);
  return begin(m);
}

bool matcher_complete(const Matcher *m, int32_t state) {
  return state >= 0 && m->state[state]->complete;
}

Status matcher_bytes(Matcher *m, int32_t *state, const char *bytes, size_t n) {
  for (size_t i = 0; i < n && *state >= 0; i++) try(step(m, *state, (uint8_t)bytes[i], state));
  return GRPO_OK;
}

Status matcher_token(Matcher *m, int32_t *state, int32_t id) {
  const char *bytes;
  size_t n;
  tokenizer_piece_bytes(m->tok, id, &bytes, &n);
  return matcher_bytes(m, state, bytes, n);
}

/* ---- the tokens that may follow ------------------------------------------------------------ */

static int set_bit(uint32_t *bits, int32_t id) {
  const uint32_t bit = 1u << (id & 31);
  const int added = !(bits[id >> 5] & bit);
  bits[id >> 5] |= bit;
  return added;
}

static Status walk(Matcher *m, int32_t state, uint32_t *bits, int *count) {
  m->path[0] = state;
  for (int i = 0; i < m->trie.nnodes;) {
    const TrieNode *n = &m->trie.node[i];
    int32_t *to = &m->path[n->depth + 1];
    try(step(m, m->path[n->depth], n->byte, to));
    if (*to == MATCHER_DEAD) {
      i = n->end;
      continue;
    }
    for (int k = 0; k < n->count; k++) *count += set_bit(bits, m->trie.ids[n->first + k]);
    i++;
  }
  return GRPO_OK;
}

Status matcher_allowed(Matcher *m, int32_t state, const uint32_t **allowed, int *n) {
  State *s = m->state[state];
  if (s->allowed < 0) {
    const size_t bytes = mask_words(m) * sizeof *s->bits;
    if (!s->bits) {
      s->bits = mem_alloc(bytes);
      if (!s->bits) return fail(GRPO_ENOMEM, "no memory for the tokens that a grammar allows");
      m->kept_bytes += bytes;
    }
    memset(s->bits, 0, bytes);
    int count = 0;
    for (int i = 0; s->complete && i < m->nends; i++) count += set_bit(s->bits, m->ends[i]);
    try(walk(m, state, s->bits, &count));
    s->allowed = count;
  }
  *allowed = s->bits;
  *n = s->allowed;
  return GRPO_OK;
}

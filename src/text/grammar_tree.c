#include "text/grammar_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

typedef enum ItemKind {
  ITEM_EMPTY,
  ITEM_CLASS,
  ITEM_SEQUENCE,
  ITEM_EITHER,
  ITEM_REPEAT,
  ITEM_CALL
} ItemKind;

/* CLASS: ranges a .. a + b - 1.  SEQUENCE, EITHER: a, then or else b.
 * REPEAT: a, least to most times.  CALL: rule a. */
typedef struct Item {
  ItemKind kind;
  int a, b, least, most;
} Item;

typedef struct Range {
  uint32_t low, high;
} Range;

enum {
  MOST_ITEMS = 2 * GRAMMAR_TEXT,
  LAST = 0x10ffff,
  SURROGATES = 0xd800,
  SURROGATES_END = 0xdfff
};

static Item *items(const GrammarTree *t) { return (Item *)(void *)t->items.data; }
static Range *ranges(const GrammarTree *t) { return (Range *)(void *)t->ranges.data; }
static int range_count(const GrammarTree *t) { return (int)(t->ranges.len / sizeof(Range)); }

/* ---- the tree --------------------------------------------------------------------------- */

static int add(GrammarTree *t, Item item) {
  const size_t at = t->items.len / sizeof item;
  if (at >= MOST_ITEMS) t->items.oom = true;
  buf_put(&t->items, &item, sizeof item);
  return t->items.oom ? -1 : (int)at;
}

int grammar_empty(GrammarTree *t) { return add(t, (Item){.kind = ITEM_EMPTY}); }

static int pair(GrammarTree *t, ItemKind kind, int a, int b) {
  return a < 0 || b < 0 ? -1 : add(t, (Item){.kind = kind, .a = a, .b = b});
}

int grammar_sequence(GrammarTree *t, int a, int b) { return pair(t, ITEM_SEQUENCE, a, b); }
int grammar_either(GrammarTree *t, int a, int b) { return pair(t, ITEM_EITHER, a, b); }

int grammar_repeat(GrammarTree *t, int a, int least, int most) {
  return a < 0 ? -1 : add(t, (Item){.kind = ITEM_REPEAT, .a = a, .least = least, .most = most});
}

int grammar_call(GrammarTree *t, int rule) {
  return rule < 0 ? -1 : add(t, (Item){.kind = ITEM_CALL, .a = rule});
}

/* ---- classes ------------------------------------------------------------------------------ */

void grammar_class_begin(GrammarTree *t) { t->class_from = range_count(t); }

static void put_range(GrammarTree *t, uint32_t low, uint32_t high) {
  const Range r = {low, high};
  if (low <= high) buf_put(&t->ranges, &r, sizeof r);
}

/* Surrogates are not characters. */
void grammar_class_add(GrammarTree *t, uint32_t low, uint32_t high) {
  if (high > LAST) high = LAST;
  if (high < SURROGATES || low > SURROGATES_END) {
    put_range(t, low, high);
    return;
  }
  if (low < SURROGATES) put_range(t, low, SURROGATES - 1);
  if (high > SURROGATES_END) put_range(t, SURROGATES_END + 1, high);
}

static int by_low(const void *x, const void *y) {
  const Range *a = x, *b = y;
  return a->low < b->low ? -1 : a->low > b->low;
}

/* Sorts the ranges of the class and joins those that touch. */
static void join(GrammarTree *t) {
  Range *r = ranges(t) + t->class_from;
  const int n = range_count(t) - t->class_from;
  int kept = 0;
  if (n > 1) qsort(r, (size_t)n, sizeof *r, by_low);
  for (int i = 0; i < n; i++) {
    if (kept && r[i].low <= r[kept - 1].high + 1) {
      if (r[i].high > r[kept - 1].high) r[kept - 1].high = r[i].high;
    } else {
      r[kept++] = r[i];
    }
  }
  t->ranges.len = (size_t)(t->class_from + kept) * sizeof *r;
}

static void negate(GrammarTree *t) {
  const int from = t->class_from, end = range_count(t);
  uint32_t low = 0;
  t->class_from = end;
  for (int i = from; i < end; i++) {
    const Range r = ranges(t)[i];
    if (r.low > low) grammar_class_add(t, low, r.low - 1);
    low = r.high + 1;
  }
  grammar_class_add(t, low, LAST);
}

int grammar_class_end(GrammarTree *t, bool negated, bool *empty) {
  *empty = false;
  if (t->ranges.oom) return -1;
  join(t);
  if (negated) negate(t);
  if (t->ranges.oom) return -1;
  const int n = range_count(t) - t->class_from;
  *empty = n == 0;
  return *empty ? -1 : add(t, (Item){.kind = ITEM_CLASS, .a = t->class_from, .b = n});
}

int grammar_character(GrammarTree *t, uint32_t c) {
  bool empty;
  grammar_class_begin(t);
  grammar_class_add(t, c, c);
  return grammar_class_end(t, false, &empty);
}

/* ---- rules ---------------------------------------------------------------------------------- */

int grammar_rule_count(const GrammarTree *t) { return (int)(t->rules.len / sizeof(GrammarRule)); }

GrammarRule *grammar_rule_at(GrammarTree *t, int rule) {
  return (GrammarRule *)(void *)t->rules.data + rule;
}

const char *grammar_rule_name(const GrammarTree *t, int rule) {
  const GrammarRule *r = (const GrammarRule *)(const void *)t->rules.data + rule;
  return t->names.data + r->name;
}

int grammar_rule(GrammarTree *t, const char *name, size_t n, int line) {
  const int count = grammar_rule_count(t);
  const uint64_t key = map_hash(name, n);
  for (const MapEntry *e = map_find(&t->by_name, key); e; e = map_next(&t->by_name, e)) {
    const char *known = grammar_rule_name(t, (int)e->value);
    if (strlen(known) == n && memcmp(known, name, n) == 0) return (int)e->value;
  }
  if (count == GRAMMAR_RULES) return -1;
  const GrammarRule rule = {.name = (int)t->names.len, .tree = -1, .line = line};
  buf_put(&t->names, name, n);
  buf_putc(&t->names, '\0');
  buf_put(&t->rules, &rule, sizeof rule);
  if (map_add(&t->by_name, key, (uint64_t)count) != GRPO_OK) t->rules.oom = true;
  return t->names.oom || t->rules.oom ? -1 : count;
}

Status grammar_tree_status(const GrammarTree *t) {
  if (t->items.oom && t->items.len / sizeof(Item) >= MOST_ITEMS)
    return fail(GRPO_EARG, "it has more than %d parts", (int)MOST_ITEMS);
  try(buf_status(&t->items));
  try(buf_status(&t->ranges));
  try(buf_status(&t->names));
  return buf_status(&t->rules);
}

void grammar_tree_free(GrammarTree *t) {
  buf_free(&t->items);
  buf_free(&t->ranges);
  buf_free(&t->names);
  buf_free(&t->rules);
  map_free(&t->by_name);
}

/* ---- nodes -------------------------------------------------------------------------------- */

typedef struct Maker {
  const GrammarTree *t;
  Buf nodes;
  bool full;
} Maker;

static int node(Maker *m, GrammarNode n) {
  const size_t at = m->nodes.len / sizeof n;
  if (at >= GRAMMAR_NODES) m->full = true;
  if (m->full || m->nodes.oom) return 0;
  buf_put(&m->nodes, &n, sizeof n);
  return (int)at;
}

static int split(Maker *m, int a, int b) {
  return node(m, (GrammarNode){.kind = NODE_SPLIT, .next = a, .other = b});
}

static int bytes(Maker *m, uint8_t low, uint8_t high, int next) {
  return node(m, (GrammarNode){.kind = NODE_BYTES, .low = low, .high = high, .next = next});
}

/* The sequences of n bytes from low to high, all of one length of UTF-8. */
static int byte_sequences(Maker *m, const uint8_t *low, const uint8_t *high, int n, int next) {
  static const uint8_t first[3] = {0x80, 0x80, 0x80}, last[3] = {0xbf, 0xbf, 0xbf};
  const size_t rest = (size_t)(n - 1);
  uint8_t from = low[0], to = high[0];
  int found = -1;
  if (n == 1) return bytes(m, from, to, next);
  if (from == to) return bytes(m, from, to, byte_sequences(m, low + 1, high + 1, n - 1, next));
  if (memcmp(low + 1, first, rest) != 0) {
    found = bytes(m, from, from, byte_sequences(m, low + 1, last, n - 1, next));
    from++;
  }
  if (memcmp(high + 1, last, rest) != 0) {
    const int end = bytes(m, to, to, byte_sequences(m, first, high + 1, n - 1, next));
    found = found < 0 ? end : split(m, found, end);
    to--;
  }
  if (from > to) return found;
  const int middle = bytes(m, from, to, byte_sequences(m, first, last, n - 1, next));
  return found < 0 ? middle : split(m, found, middle);
}

/* The characters of a range, which may have several lengths. */
static int characters(Maker *m, Range r, int next) {
  static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff, LAST};
  int found = -1;
  for (int i = 0; i < 4 && r.low <= r.high; i++) {
    char low[4], high[4];
    if (r.low > ends[i]) continue;
    const uint32_t end = r.high < ends[i] ? r.high : ends[i];
    const int n = (int)utf8_encode(r.low, low);
    (void)utf8_encode(end, high);
    const int one = byte_sequences(m, (const uint8_t *)low, (const uint8_t *)high, n, next);
    found = found < 0 ? one : split(m, found, one);
    r.low = end + 1;
  }
  return found;
}

static int class_nodes(Maker *m, const Item *item, int next) {
  int found = -1;
  for (int i = 0; i < item->b && !m->full; i++) {
    const int one = characters(m, ranges(m->t)[item->a + i], next);
    found = found < 0 ? one : split(m, found, one);
  }
  return found;
}

static int make(Maker *m, int at, int next);

static int repeat_nodes(Maker *m, const Item *item, int next) {
  int start = next;
  if (item->most == GRAMMAR_MANY) {
    start = split(m, 0, next);
    const int body = make(m, item->a, start);
    if (!m->full && !m->nodes.oom) ((GrammarNode *)(void *)m->nodes.data)[start].next = body;
  }
  for (int i = item->least; i < item->most && !m->full; i++)
    start = split(m, make(m, item->a, start), next);
  for (int i = 0; i < item->least && !m->full; i++) start = make(m, item->a, start);
  return start;
}

/* The nodes of a part that is followed by node `next`; returns the first one. */
static int make(Maker *m, int at, int next) {
  const Item *item = &items(m->t)[at];
  int found = -1;
  for (; item->kind == ITEM_SEQUENCE && !m->full; item = &items(m->t)[item->a])
    next = make(m, item->b, next);
  for (; item->kind == ITEM_EITHER && !m->full; item = &items(m->t)[item->a]) {
    const int one = make(m, item->b, next);
    found = found < 0 ? one : split(m, one, found);
  }
  if (m->full || m->nodes.oom) return 0;
  int first = next;
  if (item->kind == ITEM_CLASS) first = class_nodes(m, item, next);
  if (item->kind == ITEM_REPEAT) first = repeat_nodes(m, item, next);
  if (item->kind == ITEM_CALL)
    first = node(m, (GrammarNode){.kind = NODE_CALL, .next = next, .other = item->a});
  if (item->kind == ITEM_SEQUENCE) first = make(m, (int)(item - items(m->t)), next);
  return found < 0 ? first : split(m, first, found);
}

static Status take_nodes(GrammarTree *t, Maker *m, Grammar *g) {
  g->nrules = grammar_rule_count(t);
  g->start = mem_alloc((size_t)g->nrules * sizeof *g->start);
  if (!g->start) return fail(GRPO_ENOMEM, "no memory for %d rules", g->nrules);
  for (int i = 0; i < g->nrules; i++) {
    const int end = node(m, (GrammarNode){.kind = NODE_RETURN});
    g->start[i] = make(m, grammar_rule_at(t, i)->tree, end);
  }
  if (m->full)
    return fail(GRPO_EARG,
                "it is too large: it needs more than %d nodes; make its repetitions "
                "shorter",
                (int)GRAMMAR_NODES);
  try(buf_status(&m->nodes));
  g->nnodes = (int)(m->nodes.len / sizeof(GrammarNode));
  g->node = (GrammarNode *)(void *)m->nodes.data;
  m->nodes = (Buf){0};
  return GRPO_OK;
}

Status grammar_tree_nodes(GrammarTree *t, Grammar *g) {
  Maker m = {.t = t};
  const Status s = take_nodes(t, &m, g);
  buf_free(&m.nodes);
  return s;
}

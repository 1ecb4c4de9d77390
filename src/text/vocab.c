#include "text/vocab.h"

#include <string.h>

#include "base/mem.h"

/* FNV-1a, the high half folded in because its low bits are the weak ones. */
size_t vocab_hash(const char *s, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
  return (size_t)(h ^ h >> 32);
}

/* The slot of the token, or the free one where it belongs. */
static size_t slot_of(const Vocab *v, const char *token, size_t n) {
  size_t i = vocab_hash(token, n) & (v->nslot - 1);
  for (;; i = (i + 1) & (v->nslot - 1)) {
    if (v->slot[i] < 0) return i;
    const VocabEntry *e = &v->entry[v->slot[i]];
    if (e->len == n && memcmp(v->text.data + e->text, token, n) == 0) return i;
  }
}

static Status grow_slots(Vocab *v) {
  if (v->nslot && v->count < v->nslot / 2) return GRPO_OK;
  size_t old = v->nslot, n = old ? old * 2 : 1024;
  int32_t *slot = mem_alloc(n * sizeof *slot), *before = v->slot;
  if (!slot) return fail(GRPO_ENOMEM, "vocabulary of %zu tokens", v->count);
  memset(slot, 0xFF, n * sizeof *slot);
  v->slot = slot;
  v->nslot = n;
  for (size_t i = 0; i < old; i++) {
    if (before[i] < 0) continue;
    const VocabEntry *e = &v->entry[before[i]];
    slot[slot_of(v, v->text.data + e->text, e->len)] = before[i];
  }
  mem_free(before);
  return GRPO_OK;
}

static Status grow_entries(Vocab *v, int32_t id) {
  if (id >= v->cap) {
    int32_t cap = v->cap ? v->cap : 512;
    while (cap <= id) cap *= 2;
    VocabEntry *e = mem_realloc(v->entry, (size_t)cap * sizeof *e);
    if (!e) return fail(GRPO_ENOMEM, "vocabulary with id %d", (int)id);
    v->entry = e;
    v->cap = cap;
  }
  for (; v->size <= id; v->size++) v->entry[v->size] = (VocabEntry){0};
  return GRPO_OK;
}

Status vocab_add(Vocab *v, const char *token, size_t n, int64_t id, unsigned flags) {
  if (id < 0 || id > VOCAB_MAX_ID)
    return fail(GRPO_ELIMIT, "token \"%.60s\": id %lld is outside 0..%d", token, (long long)id,
                VOCAB_MAX_ID);
  if (n > VOCAB_MAX_TOKEN)
    return fail(GRPO_ELIMIT, "token \"%.60s...\" has %zu bytes, the limit is %d", token, n,
                VOCAB_MAX_TOKEN);
  if (vocab_entry(v, (int32_t)id))
    return fail(GRPO_EFORMAT, "id %lld is given to both \"%.60s\" and \"%.60s\"", (long long)id,
                vocab_text(v, (int32_t)id), token);
  try(grow_slots(v));
  size_t i = slot_of(v, token, n);
  if (v->slot[i] >= 0)
    return fail(GRPO_EFORMAT, "token \"%.60s\" appears twice, with ids %d and %lld", token,
                (int)v->slot[i], (long long)id);
  try(grow_entries(v, (int32_t)id));
  v->entry[id] = (VocabEntry){
      .text = (uint32_t)v->text.len, .len = (uint32_t)n, .flags = flags | TOKEN_PRESENT};
  buf_put(&v->text, token, n);
  buf_putc(&v->text, 0);
  v->slot[i] = (int32_t)id;
  v->count++;
  return buf_status(&v->text);
}

int32_t vocab_find(const Vocab *v, const char *token, size_t n) {
  return v->nslot ? v->slot[slot_of(v, token, n)] : -1;
}

const VocabEntry *vocab_entry(const Vocab *v, int32_t id) {
  return id >= 0 && id < v->size && v->entry[id].flags ? &v->entry[id] : NULL;
}

const char *vocab_text(const Vocab *v, int32_t id) {
  const VocabEntry *e = vocab_entry(v, id);
  return e ? v->text.data + e->text : "";
}

void vocab_free(Vocab *v) {
  buf_free(&v->text);
  buf_free(&v->pieces);
  mem_free(v->entry);
  mem_free(v->slot);
  *v = (Vocab){0};
}

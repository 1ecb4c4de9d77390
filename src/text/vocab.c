#include "text/vocab.h"

#include <string.h>

#include "base/mem.h"

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
  const int32_t other = vocab_find(v, token, n);
  if (other >= 0)
    return fail(GRPO_EFORMAT, "token \"%.60s\" appears twice, with ids %d and %lld", token,
                (int)other, (long long)id);
  try(grow_entries(v, (int32_t)id));
  v->entry[id] = (VocabEntry){
      .text = (uint32_t)v->text.len, .len = (uint32_t)n, .flags = flags | TOKEN_PRESENT};
  buf_put(&v->text, token, n);
  buf_putc(&v->text, 0);
  try(buf_status(&v->text));
  return map_add(&v->ids, map_hash(token, n), (uint64_t)id);
}

int32_t vocab_find(const Vocab *v, const char *token, size_t n) {
  const MapEntry *m = map_find(&v->ids, map_hash(token, n));
  for (; m; m = map_next(&v->ids, m)) {
    const VocabEntry *e = &v->entry[m->value];
    if (e->len == n && memcmp(v->text.data + e->text, token, n) == 0) return (int32_t)m->value;
  }
  return -1;
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
  map_free(&v->ids);
  *v = (Vocab){0};
}

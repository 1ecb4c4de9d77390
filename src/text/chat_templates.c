#include "text/chat_templates.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"

#define DIRECTORY "additional_chat_templates"
#define ENDING    ".jinja"

enum { MAX_TEMPLATE = 16 << 20, MAX_TEMPLATES = 1000 };

static ChatTemplate *find(const ChatTemplates *t, const char *name) {
  for (int i = 0; i < t->n; i++)
    if (strcmp(t->item[i].name, name) == 0) return &t->item[i];
  return NULL;
}

const char *chat_templates_find(const ChatTemplates *t, const char *name) {
  const ChatTemplate *found = find(t, name);
  return found ? found->text : NULL;
}

static Status append(ChatTemplates *t, const char *name, ChatTemplate **out) {
  if (t->n == MAX_TEMPLATES) return fail(GRPO_ELIMIT, "more than %d chat templates", t->n);
  ChatTemplate *item = mem_realloc(t->item, ((size_t)t->n + 1) * sizeof *item);
  if (!item) return fail(GRPO_ENOMEM, "chat template");
  t->item = item;
  item[t->n] = (ChatTemplate){.name = mem_strdup(name)};
  if (!item[t->n].name) return fail(GRPO_ENOMEM, "chat template");
  *out = &item[t->n++];
  return GRPO_OK;
}

Status chat_templates_put(ChatTemplates *t, const char *name, const char *text, size_t n,
                          bool additional) {
  ChatTemplate *item = find(t, name);
  char *copy = mem_strndup(text, n);
  if (!copy) return fail(GRPO_ENOMEM, "chat template");
  const Status s = item ? GRPO_OK : append(t, name, &item);
  if (s != GRPO_OK) {
    mem_free(copy);
    return s;
  }
  mem_free(item->text);
  item->text = copy;
  item->additional = additional;
  return GRPO_OK;
}

Status chat_templates_read(ChatTemplates *t, const Json *j) {
  if (!j) return GRPO_OK;
  const bool is_list = json_type(j) == JSON_ARRAY;
  const char *text = json_string(j);
  if (text) return chat_templates_put(t, "default", text, strlen(text), false);
  if (!is_list && json_type(j) != JSON_OBJECT) return GRPO_OK;
  for (const Json *e = json_child(j); e; e = json_next(e)) {
    const char *name = is_list ? json_string(json_get(e, "name")) : json_key(e);
    text = json_string(is_list ? json_get(e, "template") : e);
    if (name && text) try(chat_templates_put(t, name, text, strlen(text), false));
  }
  return GRPO_OK;
}

/* The file `name` of the directory `dir`; files with another ending do not count. */
static Status load_one(ChatTemplates *t, const char *dir, const char *name) {
  char path[FILE_PATH_BYTES], own[256];
  Buf text = {0};
  const size_t n = strlen(name), ending = strlen(ENDING);
  if (n <= ending || n >= sizeof own || strcmp(name + n - ending, ENDING) != 0) return GRPO_OK;
  memcpy(own, name, n - ending);
  own[n - ending] = '\0';
  try(file_join(path, dir, name));
  Status s = file_read(path, MAX_TEMPLATE, &text);
  if (s == GRPO_OK) s = chat_templates_put(t, own, text.len ? text.data : "", text.len, true);
  buf_free(&text);
  return s;
}

Status chat_templates_load(ChatTemplates *t, const char *path) {
  const char *slash = strrchr(path, '/');
  Buf dir = {0}, names = {0};
  size_t count = 0;
  buf_put(&dir, path, slash ? (size_t)(slash - path) + 1 : 0);
  buf_puts(&dir, DIRECTORY);
  Status s = buf_status(&dir);
  if (s == GRPO_OK && file_is_dir(dir.data)) s = file_list(dir.data, &names, &count);
  const char *name = names.data;
  for (size_t i = 0; i < count && s == GRPO_OK; i++, name += strlen(name) + 1)
    s = load_one(t, dir.data, name);
  buf_free(&dir);
  buf_free(&names);
  return s;
}

Status chat_templates_save(const ChatTemplates *t, const char *dir) {
  Buf path = {0};
  Status s = GRPO_OK;
  for (int i = 0; i < t->n && s == GRPO_OK; i++) {
    const ChatTemplate *item = &t->item[i];
    if (!item->additional) continue;
    buf_clear(&path);
    buf_printf(&path, "%s/%s", dir, DIRECTORY);
    s = buf_status(&path);
    if (s == GRPO_OK) s = file_mkdirs(path.data);
    buf_printf(&path, "/%s%s", item->name, ENDING);
    if (s == GRPO_OK) s = buf_status(&path);
    if (s == GRPO_OK) s = file_replace(path.data, item->text, strlen(item->text));
  }
  buf_free(&path);
  return s;
}

Status chat_templates_copy(ChatTemplates *to, const ChatTemplates *from) {
  for (int i = 0; i < from->n; i++) {
    const ChatTemplate *item = &from->item[i];
    if (item->additional)
      try(chat_templates_put(to, item->name, item->text, strlen(item->text), true));
  }
  return GRPO_OK;
}

void chat_templates_free(ChatTemplates *t) {
  for (int i = 0; i < t->n; i++) {
    mem_free(t->item[i].name);
    mem_free(t->item[i].text);
  }
  mem_free(t->item);
  *t = (ChatTemplates){0};
}

/* chat_templates.h - the chat templates of a tokenizer, each with its name.  Private to src/text.
 *
 * They are the files of additional_chat_templates and chat_template.jinja, whose template is
 * "default", and the field chat_template of tokenizer_config.json: a string, which is the default,
 * a list of {name, template}, or an object of templates by name.  Where chat_template.jinja exists,
 * the field does not count.
 */
#ifndef GRPO_TEXT_CHAT_TEMPLATES_H
#define GRPO_TEXT_CHAT_TEMPLATES_H

#include <stdbool.h>

#include "base/err.h"
#include "formats/json.h"

typedef struct ChatTemplate {
  char *name, *text;
  bool additional; /* is saved in additional_chat_templates */
} ChatTemplate;

typedef struct ChatTemplates {
  ChatTemplate *item;
  int n;
} ChatTemplates;

const char *chat_templates_find(const ChatTemplates *t, const char *name); /* NULL: none */

/* Adds the templates of a field chat_template; j may be NULL. */
Status chat_templates_read(ChatTemplates *t, const Json *j);
/* Adds a template, or replaces the one of that name.  additional: see ChatTemplate. */
Status chat_templates_put(ChatTemplates *t, const char *name, const char *text, size_t n,
                          bool additional);
/* Adds the templates of the directory additional_chat_templates beside the file `path`, if there is
 * one. */
Status chat_templates_load(ChatTemplates *t, const char *path);
/* Writes that directory in the directory `dir`, if there are such templates. */
Status chat_templates_save(const ChatTemplates *t, const char *dir);
/* Adds to `to` what chat_templates_load added to `from`. */
Status chat_templates_copy(ChatTemplates *to, const ChatTemplates *from);
void chat_templates_free(ChatTemplates *t);

#endif

#include "denoise/tokenizer_mask.h"

#include <string.h>

#include "base/utf8.h"
#include "formats/json.h"
#include "text/tokenizer_build.h"

/* ---- files with one more entry ---------------------------------------------------------- */

static void put_text(Buf *b, const char *s) { json_put_string(b, s, strlen(s)); }

static void put_value(Buf *b, const Json *j);

/* Appends the text of all members but `skip`, without the brackets. */
static void put_children(Buf *b, const Json *j, const char *skip) {
  const char *comma = "";
  for (const Json *e = j ? json_child(j) : NULL; e; e = json_next(e)) {
    const char *key = json_type(j) == JSON_OBJECT ? json_key(e) : NULL;
    if (skip && key && strcmp(key, skip) == 0) continue;
    buf_puts(b, comma);
    comma = ", ";
    if (key) {
      put_text(b, key);
      buf_puts(b, ": ");
    }
    put_value(b, e);
  }
}

static void put_value(Buf *b, const Json *j) {
  const JsonType type = json_type(j);
  if (type == JSON_STRING)
    put_text(b, json_string(j));
  else if (type == JSON_NUMBER)
    json_put_number(b, json_number(j));
  else if (type == JSON_ARRAY || type == JSON_OBJECT) {
    buf_putc(b, type == JSON_ARRAY ? '[' : '{');
    put_children(b, j, NULL);
    buf_putc(b, type == JSON_ARRAY ? ']' : '}');
  } else
    buf_puts(b, type == JSON_NULL ? "null" : json_bool(j) ? "true" : "false");
}

/* Appends tokenizer.json with one more entry in added_tokens. */
static void put_tokenizer(Buf *b, const Json *root, const char *token, int id) {
  const Json *added = json_get(root, "added_tokens");
  buf_puts(b, "{\"added_tokens\": [");
  put_children(b, added, NULL);
  buf_printf(b, "%s{\"id\": %d, \"content\": ", added && json_child(added) ? ", " : "", id);
  put_text(b, token);
  buf_puts(b, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
              "\"normalized\": false, \"special\": true}], ");
  put_children(b, root, "added_tokens");
  buf_puts(b, "}\n");
}

static void put_names(Buf *b, const Json *root, const char *token) {
  buf_puts(b, "{\"mask_token\": ");
  put_text(b, token);
  if (root && json_child(root)) buf_puts(b, ", ");
  put_children(b, root, "mask_token");
  buf_puts(b, "}\n");
}

static Status parse(const Tokenizer *t, TokenizerFile which, Json **out) {
  const Buf *b = &t->file[which];
  *out = NULL;
  return b->len ? json_parse(b->data, b->len, tokenizer_file_name[which], out) : GRPO_OK;
}

static Status put_files(const Tokenizer *t, const char *token, Buf file[NFILES]) {
  for (int i = 0; i < NFILES; i++) {
    Json *root = NULL;
    if (i == FILE_TEMPLATE || i == FILE_ADDED) {
      if (t->file[i].data)
        buf_put(&file[i], t->file[i].data, t->file[i].len); /* a missing file stays empty */
    } else {
      try(parse(t, (TokenizerFile)i, &root));
      const int32_t known = tokenizer_id(t, token);
      if (i != FILE_TOKENIZER)
        put_names(&file[i], root, token);
      else if (known < 0)
        put_tokenizer(&file[i], root, token, tokenizer_size(t));
      else
        buf_put(&file[i], t->file[i].data, t->file[i].len);
      json_free(root);
    }
    try(buf_status(&file[i]));
  }
  return GRPO_OK;
}

Status tokenizer_with_mask(Tokenizer **out, const Tokenizer *t, const char *token) {
  Buf file[NFILES] = {0};
  *out = NULL;
  if (!*token || !utf8_is_valid(token, strlen(token)))
    return fail(GRPO_EARG, "tokenizer: the mask token is empty or not UTF-8");
  Status s = put_files(t, token, file);
  if (s != GRPO_OK) {
    for (int i = 0; i < NFILES; i++) buf_free(&file[i]);
    return s;
  }
  try(tokenizer_build(out, file, "tokenizer with a mask"));
  s = chat_templates_copy(&(*out)->templates, &t->templates);
  if (s != GRPO_OK) {
    tokenizer_free(*out);
    *out = NULL;
  }
  return s;
}

#include "text/tokenizer_files.h"

#include <stdio.h>
#include <string.h>

#include "formats/model_format.h"
#include "os/file.h"
#include "text/rankfile.h"
#include "text/tokenizer_build.h"

enum { MAX_FILE = 256 << 20, MAX_CONFIG = 16 << 20 };

static Status load_beside(const Buf *main, TokenizerFile which, Buf *out) {
  Buf path = {0};
  const char *slash = strrchr(main->data, '/');
  buf_put(&path, main->data, slash ? (size_t)(slash - main->data) + 1 : 0);
  buf_puts(&path, tokenizer_file_name[which]);
  Status s = buf_status(&path);
  if (s == GRPO_OK && file_exists(path.data)) s = file_read(path.data, MAX_CONFIG, out);
  buf_free(&path);
  return s;
}

#define BY_TRANSFORMERS                                                                            \
  "make a tokenizer.json of it: python3 -c 'from transformers import AutoTokenizer as T; "         \
  "T.from_pretrained(\"DIR\").save_pretrained(\"OUT\")'"

/* Names the tokenizers that are not read, by their contents. */
static Status check_foreign(const Buf *text, const char *path) {
  const char *s = text->data;
  const size_t n = text->len;
  /* SentencePiece's file is a list of pieces (0x0a and a length), and a piece begins with its text
   * (0x0a and a length); a JSON text may begin with one such byte, but not with both. */
  if (n > 4 && s[0] == '\n' && s[2] == '\n' && s[1] > s[3] && s[3] > 0)
    return fail(GRPO_EFORMAT,
                "%s: it is a model of SentencePiece, which is not read; " BY_TRANSFORMERS, path);
  if (n && *s == '{' && memmem(s, n, "\"default_num_special_tokens\"", 28))
    return fail(GRPO_EFORMAT,
                "%s: it is Mistral's tekken file, which is not read; take the "
                "tokenizer.json of the same model, or " BY_TRANSFORMERS,
                path);
  return GRPO_OK;
}

/* Names the files of tokenizers that are not read, in a directory without any that is. */
static Status refuse_others(const char *dir) {
  static const char *const names[] = {"tekken.json", "spiece.model", "sentencepiece.bpe.model",
                                      "vocab.json",  "vocab.txt",    "qwen.tiktoken"};
  char path[FILE_PATH_BYTES];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    try(file_join(path, dir, names[i]));
    if (file_exists(path))
      return fail(GRPO_EFORMAT,
                  "%s: no tokenizer.json is there, and %s is not read; " BY_TRANSFORMERS, dir,
                  names[i]);
  }
  return GRPO_OK;
}

/* The tokenizer's file in a directory: tokenizer.json, or else a rank file. */
static Status find_main(const char *dir, Buf *main) {
  Json *root = NULL;
  const size_t len = main->len;
  buf_printf(main, "/%s", tokenizer_file_name[FILE_TOKENIZER]);
  try(buf_status(main));
  if (file_exists(main->data)) return GRPO_OK;
  main->len = len;
  buf_puts(main, "/tokenizer.model");
  try(buf_status(main));
  if (file_exists(main->data)) return GRPO_OK;
  main->len = len;
  buf_puts(main, "/encoding.json");
  Status s = buf_status(main);
  if (s == GRPO_OK && file_exists(main->data)) s = json_read_file(main->data, MAX_CONFIG, &root);
  const char *name = s == GRPO_OK ? json_string(json_get(root, "rank_file")) : NULL;
  if (name && (!*name || strchr(name, '/')))
    s = fail(GRPO_EFORMAT, "%s/encoding.json: rank_file: want a file name", dir);
  main->len = len;
  buf_printf(main, "/%s", name ? name : tokenizer_file_name[FILE_TOKENIZER]);
  json_free(root);
  if (s == GRPO_OK) s = buf_status(main);
  return s == GRPO_OK && !file_exists(main->data) ? refuse_others(dir) : s;
}

static Status load_ranks(Tokenizer **out, const Buf *main, const Buf *ranks) {
  Buf path = {0}, encoding = {0};
  const char *slash = strrchr(main->data, '/');
  buf_put(&path, main->data, slash ? (size_t)(slash - main->data) + 1 : 0);
  buf_puts(&path, "encoding.json");
  Status s = buf_status(&path);
  if (s == GRPO_OK && file_exists(path.data)) s = file_read(path.data, MAX_CONFIG, &encoding);
  if (s == GRPO_OK) s = rankfile_build(out, ranks, &encoding, main->data);
  buf_free(&path);
  buf_free(&encoding);
  return s;
}

bool tokenizer_is_in(const char *path) {
  Buf b = {0};
  const ModelFormat *format = model_format_of(path);
  if (format) return format->has_tokenizer(path);
  buf_printf(&b, "%s/%s", path, tokenizer_file_name[FILE_TOKENIZER]);
  const bool yes = buf_status(&b) != GRPO_OK || file_exists(b.data); /* without memory, as above */
  buf_free(&b);
  return yes;
}

static Status add_templates(Tokenizer **t, const char *path) {
  const Status s = chat_templates_load(&(*t)->templates, path);
  if (s == GRPO_OK) return s;
  tokenizer_free(*t);
  *t = NULL;
  return s;
}

Status tokenizer_load(Tokenizer **out, const char *path) {
  Buf main = {0}, file[NFILES] = {0};
  *out = NULL;
  const ModelFormat *format = model_format_of(path);
  if (format) return format->tokenizer(out, path);
  if (!file_is_dir(path)) try(model_format_check(path));
  buf_puts(&main, path);
  Status s = file_is_dir(path) ? find_main(path, &main) : buf_status(&main);
  if (s == GRPO_OK) s = file_read(main.data, MAX_FILE, &file[FILE_TOKENIZER]);
  const Buf *text = &file[FILE_TOKENIZER];
  if (s == GRPO_OK) s = check_foreign(text, main.data);
  const bool ranks = s == GRPO_OK && rankfile_is(text->data, text->len);
  for (int i = FILE_CONFIG; i < NFILES && s == GRPO_OK && !ranks; i++)
    s = load_beside(&main, (TokenizerFile)i, &file[i]);
  if (ranks)
    s = load_ranks(out, &main, text);
  else if (s == GRPO_OK)
    s = tokenizer_build(out, file, main.data);
  if (s == GRPO_OK && !ranks) s = add_templates(out, main.data);
  for (int i = 0; i < NFILES; i++) buf_free(&file[i]);
  buf_free(&main);
  return s;
}

Status tokenizer_save(const Tokenizer *t, const char *dir) {
  try(file_mkdirs(dir));
  Status s = GRPO_OK;
  Buf path = {0};
  for (int i = 0; i < NFILES && s == GRPO_OK; i++) {
    const bool set = i == FILE_TEMPLATE && t->set_template;
    const char *data = set ? t->set_template : t->file[i].data;
    if (!data) continue;
    buf_clear(&path);
    buf_printf(&path, "%s/%s", dir, tokenizer_file_name[i]);
    s = buf_status(&path);
    if (s == GRPO_OK) s = file_replace(path.data, data, set ? strlen(data) : t->file[i].len);
  }
  buf_free(&path);
  return s == GRPO_OK ? chat_templates_save(&t->templates, dir) : s;
}

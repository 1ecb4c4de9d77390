#include "text/tokenizer_write.h"

#include <string.h>

#include "base/utf8.h"
#include "formats/json.h"
#include "text/tokenizer_build.h"

static void put_text(Buf *b, const char *s) { json_put_string(b, s, strlen(s)); }

void tokenizer_put_entry(Buf *vocab, const char *token, size_t n, int32_t id) {
  if (vocab->len) buf_puts(vocab, ",\n      ");
  json_put_string(vocab, token, n);
  buf_printf(vocab, ": %d", (int)id);
}

static void put_added(Buf *b, const TokenizerParts *p) {
  for (int i = 0; i < p->nspecial; i++) {
    buf_printf(b, "%s\n    {\"id\": %d, \"content\": ", i ? "," : "",
               p->special_id ? (int)p->special_id[i] : (int)p->first_special + i);
    put_text(b, p->special[i]);
    buf_printf(b,
               ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
               "\"normalized\": false, \"special\": %s}",
               p->plain && p->plain[i] ? "false" : "true");
  }
}

static void put_tokenizer(Buf *b, const TokenizerParts *p) {
  buf_puts(b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
              "  \"added_tokens\": [");
  put_added(b, p);
  buf_printf(b,
             "\n  ],\n  \"normalizer\": %s,\n  \"pre_tokenizer\": %s,\n"
             "  \"post_processor\": %s,\n  \"decoder\": %s,\n  \"model\": {\n    %s,\n"
             "    \"vocab\": {\n      ",
             p->normalizer ? p->normalizer : "null", p->pre_tokenizer,
             p->post_processor ? p->post_processor : "null", p->decoder, p->model);
  buf_put(b, p->vocab->data, p->vocab->len);
  buf_puts(b, "\n    }");
  if (p->merges) {
    buf_puts(b, ",\n    \"merges\": [");
    buf_put(b, p->merges->data, p->merges->len);
    buf_puts(b, "]");
  }
  buf_puts(b, "\n  }\n}\n");
}

static void put_names(Buf *b, const TokenizerParts *p) {
  const char *const name[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
  const char *const token[] = {p->bos, p->eos, p->pad, p->unk};
  const char *comma = "";
  for (int i = 0; i < 4; i++) {
    if (!token[i]) continue;
    buf_printf(b, "%s\n  \"%s\": ", comma, name[i]);
    put_text(b, token[i]);
    comma = ",";
  }
}

static Status check_special(const TokenizerParts *p, const char *what) {
  for (int i = 0; i < p->nspecial; i++)
    if (!*p->special[i] || !utf8_is_valid(p->special[i], strlen(p->special[i])))
      return fail(GRPO_EARG, "%s: special token %d is empty or not UTF-8", what, i + 1);
  return GRPO_OK;
}

void tokenizer_put_config(Buf *config, Buf *map, const TokenizerParts *p) {
  buf_puts(map, "{");
  put_names(map, p);
  buf_puts(map, "\n}\n");
  buf_puts(config, "{");
  put_names(config, p);
  if (p->chat_template) {
    buf_printf(config, "%s\n  \"chat_template\": ", config->len > 1 ? "," : "");
    put_text(config, p->chat_template);
  }
  buf_printf(config,
             "%s\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
             "  \"clean_up_tokenization_spaces\": false\n}\n",
             config->len > 1 ? "," : "");
}

Status tokenizer_from_parts(Tokenizer **out, const TokenizerParts *p, const char *what) {
  Buf file[NFILES] = {0};
  *out = NULL;
  try(check_special(p, what));
  put_tokenizer(&file[FILE_TOKENIZER], p);
  tokenizer_put_config(&file[FILE_CONFIG], &file[FILE_MAP], p);
  for (int i = 0; i < NFILES; i++) {
    if (buf_status(&file[i]) == GRPO_OK) continue;
    for (int k = 0; k < NFILES; k++) buf_free(&file[k]);
    return fail(GRPO_ENOMEM, "%s", what);
  }
  return tokenizer_build(out, file, what);
}

/* token_role.h - the roles of special tokens that a tokenizer_config.json assigns. */
#ifndef GRPO_TEXT_TOKEN_ROLE_H
#define GRPO_TEXT_TOKEN_ROLE_H

typedef enum TokenRole {
  TOK_BOS,
  TOK_EOS,
  TOK_PAD,
  TOK_UNK,
  TOK_SEP,
  TOK_CLS,
  TOK_MASK,
  TOK_NROLES
} TokenRole;
extern const char *const token_role_name[TOK_NROLES]; /* "bos" */

#endif

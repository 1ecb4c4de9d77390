/* read_prompts.h - prompts given as strings or as lists of token ids. */
#ifndef GRPO_SCRIPT_READ_PROMPTS_H
#define GRPO_SCRIPT_READ_PROMPTS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/intbuf.h"
#include "text/tokenizer.h"

/* Prompts, or completions, in one buffer. */
typedef struct Prompts {
  int n;
  IntBuf *ids;
  size_t *at; /* [n + 1] */
} Prompts;

int prompt_len(const Prompts *p, int i);
/* Appends the ids of the prompt on top, a string or a list of ids; tok may be NULL.  `what` begins
 * the messages. */
void read_prompt(lua_State *L, const Tokenizer *tok, const char *what, IntBuf *ids);
/* Reads the list of prompts at index, or one prompt if `single`; pushes their memory. */
Prompts read_prompts(lua_State *L, int index, const Tokenizer *tok, bool single, const char *what);
/* Reads the list of completions at index; strings get no special tokens, because they continue a
 * prompt. */
Prompts read_prompt_completions(lua_State *L, int index, const Tokenizer *tok, const char *what);

#endif

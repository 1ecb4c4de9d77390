/* token_trie.h - the tokens of a vocabulary by their bytes. */
#ifndef GRPO_TEXT_TOKEN_TRIE_H
#define GRPO_TEXT_TOKEN_TRIE_H

#include "text/tokenizer.h"

/* A node stands before those below it, which end before `end`. */
typedef struct TrieNode {
  int32_t end, first, count; /* the tokens that end here: ids[first .. first + count) */
  int32_t depth;             /* bytes before this one */
  uint8_t byte;
} TrieNode;

typedef struct TokenTrie {
  TrieNode *node; /* [nnodes] */
  int32_t *ids;
  int nnodes, depth; /* depth: bytes of the longest token */
} TokenTrie;

/* Takes the ids below `vocab` that add bytes to a text and are not special. */
Status token_trie_make(TokenTrie *t, const Tokenizer *tok, int vocab);
void token_trie_free(TokenTrie *t); /* a zeroed one is fine */

#endif

/* rope.h - rotary positions: their frequencies, and tables as long as positions are used.
 *
 * A context of 131072 positions is seldom used where it is allowed, so the tables of cosines and
 * sines grow when longer ones are reserved.  Tables that were handed out stay valid until
 * rope_free.
 *
 * With longrope a sequence has the short factors if it fits the original context, and else the long
 * ones at all its positions.  A sequence that is sampled must have one kind from its first token
 * on, and the same in training, so the most tokens that it can have (prompt and max_new_tokens)
 * decide, not those that it has in the end.
 */
#ifndef GRPO_MODEL_ROPE_H
#define GRPO_MODEL_ROPE_H

#include "kern/kern.h"
#include "model/config.h"

typedef struct Rope Rope;

/* Inverse frequencies, scaled as the configuration says; local: those of the windowed layers, where
 * they rotate in another way; is_long: with the long factors of longrope. */
void rope_frequencies(const Config *c, bool local, bool is_long,
                      double *inv_freq /* [rotary dim / 2] */);

Status rope_new(Rope **out);
void rope_free(Rope *r); /* NULL is fine */
/* Makes tables of at least `positions` positions, within the model's context. */
Status rope_reserve(Rope *r, const Config *c, int positions);
int rope_positions(const Rope *r);
/* Rows of a table for `positions` positions, and the row for position `pos` of a sequence that can
 * have `length` tokens. */
int rope_rows(const Config *c, int positions);
int rope_row(const Config *c, int pos, int length);
/* ROPE_LOCAL: of windowed layers, where they have a base of their own; ROPE_QUERY: of queries that
 * are scaled by their position. */
typedef enum RopeTable { ROPE_FULL, ROPE_LOCAL, ROPE_QUERY, ROPE_TABLES } RopeTable;
const real *rope_table(const Rope *r, RopeTable table); /* [rows, rotary dim / 2, 2]; NULL: none */

#endif

/* options.h - the table of an experiment's options (options.def) and the engine's
 * own view of those it needs: sampling, loss, advantages, optimizer.
 *
 * The script layer hands the table to Lua, which checks experiments against it;
 * the structs here start from the same rows, so a default is written once.  What a loss's name
 * changes is a LOSS_DEFAULT row for the script and loss_options_init() for C; a test compares them.
 */
#ifndef GRPO_RL_OPTIONS_H
#define GRPO_RL_OPTIONS_H

#include <stdbool.h>

#include "base/err.h"
#include "grad/attrs.h"
#include "model/optimizer.h"
#include "model/sampler.h"

enum { OPTION_LIVE = 1 };

typedef struct Option {
  const char *path, *type, *fallback; /* fallback: the default as JSON text */
  double low, high;                   /* NaN: no bound */
  const char *choices;                /* "a|b|c", or "" */
  unsigned flags;
  const char *doc;
} Option;

typedef struct LossDefault {
  const char *loss, *path, *fallback;
} LossDefault;

int option_count(void);
const Option *option_at(int i);
const Option *option_find(const char *path); /* NULL: none */
int loss_default_count(void);
const LossDefault *loss_default_at(int i);

/* Defaults of rows that are numbers, booleans or enums; NaN, false and NULL where the row has none.
 * option_choice: the default's place among the choices, -1: none. */
double option_number(const char *path);
bool option_boolean(const char *path);
int option_choice(const char *path);
/* The place of `word` among the row's choices, or -1. */
int option_choice_of(const char *path, const char *word);

/* Refuses what has no meaning: k1 in the loss, full KL with bias correction, sequence importance
 * where the loss has a weight of its own, ... */
Status loss_options_check(const LossOptions *o);
void optimizer_options_default(OptimizerOptions *o);
void sampling_default(Sampling *s); /* sampling.* */

#endif

/* options.h - options as typed rows: a row is a field of a struct, its initial value and meaning.
 *
 * A .def file lists rows by five macros; ANY is a missing bound, NONE a missing initial value:
 *
 *   NUMBER(path, field, initial, low, high, flags, doc)
 *   INT(path, field, initial, low, high, flags, doc)
 *   BOOL(path, field, initial, flags, doc)
 *   CHOICE(path, field, Type, first, initial, words, flags, doc)
 *     words: "a|b|c" in the order of the enumerators of Type, the first of which is `first`
 *   SECTION(path, doc)
 *     an optional table: rows below its path are 0 until the table is given, and then start from
 *     their initial values
 *
 * The file is included twice: behind base/option_fields.h inside the struct, for its fields, and
 * behind base/option_rows.h inside an array of Option, for an OptionSet.  Everything else follows
 * from the set: the checks and initial values here, the readers of Lua tables and of the structs in
 * grpo.h, core.options() and with it help, docs/options.md and the editor's annotations.
 */
#ifndef GRPO_BASE_OPTIONS_H
#define GRPO_BASE_OPTIONS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef enum OptionType {
  OPTION_NUMBER,
  OPTION_INT,
  OPTION_BOOL,
  OPTION_CHOICE,
  OPTION_SECTION
} OptionType;

enum {
  OPTION_LIVE = 1,     /* may be changed between two steps */
  OPTION_SCHEDULE = 2, /* scripts may give a function of the step, which the stage calls */
  OPTION_PPO = 4       /* an option of losses that a stage of kind "ppo" has too */
};

typedef struct Option {
  OptionType type;
  const char *path;  /* "train.clip" */
  size_t at;         /* the field's place in its struct */
  double initial;    /* NaN: none */
  double low, high;  /* infinite: no bound */
  int first;         /* CHOICE: the enumerator of the first word */
  const char *words; /* CHOICE: "a|b|c" */
  unsigned flags;
  const char *doc;
} Option;

typedef struct OptionSet {
  const char *section; /* what every path begins with: "train.", or "" */
  const Option *row;
  int count;
} OptionSet;

#define OPTION_SET(section, rows)                                                                  \
  { section, rows, (int)(sizeof(rows) / sizeof *(rows)) }

/* Every field of the set takes its initial value; a number without one becomes NaN, an INT 0. */
void options_init_rows(const OptionSet *set, void *to);
/* The section at `path` is given: the rows below it take their initial values. */
void options_begin_section(const OptionSet *set, const char *path, void *to);
/* EARG, naming the path, when a number is out of its bounds.  NaN passes where it is the initial
 * value. */
Status options_check(const OptionSet *set, const void *values);

const Option *option_find(const OptionSet *set, const char *path); /* NULL: none */
/* The last part of its path: "clip". */
const char *option_name(const Option *o);

void option_set(const Option *o, void *to, double value); /* a CHOICE: the enumerator */
/* EARG when x is not finite or out of the row's bounds. */
Status option_check_number(const Option *o, double x);
/* The word's enumerator; EARG, listing the words, when there is none. */
Status option_find_word(const Option *o, const char *word, int *enumerator);
/* The word of a CHOICE's enumerator. */
typedef struct OptionWord {
  char s[40];
} OptionWord;
OptionWord option_word(const Option *o, int enumerator);
/* "a number from 0 to 1000", for messages. */
typedef struct WantedText {
  char s[96];
} WantedText;
WantedText wanted_number(bool whole, double low, double high);

#endif

#include "base/options.h"

#include <stdio.h>
#include <string.h>

/* ---- one row ----------------------------------------------------------------------- */

const char *option_name(const Option *o) {
  const char *dot = strrchr(o->path, '.');
  return dot ? dot + 1 : o->path;
}

/* Any type but SECTION. */
static double option_get(const Option *o, const void *from) {
  const char *field = (const char *)from + o->at;
  int i;
  switch (o->type) {
  case OPTION_NUMBER:
    return *(const double *)(const void *)field;
  case OPTION_BOOL:
    return *(const bool *)(const void *)field;
  default: /* an enumeration is as wide as an int */
    memcpy(&i, field, sizeof i);
    return i;
  }
}

void option_set(const Option *o, void *to, double value) {
  char *field = (char *)to + o->at;
  const int i = isnan(value) ? 0 : (int)value;
  if (o->type == OPTION_NUMBER)
    *(double *)(void *)field = value;
  else if (o->type == OPTION_BOOL)
    *(bool *)(void *)field = value == 1;
  else if (o->type != OPTION_SECTION)
    memcpy(field, &i, sizeof i);
}

WantedText wanted_number(bool whole, double low, double high) {
  WantedText w;
  const char *what = whole ? "a whole number" : "a number";
  if (low > -INFINITY && high < INFINITY)
    snprintf(w.s, sizeof w.s, "%s from %.10g to %.10g", what, low, high);
  else if (low > -INFINITY)
    snprintf(w.s, sizeof w.s, "%s of at least %g", what, low);
  else
    snprintf(w.s, sizeof w.s, "%s", what);
  return w;
}

Status option_check_number(const Option *o, double x) {
  if (isfinite(x) && x >= o->low && x <= o->high) return GRPO_OK;
  return fail(GRPO_EARG, "%s: want %s, got %g", o->path,
              wanted_number(o->type == OPTION_INT, o->low, o->high).s, x);
}

Status option_find_word(const Option *o, const char *word, int *enumerator) {
  const size_t n = strlen(word);
  const char *at = o->words;
  for (int i = o->first; *at; i++) {
    const size_t len = strcspn(at, "|");
    if (len == n && !memcmp(at, word, n)) return *enumerator = i, GRPO_OK;
    at += len + (at[len] == '|');
  }
  return fail(GRPO_EARG, "%s: want one of %s, got '%.40s'", o->path, o->words, word);
}

OptionWord option_word(const Option *o, int enumerator) {
  OptionWord w;
  const char *at = o->words;
  for (int i = o->first; i < enumerator && *at; i++) {
    at += strcspn(at, "|");
    at += *at == '|';
  }
  snprintf(w.s, sizeof w.s, "%.*s", (int)strcspn(at, "|"), at);
  return w;
}

/* ---- a set ------------------------------------------------------------------------- */

/* Does the path lead below the section? */
static bool is_below(const char *path, const char *section) {
  const size_t n = strlen(section);
  return !strncmp(path, section, n) && path[n] == '.';
}

static bool in_section(const OptionSet *set, const Option *o) {
  for (int i = 0; i < set->count; i++)
    if (set->row[i].type == OPTION_SECTION && is_below(o->path, set->row[i].path)) return true;
  return false;
}

void options_init_rows(const OptionSet *set, void *to) {
  for (int i = 0; i < set->count; i++)
    option_set(&set->row[i], to, in_section(set, &set->row[i]) ? 0 : set->row[i].initial);
}

void options_begin_section(const OptionSet *set, const char *path, void *to) {
  for (int i = 0; i < set->count; i++)
    if (is_below(set->row[i].path, path)) option_set(&set->row[i], to, set->row[i].initial);
}

Status options_check(const OptionSet *set, const void *values) {
  for (int i = 0; i < set->count; i++) {
    const Option *o = &set->row[i];
    if (o->type != OPTION_NUMBER && o->type != OPTION_INT) continue;
    const double x = option_get(o, values);
    if (isnan(o->initial) && (o->type == OPTION_INT ? x == 0 : isnan(x))) continue;
    try(option_check_number(o, x));
  }
  return GRPO_OK;
}

const Option *option_find(const OptionSet *set, const char *path) {
  for (int i = 0; i < set->count; i++)
    if (!strcmp(set->row[i].path, path)) return &set->row[i];
  return NULL;
}

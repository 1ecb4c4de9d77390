/* component.h - reads one component of a tokenizer.json.  Private to src/text.
 *
 * A component is an object with a "type" and options.  Components of one kind stand alone or in a
 * Sequence, which may hold further Sequences.
 */
#ifndef GRPO_TEXT_COMPONENT_H
#define GRPO_TEXT_COMPONENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/regex.h"
#include "formats/json.h"

const char *component_type(const Json *j); /* "(no type)" if it has none */
bool component_is(const Json *j, const char *type);
bool component_is_null(const Json *j); /* absent, or null */

/* Reads an option.  If it is absent it has its default; a wrong type is an error that names it. */
Status component_flag(const Json *j, const char *key, bool dflt, bool *out);
Status component_text(const Json *j, const char *key, const char **out); /* must be there */
Status component_count(const Json *j, const char *key, int32_t *out);    /* must be there, >= 0 */

typedef Status (*ComponentReader)(void *user, const Json *component);
/* Calls `each` on every component in order; `list` is the name of a Sequence's list. */
Status component_each(const Json *j, const char *list, ComponentReader each, void *user);

/* The pattern of a Replace or a Split: {"String": s} or {"Regex": r}. */
typedef struct Pattern {
  char *text; /* NULL: `re` is the pattern */
  size_t len;
  Regex *re;
} Pattern;

Status pattern_read(const Json *component, Pattern *out);
enum { NO_MATCH = -1 };
/* Finds the first match at or after `from`.  It may be empty, also at the end of the text, but not
 * where the match before has ended, at `last`: (size_t)NO_MATCH at first.  *found is false if there
 * is none. */
Status pattern_find(const Pattern *p, const char *s, size_t n, size_t from, size_t last,
                    bool *found, size_t *start, size_t *end);
void pattern_free(Pattern *p);

#endif

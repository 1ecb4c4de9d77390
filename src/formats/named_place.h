/* named_place.h - names that stand for a model, a tokenizer or an adapter in place of its path.
 *
 * Extensions add the rows.  Without any, every text is a path.
 *
 *   EXTENSION(name) {
 *     static NamedPlace row = {.is_name = is_name, .find = find};
 *     named_place_add(&row);
 *   }
 */
#ifndef GRPO_FORMATS_NAMED_PLACE_H
#define GRPO_FORMATS_NAMED_PLACE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { NAMED_PLACE_VERSION = 41 }; /* bytes of a version: a commit of 40 digits, and 0 */

typedef struct NamedPlace {
  /* Has the text the form of a name, perhaps with "@" and a revision behind it? */
  bool (*is_name)(const char *text);
  /* Appends where it lies, or the text itself if that is a path.  whole: what lies there must be a
   * complete model or adapter.  version: of what the name stands for now; "" for a path. */
  Status (*find)(const char *path, bool whole, Buf *place, char *version);
  struct NamedPlace *next;
} NamedPlace;

void named_place_add(NamedPlace *row);

bool named_place_is_name(const char *text);
/* Asks the row that knows the name; a path without a row is appended as it is. */
Status named_place_find(const char *path, bool whole, Buf *place, char *version);

#endif

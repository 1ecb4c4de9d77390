#include "formats/named_place.h"

static NamedPlace *first;

void named_place_add(NamedPlace *row) {
  row->next = first;
  first = row;
}

static const NamedPlace *row_of(const char *text) {
  const NamedPlace *row = first;
  while (row && !row->is_name(text)) row = row->next;
  return row;
}

bool named_place_is_name(const char *text) { return row_of(text) != NULL; }

Status named_place_find(const char *path, bool whole, Buf *place, char *version) {
  const NamedPlace *row = row_of(path);
  version[0] = 0;
  if (row) return row->find(path, whole, place, version);
  buf_puts(place, path);
  return buf_status(place);
}

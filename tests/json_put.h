/* json_put.h - write a parsed tree back as compact JSON. */
#ifndef JSON_PUT_H
#define JSON_PUT_H

#include <string.h>

#include "formats/json.h"

static void put_json(Buf *b, const Json *j) {
  const JsonType t = json_type(j);
  if (t == JSON_NULL) buf_puts(b, "null");
  if (t == JSON_BOOL) buf_puts(b, json_bool(j) ? "true" : "false");
  if (t == JSON_NUMBER) json_put_number(b, json_number(j));
  if (t == JSON_STRING) json_put_string(b, json_string(j), strlen(json_string(j)));
  if (t != JSON_ARRAY && t != JSON_OBJECT) return;
  buf_putc(b, t == JSON_ARRAY ? '[' : '{');
  for (const Json *c = json_child(j); c; c = json_next(c)) {
    if (t == JSON_OBJECT) {
      json_put_string(b, json_key(c), strlen(json_key(c)));
      buf_putc(b, ':');
    }
    put_json(b, c);
    if (json_next(c)) buf_putc(b, ',');
  }
  buf_putc(b, t == JSON_ARRAY ? ']' : '}');
}

#endif

#include "formats/row_sink.h"

#include <math.h>

#include "formats/json.h"

/* Before a value or a key: the comma behind the one before it. */
static void separate(RowJson *j) {
  if (j->keyed || !j->depth) {
    j->keyed = false;
    return;
  }
  if (j->more[j->depth - 1]) buf_puts(j->out, ", ");
  j->more[j->depth - 1] = true;
}

static void open_level(RowJson *j, bool object) {
  buf_putc(j->out, object ? '{' : '[');
  j->object[j->depth] = object;
  j->more[j->depth++] = false;
}

static void put_number(Buf *out, double v) {
  if (isnan(v))
    buf_puts(out, "NaN");
  else if (isinf(v))
    buf_puts(out, v > 0 ? "Infinity" : "-Infinity");
  else
    json_put_number(out, v);
}

void row_json_put(void *json, RowEvent e) {
  RowJson *j = json;
  if (e.kind != ROW_END) separate(j);
  switch (e.kind) {
  case ROW_NULL:
    buf_puts(j->out, "null");
    break;
  case ROW_BOOL:
    buf_puts(j->out, e.boolean ? "true" : "false");
    break;
  case ROW_INTEGER:
    buf_printf(j->out, "%lld", (long long)e.integer);
    break;
  case ROW_NUMBER:
    put_number(j->out, e.number);
    break;
  case ROW_TEXT:
    json_put_string(j->out, e.s, e.n);
    break;
  case ROW_KEY:
    json_put_string(j->out, e.s, e.n);
    buf_puts(j->out, ": ");
    j->keyed = true;
    break;
  case ROW_LIST:
  case ROW_OBJECT:
    open_level(j, e.kind == ROW_OBJECT);
    break;
  case ROW_END:
    buf_putc(j->out, j->object[--j->depth] ? '}' : ']');
    break;
  }
}

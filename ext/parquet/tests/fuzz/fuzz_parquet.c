/* fuzz_parquet.c - any bytes as a Parquet file: refused with one line that names the file, or rows
 * that are JSON, the same ones when they are read again.  Memory has a bound, because a few bytes
 * may stand for many rows. */
#include <math.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "files.h"
#include "formats/json.h"
#include "parquet/parquet.h"

enum { MOST_ROWS = 40 };

/* A sink that appends JSON.  Set `out`; the rest is {0}. */
typedef struct RowJson {
  Buf *out;
  bool object[ROW_DEEPEST], more[ROW_DEEPEST], keyed;
  int depth;
} RowJson;
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

static void row_json_put(void *json, RowEvent e) {
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

static void check_message(const char *path, Status s) {
  FUZZ_CHECK(s == GRPO_EFORMAT || s == GRPO_ENOMEM || s == GRPO_EARG);
  FUZZ_CHECK(strncmp(err_message(), path, strlen(path)) == 0 && !strchr(err_message(), '\n'));
}

/* Appends a row as JSON; false if it is refused. */
static bool put_row(Parquet *p, const char *path, uint64_t i, Buf *out) {
  RowJson json = {.out = out};
  buf_clear(out);
  const Status s = parquet_row(p, i, &(RowSink){row_json_put, &json});
  if (s) check_message(path, s);
  return !s;
}

static void check_row(Parquet *p, const char *path, uint64_t i, Buf *row, Buf *again) {
  Json *j;
  if (!put_row(p, path, i, row)) return;
  if (!strstr(row->data, "NaN") && !strstr(row->data, "Infinity"))
    FUZZ_CHECK(json_parse(row->data, row->len, "row", &j) == GRPO_OK ||
               strstr(err_message(), "u0000") || strstr(err_message(), "nested"));
  else
    j = NULL;
  json_free(j);
  parquet_forget(p);
  FUZZ_CHECK(put_row(p, path, i, again) && row->len == again->len &&
             memcmp(row->data, again->data, row->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  Parquet *p;
  Buf row = {0}, again = {0};
  const int fd = memfd_create("parquet", 0);
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  mem_set_limit((size_t)64 << 20, 0);
  const Status s = parquet_open(&p, path);
  if (s) {
    check_message(path, s);
    FUZZ_CHECK(!p);
  } else {
    const uint64_t n = parquet_rows(p), step = n / MOST_ROWS + 1;
    for (uint64_t i = 0; i < n; i += step) check_row(p, path, n - 1 - i, &row, &again);
  }
  parquet_close(p);
  buf_free(&row);
  buf_free(&again);
  close(fd);
  return 0;
}

/* row_sink.h - rows as events, for formats whose rows are read one by one.
 *
 * A value is NULL, BOOL, INTEGER, NUMBER or TEXT; or LIST, values, END; or OBJECT, then KEY and a
 * value for each member, END.
 */
#ifndef GRPO_PARQUET_ROW_SINK_H
#define GRPO_PARQUET_ROW_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RowEvent {
  enum {
    ROW_NULL,
    ROW_BOOL,
    ROW_INTEGER,
    ROW_NUMBER,
    ROW_TEXT,
    ROW_LIST,
    ROW_OBJECT,
    ROW_KEY,
    ROW_END
  } kind;
  union {
    bool boolean;
    int64_t integer;
    double number;
    struct {
      const char *s; /* valid during the call; TEXT may be any bytes */
      size_t n;
    };
  };
} RowEvent;

typedef struct RowSink {
  void (*put)(void *user, RowEvent e);
  void *user;
} RowSink;

static inline void row_put(const RowSink *to, RowEvent e) { to->put(to->user, e); }
static inline void row_text(const RowSink *to, const char *s, size_t n) {
  row_put(to, (RowEvent){.kind = ROW_TEXT, .s = s, .n = n});
}

enum { ROW_DEEPEST = 64 }; /* lists and objects inside each other, which a format checks */

#endif

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1024] = "ok";
static _Thread_local char where[160] = "";

static const struct {
  const char *name, *text;
  int code;
} table[] = {
#define X(name, text, code) {#name, text, code},
    STATUS_MAP(X)
#undef X
};

const char *status_name(Status s) { return s < GRPO_NSTATUS ? table[s].name : "?"; }
const char *status_text(Status s) { return s < GRPO_NSTATUS ? table[s].text : "?"; }
int status_exit(Status s) { return s < GRPO_NSTATUS ? table[s].code : 1; }
const char *err_message(void) { return message; }
const char *err_where(void) { return where; }

/* A message may quote untrusted input: keep it on one line and free of control characters. */
static void make_plain(char *s) {
  for (; *s; s++) {
    if (*s == '\n' || *s == '\r' || *s == '\t')
      *s = ' ';
    else if ((unsigned char)*s < 0x20 || *s == 0x7f)
      *s = '?';
  }
}

Status err_set_(Status s, const char *file, int line, const char *fmt, ...) {
  char text[sizeof message]; /* the arguments may point into `message` */
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  make_plain(text);
  memcpy(message, text, sizeof message);
  snprintf(where, sizeof where, "%s:%d", file, line);
  return s;
}

Status err_context(Status s, const char *fmt, ...) {
  char text[sizeof message];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n < 0 || (size_t)n >= sizeof text - 3) return s;
  make_plain(text);
  const size_t at = (size_t)n + 2, kept = strlen(message), room = sizeof text - 1 - at;
  memcpy(text + n, ": ", 2);
  memcpy(text + at, message, kept < room ? kept : room);
  text[at + (kept < room ? kept : room)] = 0;
  memcpy(message, text, sizeof message);
  return s;
}

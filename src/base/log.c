#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LogSink current;
static void *current_user;
static _Thread_local const LogTarget *own;

const LogTarget *log_use(const LogTarget *t) {
  const LogTarget *before = own;
  own = t;
  return before;
}

void log_set_sink(LogSink sink, void *user) {
  pthread_mutex_lock(&lock);
  current = sink;
  current_user = user;
  pthread_mutex_unlock(&lock);
}

static LogTarget target(void) {
  if (own) return *own;
  pthread_mutex_lock(&lock);
  const LogTarget t = {current, current_user};
  pthread_mutex_unlock(&lock);
  return t;
}

void log_message(LogLevel level, const char *fmt, ...) {
  const LogTarget to = target();
  if (!to.sink) return; /* the sink runs outside the lock: it may log, too */
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  to.sink(to.user, level, text);
}

#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LogSink current;
static void *current_user;

void log_set_sink(LogSink sink, void *user) {
  pthread_mutex_lock(&lock);
  current = sink;
  current_user = user;
  pthread_mutex_unlock(&lock);
}

void log_message(LogLevel level, const char *fmt, ...) {
  pthread_mutex_lock(&lock);
  const LogSink sink = current;
  void *user = current_user;
  pthread_mutex_unlock(&lock);
  if (!sink) return; /* the sink runs outside the lock: it may log, too */
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  sink(user, level, text);
}

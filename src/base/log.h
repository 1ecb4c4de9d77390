/* log.h - notices from the engine to whoever embeds it.  The default sink drops
 * them; the program installs one that prints to stderr.  Nothing here writes
 * to stdio by itself.
 */
#ifndef GRPO_BASE_LOG_H
#define GRPO_BASE_LOG_H

typedef enum LogLevel { LOG_INFO, LOG_WARNING } LogLevel;
typedef void (*LogSink)(void *user, LogLevel level, const char *message);

void log_set_sink(LogSink sink, void *user); /* NULL drops */
/* What this thread says goes to another sink; NULL: to that of log_set_sink again. */
typedef struct LogTarget {
  LogSink sink;
  void *user;
} LogTarget;
const LogTarget *log_use(const LogTarget *t); /* borrowed; returns what was in use */
void log_message(LogLevel level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

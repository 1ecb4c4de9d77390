/* log.h - notices from the engine to the program that embeds it.
 *
 * Without a sink notices are dropped; the grpo program installs one that prints to stderr.  Nothing
 * here writes to stdio by itself.
 */
#ifndef GRPO_BASE_LOG_H
#define GRPO_BASE_LOG_H

typedef enum LogLevel { LOG_INFO, LOG_WARNING } LogLevel;
typedef void (*LogSink)(void *user, LogLevel level, const char *message);

void log_set_sink(LogSink sink, void *user); /* for the process; NULL drops */

typedef struct LogTarget {
  LogSink sink;
  void *user;
} LogTarget;
/* Sends this thread's notices to a target of its own, which the caller keeps alive; NULL ends that.
 * Returns the target that was in use before. */
const LogTarget *log_use(const LogTarget *t);
void log_message(LogLevel level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

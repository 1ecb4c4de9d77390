#include "base/log.h"
#include "testing.h"

static char last[2048];
static int calls;

static void sink(void *user, LogLevel level, const char *message) {
  if (++calls == 1) log_message(LOG_INFO, "from the sink"); /* must not lock up */
  snprintf(last, sizeof last, "%s%d:%s", (const char *)user, (int)level, message);
}

TEST(messages_reach_the_sink_and_only_it) {
  log_message(LOG_INFO, "dropped");
  log_set_sink(sink, "u");
  log_message(LOG_WARNING, "%d of %s", 3, "it");
  CHECK(calls == 2);
  CHECK_STR(last, "u1:3 of it");
  log_message(LOG_INFO, "%2000d", 1);
  CHECK(strlen(last) == 3 + 1023);
  log_set_sink(NULL, NULL);
  log_message(LOG_INFO, "dropped");
  CHECK(calls == 3);
}

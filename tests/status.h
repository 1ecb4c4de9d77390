/* status.h - what a test wants of a call that returns a Status. */
#ifndef GRPO_TESTS_STATUS_H
#define GRPO_TESTS_STATUS_H

#include <string.h>

#include "base/err.h"
#include "testing.h"

/* Status OK, or the test fails and says why. */
#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != GRPO_OK) test_fail(__FILE__, __LINE__, "%s: %s", #call, err_message());          \
  } while (0)
#define REQUIRE(call)                                                                              \
  do {                                                                                             \
    if ((call) != GRPO_OK) {                                                                       \
      test_fail(__FILE__, __LINE__, "%s: %s", #call, err_message());                               \
      return;                                                                                      \
    }                                                                                              \
  } while (0)
/* Fails with this status and a message that has these words. */
#define REFUSED(call, status, words)                                                               \
  do {                                                                                             \
    Status st_ = (call);                                                                           \
    if (st_ != (status) || !strstr(err_message(), words) || strchr(err_message(), '\n'))           \
      test_fail(__FILE__, __LINE__, "%s: got %s \"%s\", want %s with \"%s\"", #call,               \
                status_name(st_), st_ ? err_message() : "", status_name(status), words);           \
  } while (0)

#endif

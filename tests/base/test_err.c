#include <pthread.h>

#include "base/err.h"
#include "testing.h"

static Status fails(int code) { return fail(GRPO_EARG, "code %d", code); }
static Status passes_on(int code) {
  try(fails(code));
  return GRPO_OK;
}

TEST(a_failure_carries_message_and_place) {
  CHECK(passes_on(7) == GRPO_EARG);
  CHECK_STR(err_message(), "code 7");
  CHECK(strstr(err_where(), "test_err.c:6"));
}

TEST(context_goes_before_the_message) {
  CHECK(err_context(passes_on(1), "file %s", "a.json") == GRPO_EARG);
  CHECK_STR(err_message(), "file a.json: code 1");
  CHECK(err_context(GRPO_EARG, "outer") == GRPO_EARG);
  CHECK_STR(err_message(), "outer: file a.json: code 1");
}

TEST(a_message_may_be_built_from_the_last_one) {
  fails(3);
  CHECK(fail(GRPO_EIO, "<%s>", err_message()) == GRPO_EIO);
  CHECK_STR(err_message(), "<code 3>");
  err_context(GRPO_EIO, "%s", err_message());
  CHECK_STR(err_message(), "<code 3>: <code 3>");
}

TEST(long_messages_are_cut_and_never_overflow) {
  char text[3000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  CHECK(fail(GRPO_EIO, "%s", text) == GRPO_EIO);
  CHECK(strlen(err_message()) == 1023);
  for (size_t n = 1000; n < 1100; n++) {
    (void)fail(GRPO_EIO, "%s", text);
    err_context(GRPO_EIO, "%.*s", (int)n, text);
    CHECK(strlen(err_message()) == 1023);
  }
  (void)fail(GRPO_EIO, "short");
  err_context(GRPO_EIO, "%s", text); /* no room for both: the cause is kept */
  CHECK_STR(err_message(), "short");
}

TEST(every_status_has_name_text_and_exit_status) {
  CHECK_STR(status_name(GRPO_ESHAPE), "ESHAPE");
  CHECK_STR(status_text(GRPO_ENOMEM), "out of memory");
  CHECK(status_exit(GRPO_OK) == 0 && status_exit(GRPO_EDIVERGED) == 4);
  for (int s = 0; s < GRPO_NSTATUS; s++) {
    CHECK(strlen(status_name((Status)s)) > 1 && strlen(status_text((Status)s)) > 1);
    CHECK(status_exit((Status)s) >= 0 && status_exit((Status)s) <= 5);
  }
  CHECK_STR(status_name((Status)99), "?");
  CHECK(status_exit((Status)99) == 1);
}

static void *other_thread(void *arg) {
  (void)arg;
  fails(99);
  return NULL;
}

TEST(threads_do_not_see_each_others_failures) {
  pthread_t t;
  fails(1);
  CHECK(pthread_create(&t, NULL, other_thread, NULL) == 0 && pthread_join(t, NULL) == 0);
  CHECK_STR(err_message(), "code 1");
}

TEST(a_message_is_one_line_whatever_it_quotes) {
  CHECK(fail(GRPO_EFORMAT, "token \"%s\" twice", "a\nb\x1b[2J\x7f\t") == GRPO_EFORMAT);
  CHECK_STR(err_message(), "token \"a b?[2J? \" twice");
  err_context(GRPO_EFORMAT, "file\r%s", "x\ny");
  CHECK_STR(err_message(), "file x y: token \"a b?[2J? \" twice");
}

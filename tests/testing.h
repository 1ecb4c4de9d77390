/* testing.h - TEST, CHECK and a TAP runner.  A test registers itself; its name
 * is a sentence with underscores.  A program may be given words: only tests
 * whose names contain one of them run.
 */
#ifndef GRPO_TESTS_TESTING_H
#define GRPO_TESTS_TESTING_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void test_register(const char *name, void (*fn)(void));
void test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void test_skip(const char *why); /* marks the running test as skipped; return after it */
const char *test_shared(void);   /* the folder with the oracles, or NULL: then skip */
/* A file of tests/cases/families/NAME, of oracles/models/NAME, or of oracles/models2/NAME. */
const char *test_oracle_path(const char *name, const char *file);
/* Is this oracle there, with all its weights?  false: the test is marked as skipped. */
bool test_oracle(const char *name);
const char *test_path(const char *fmt, ...); /* formatted path, valid until the 8th next call */
const char *test_tmp(void); /* a fresh directory of this program, removed at exit */

#define TEST(name)                                                                                 \
  static void test_##name(void);                                                                   \
  __attribute__((constructor)) static void register_##name(void) {                                 \
    test_register(#name, test_##name);                                                             \
  }                                                                                                \
  static void test_##name(void)

#define CHECK(cond)                                                                                \
  do {                                                                                             \
    if (!(cond)) test_fail(__FILE__, __LINE__, "%s", #cond);                                       \
  } while (0)
#define CHECK_NEAR(a, b, tol)                                                                      \
  do {                                                                                             \
    double a_ = (double)(a), b_ = (double)(b);                                                     \
    if (!(fabs(a_ - b_) <= (double)(tol)))                                                         \
      test_fail(__FILE__, __LINE__, "%s = %.9g, want %.9g within %g", #a, a_, b_, (double)(tol));  \
  } while (0)
#define CHECK_STR(a, b)                                                                            \
  do {                                                                                             \
    const char *a_ = (a), *b_ = (b);                                                               \
    if (!a_ || strcmp(a_, b_) != 0)                                                                \
      test_fail(__FILE__, __LINE__, "%s = \"%s\", want \"%s\"", #a, a_ ? a_ : "(null)", b_);       \
  } while (0)

#endif

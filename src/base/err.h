/* err.h - how every fallible function in grpo reports failure.
 *
 * A function that can fail returns a Status; GRPO_OK is zero.  The first
 * failure on a thread is recorded with its message and C position; callers
 * pass the status up unchanged and may add a line of context.  Recording
 * never allocates, so "out of memory" can always be reported.
 *
 * Private header: `try` is a C++ keyword and `fail` a short name.
 */
#ifndef GRPO_BASE_ERR_H
#define GRPO_BASE_ERR_H

/* name, text, exit status of the program */
#define STATUS_MAP(X)                                                                              \
  X(OK, "ok", 0)                                                                                   \
  X(ENOMEM, "out of memory", 5)                                                                    \
  X(ESHAPE, "shapes do not agree", 2)                                                              \
  X(EARG, "bad argument", 2)                                                                       \
  X(ENOENT, "no such file", 3)                                                                     \
  X(EFORMAT, "corrupt or unsupported file", 3)                                                     \
  X(EIO, "cannot read or write", 5)                                                                \
  X(ELIMIT, "a limit was hit", 1)                                                                  \
  X(ESTALE, "tensor outlived its step", 2)                                                         \
  X(EDIVERGED, "training diverged", 4)                                                             \
  X(ESCRIPT, "error in a callback", 1)                                                             \
  X(EINTERNAL, "internal error", 1)                                                                \
  X(ECANCELED, "cancelled", 1)

typedef enum Status {
#define X(name, text, code) GRPO_##name,
  STATUS_MAP(X)
#undef X
      GRPO_NSTATUS
} Status;

const char *status_name(Status s); /* "ESHAPE" */
const char *status_text(Status s); /* "shapes do not agree" */
int status_exit(Status s);         /* exit status of the program for this failure */
const char *err_message(void); /* last failure on this thread: one line, no control characters */
const char *err_where(void);   /* "src/grad/op_norm.c:31" */

Status err_set_(Status s, const char *file, int line, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5), cold))
#endif
    ;

/* Puts "context: " before the recorded message; returns s. */
Status err_context(Status s, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3), cold))
#endif
    ;

/* Records a failure and evaluates to its status: `return fail(GRPO_ESHAPE, "...", ...)`.  The value
 * is the first argument itself, so that the compiler sees that it is not GRPO_OK. */
#define fail(s, ...) (err_set_((s), __FILE__, __LINE__, __VA_ARGS__), (s))

/* Evaluates a call; on failure returns its status to the caller of this function. */
#define try(call)                                                                                  \
  do {                                                                                             \
    Status st_ = (call);                                                                           \
    if (st_ != GRPO_OK) return st_;                                                                \
  } while (0)

#endif

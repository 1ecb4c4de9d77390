/* judge_http.h - several POST requests at once, by libcurl, which is loaded when it is first asked
 * for.
 *
 * Each request has a place, from 0 on.  Certificates are verified, and no redirect is followed.
 * What the network or the server does wrong is in the answer (`problem`); a Status says that this
 * machine failed.  An answer has a time and a size that it must not pass.
 */
#ifndef GRPO_EXT_JUDGE_JUDGE_HTTP_H
#define GRPO_EXT_JUDGE_JUDGE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { JUDGE_PLACES = 256, JUDGE_BODY = 1 << 20 /* bytes of the largest answer */ };

typedef struct JudgePost {
  const char *url;            /* http:// or https:// */
  const char *const *headers; /* "Name: value"; NULL after the last */
  const char *body;
  size_t size;
  double seconds; /* for all of it */
} JudgePost;

typedef struct JudgeAnswer {
  int status;  /* 0: there was no answer */
  Buf body;    /* at most JUDGE_BODY bytes */
  Buf problem; /* why the answer is not complete; empty: it is */
} JudgeAnswer;

typedef struct JudgeHttp JudgeHttp;

/* EARG: there is no libcurl. */
Status judge_http_open(JudgeHttp **out);
/* Begins a request at a place that has none.  EARG: the url or a header cannot be used. */
Status judge_http_post(JudgeHttp *h, int place, const JudgePost *post);
/* Works until a request is done, or `seconds` are over, or *stop is not 0. */
Status judge_http_step(JudgeHttp *h, double seconds, const volatile int *stop);
/* The answer at a place whose request is done, valid until the next post there; NULL: it is not. */
const JudgeAnswer *judge_http_answer(JudgeHttp *h, int place);
void judge_http_close(JudgeHttp *h); /* NULL is fine */

#endif

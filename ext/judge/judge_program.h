/* judge_program.h - a program that answers lines with lines.
 *
 * It is started with its own process group, and gets lines at its standard input.  What it writes
 * to its standard output comes back line by line; its errors go where ours go.  It is ended with
 * the handle, and on Linux with this process.  No call waits longer than it was allowed to.
 */
#ifndef GRPO_EXT_JUDGE_JUDGE_PROGRAM_H
#define GRPO_EXT_JUDGE_JUDGE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { JUDGE_LINE = 1 << 20 }; /* bytes of the longest line that is read */

typedef struct JudgeProgram JudgeProgram;

/* argv[0] is looked for in PATH.  EIO: no process can be made.  A program that cannot be executed
 * has ended at once. */
Status judge_program_start(JudgeProgram **out, char *const argv[]);
/* Queues a line, without its end; judge_program_step() sends it. */
Status judge_program_send(JudgeProgram *p, const char *text, size_t n);
/* Sends and receives until a line is there, or the program's output has ended, or `seconds` are
 * over, or *stop is not 0. */
Status judge_program_step(JudgeProgram *p, double seconds, const volatile int *stop);
/* Takes the next line, valid until the next call; false: none is there. */
bool judge_program_line(JudgeProgram *p, const char **line, size_t *n);
/* NULL while more lines may come; else why not: "it has ended", "it wrote a line of ...". */
const char *judge_program_problem(const JudgeProgram *p);
void judge_program_end(JudgeProgram *p); /* NULL is fine */

#endif

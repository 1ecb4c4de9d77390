/* line_program.h - a program that answers lines with lines.
 *
 * It is started with its own process group, and gets lines at its standard input.  What it writes
 * to its standard output comes back line by line; its errors go where ours go.  It is ended with
 * the handle, and on Linux with this process.  No call waits longer than it was allowed to.
 */
#ifndef GRPO_OS_LINE_PROGRAM_H
#define GRPO_OS_LINE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { LINE_PROGRAM_LINE = 1 << 20 }; /* bytes of the longest line that is read */

typedef struct LineProgram LineProgram;

/* argv[0] is looked for in PATH.  EIO: no process can be made.  A program that cannot be executed
 * has ended at once. */
Status line_program_start(LineProgram **out, char *const argv[]);
/* Queues a line, without its end; line_program_step() sends it. */
Status line_program_send(LineProgram *p, const char *text, size_t n);
/* Sends and receives until a line is there, or the program's output has ended, or `seconds` are
 * over, or *stop is not 0. */
Status line_program_step(LineProgram *p, double seconds, const volatile int *stop);
/* Takes the next line, valid until the next call; false: none is there. */
bool line_program_line(LineProgram *p, const char **line, size_t *n);
/* NULL while more lines may come; else why not: "it has ended", "it wrote a line of ...". */
const char *line_program_problem(const LineProgram *p);
void line_program_end(LineProgram *p); /* NULL is fine */

#endif

/* shell.h - commands for the shell, during which Ctrl-C is not lost. */
#ifndef GRPO_OS_SHELL_H
#define GRPO_OS_SHELL_H

/* Runs a command like system(3), but a handler of SIGINT is called meanwhile; system ignores the
 * signal until the command has ended.  Without a handler it is system itself.  Returns what waitpid
 * says of the shell, or -1 with errno, which is 0 otherwise. */
int shell_run(const char *command);

#endif

/* interrupt.h - how a signal stops what a script runs.
 *
 * While a line of the prompt runs, Ctrl-C ends sampling after the current token, limited code at
 * its next look at the clock, an update before its optimizer step, and Lua at its next instruction,
 * also in a coroutine.  It raises again and again until the call is left, so that no pcall swallows
 * it.
 */
#ifndef GRPO_SCRIPT_INTERRUPT_H
#define GRPO_SCRIPT_INTERRUPT_H

#include <lua.h>
#include <signal.h>
#include <stdbool.h>

/* SIGINT, SIGTERM or SIGHUP has come and nobody has taken it yet; decoder_run then stops, and so do
 * limited calls that obey signals. */
extern volatile int script_cancel;
/* Ctrl-C has come while a line of the prompt runs, and the line has not ended yet. */
extern volatile int script_interrupted;
/* The screen shows a line without its end, which the next one is to replace. */
extern volatile int script_open_line;

/* A line of the prompt begins on this thread, or ends. */
void interrupt_begin(lua_State *L);
void interrupt_end(lua_State *L);
lua_State *interrupt_running(void); /* NULL: no line of the prompt runs */
/* For the handler of Ctrl-C. */
void interrupt_signal(void);
/* From now on Ctrl-C stops the code of thread L.  Returns the thread it stopped before, or NULL. */
lua_State *interrupt_target(lua_State *L);
/* Ctrl-C waits between these two calls.  interrupt_release returns whether it has come meanwhile;
 * if so, the line is stopped then. */
void interrupt_hold(void);
bool interrupt_release(void);

#endif

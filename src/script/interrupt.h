/* interrupt.h - signals that stop what a script runs.
 *
 * While a line of a prompt runs, Ctrl-C ends sampling after its token, limited code at its next look at
 * the clock, an update before its optimizer step, and Lua at its next instruction, in a coroutine too,
 * again and again until the call is left, so that no pcall swallows it.
 */
#ifndef GRPO_SCRIPT_INTERRUPT_H
#define GRPO_SCRIPT_INTERRUPT_H

#include <lua.h>
#include <signal.h>
#include <stdbool.h>

/* SIGINT or SIGTERM has come and nobody has taken it yet: decoder_run stops. */
extern volatile int script_cancel;
/* Ctrl-C has come while a line of a prompt runs, and the line has not ended yet. */
extern volatile int script_interrupted;

/* The line of a prompt begins, on this thread; it ends. */
void interrupt_begin(lua_State *L);
void interrupt_end(lua_State *L);
lua_State *interrupt_running(void); /* NULL: no line of a prompt runs */
/* Ctrl-C, from a signal handler. */
void interrupt_signal(void);
/* Ctrl-C now stops the code of this thread; returns whose it stopped before, NULL: nobody's. */
lua_State *interrupt_target(lua_State *L);
/* Between the two Ctrl-C waits.  interrupt_release returns whether it has come meanwhile; it then
 * stops the line. */
void interrupt_hold(void);
bool interrupt_release(void);

#endif

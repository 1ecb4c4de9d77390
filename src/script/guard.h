/* guard.h - guarded versions of library functions, for limited code.
 *
 * A count hook ends what runs in Lua's virtual machine, the allocator ends what holds memory, and
 * the clock is looked at between instructions.  A library function is guarded only if a script
 * could get past all three through it:
 *
 *   pcall, xpcall            would catch the error of a spent budget, or call a handler then
 *   coroutine.resume, wrap, close   would catch it too; a new coroutine must pay for its slice
 *   string.find, match, gmatch, gsub   may take exponential time in one call (match.c)
 *   table.insert, remove, move, concat, unpack   loop over a length that a metamethod invents;
 *   table.sort               compares long strings n log n times in one call (tables.c)
 *   string.rep               loops over an empty string as often as it is asked to
 *   string.upper, lower, reverse, format, pack, rep   build a result of which the collector knows
 *                            nothing: without room made first, garbage would decide if it fits
 *   load                     would take bytecode, which is not checked; returns the error of a
 *                            spent budget; reads a chunk that never ends
 *   tonumber                 reads a long text for the price of a call
 *   setmetatable             __gc would run after the call
 *   collectgarbage           a collection takes long; other options outlast the call
 *   debug.sethook and the like, os.exit   would take the hook, or the program, away
 *
 * What only reads one string (byte, unpack, utf8.len, ...) is not guarded: the longer the strings
 * of a call, the more often the clock is looked at (budget.c).
 */
#ifndef GRPO_SCRIPT_GUARD_H
#define GRPO_SCRIPT_GUARD_H

#include <lua.h>

/* Replaces the functions that could evade a budget in the table of globals at index env; another
 * environment may take the place of the globals. */
void guard_open(lua_State *L, int env);

#endif

/* budget.c - what a limited call has used.
 *
 * Instructions are handed out in slices to a count hook: the hook takes the next slice from what is
 * left, so that a budget ends at exactly the same instruction on every run.  Once a budget is
 * spent, the hook is set to count 1 and raises at every further instruction, so that no pcall,
 * handler or coroutine can continue.  Coroutines pay for their slices in advance.
 *
 * One instruction may work on a whole string, as `a .. b` and `a == b` do.  The allocator sees a
 * long string being made, and charges for its bytes as for instructions.  It sees no comparison, so
 * slices become shorter as the longest string of the call grows: between two looks at the clock
 * its instructions read less than 2 * WORK bytes of each of two strings, or one pair that is
 * longer.  (A slice is cut only if it shrinks by half, hence the 2.)  Strings that were there
 * before the call count if they are its arguments or fields of these; two others, in variables of
 * the script, may be compared SLICE times.  Only strings count, because when they are made
 * depends on the script alone.  Other blocks come and go with the collector; they only make
 * the clock be looked at.
 */
#include "script/budget.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "script/errors.h"
#include "script/interrupt.h"
#include "script/script_impl.h"

enum {
  SLICE = 1000,     /* instructions between two looks at the clock, at most */
  WORK = 256 << 20, /* bytes that the instructions of a slice read, each the longest string */
  LONG = 1024,      /* bytes of a block that is counted */
  COPIED = 64,      /* bytes that are copied for the price of an instruction */
  BYTES = 16        /* bytes that are made, copied and collected in its time */
};

/* ---- spent budgets ------------------------------------------------------------------ */

void budget_describe(const Budget *b, const char *spent, char *text, size_t size) {
  if (*spent == 'i') {
    snprintf(text, size, "%s: used up its %llu instructions", b->name,
             (unsigned long long)b->given);
  } else if (*spent == 'm') {
    snprintf(text, size, "%s: needs more than its %.4g MB of memory", b->name,
             (double)b->quota / (1 << 20));
  } else if (*spent == 'c') {
    snprintf(text, size, "%s: interrupted", b->name);
  } else {
    snprintf(text, size, "%s: took longer than %g seconds of wall-clock time", b->name, b->seconds);
  }
}

static void on_count(lua_State *L, lua_Debug *ar);

static void stop(lua_State *L) { lua_sethook(L, on_count, LUA_MASKCOUNT, 1); }

/* Pushes the error object, which is made outside the memory quota. */
static void push_spent(lua_State *L, Budget *b) {
  const bool lifted = b->lifted;
  char text[256];
  budget_describe(b, b->spent, text, sizeof text);
  b->lifted = true;
  luaL_checkstack(L, 8, "error");
  push_error(L, GRPO_ELIMIT, text);
  b->lifted = lifted;
}

static int raise_spent(lua_State *L, Budget *b) {
  stop(L);
  push_spent(L, b);
  return lua_error(L);
}

void budget_look(Budget *b) {
  b->unlooked = 0;
  if (b->spent) return;
  if (script_interrupted || (b->signals && script_cancel))
    b->spent = "cancelled";
  else if (b->deadline > 0 && clock_seconds() > b->deadline)
    b->spent = "seconds";
}

/* Counts time that passes without instructions. */
static void pass(Budget *b, uint64_t instructions) {
  b->unlooked += instructions;
  if (b->unlooked >= SLICE) budget_look(b);
}

static void pay(Budget *b, uint64_t instructions) {
  if (b->spent || b->left == UINT64_MAX) return;
  if (b->left < instructions) b->spent = "instructions";
  b->left -= b->spent ? b->left : instructions;
}

/* ---- the hook ----------------------------------------------------------------------- */

/* Hands out the next slice, after which the hook is called. */
static void take_slice(lua_State *L, Budget *b) {
  int slice = b->slice;
  if (b->left != UINT64_MAX) {
    if (b->left < (uint64_t)slice) slice = (int)b->left;
    b->left -= (uint64_t)slice;
  }
  if (lua_gethook(L) != on_count || lua_gethookcount(L) != slice)
    lua_sethook(L, on_count, LUA_MASKCOUNT, slice > 0 ? slice : 1);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  (void)ar;
  Budget *b = script_of(L)->budget;
  if (!b) { /* a coroutine has outlived its limited call */
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  budget_look(b);
  if (!b->spent && b->left == 0) b->spent = "instructions";
  if (b->spent) raise_spent(L, b);
  take_slice(L, b);
}

/* Is there something to count? */
static bool counts(const Budget *b) { return b->left != UINT64_MAX || b->deadline > 0; }

/* Makes slices so short that their instructions read about WORK bytes.  What is left of the
 * running slice is lost, so slices shrink by half at least. */
static void note_longest(lua_State *L, Budget *b, size_t bytes) {
  if (bytes <= b->longest) return;
  b->longest = bytes;
  const size_t slice = WORK / bytes;
  if (slice > (size_t)b->slice / 2) return;
  b->slice = slice > 0 ? (int)slice : 1;
  if (L && counts(b)) take_slice(L, b);
}

void budget_longest(lua_State *L, Budget *b, size_t longest) { note_longest(L, b, longest); }

void budget_arm(Budget *b, size_t longest_argument) {
  b->slice = SLICE;
  b->running = b->co;
  if (b->outer) note_longest(NULL, b, b->outer->longest);
  note_longest(NULL, b, longest_argument);
  if (counts(b)) take_slice(b->co, b);
}

/* ---- C functions -------------------------------------------------------------------- */

bool is_limited(lua_State *L) { return script_of(L)->budget != NULL; }

void charge_work(lua_State *L, uint64_t instructions) {
  Budget *b = script_of(L)->budget;
  if (!b) return;
  pass(b, instructions);
  pay(b, instructions);
  if (b->spent) raise_spent(L, b);
}

void spend_time(lua_State *L, uint64_t instructions) {
  Budget *b = script_of(L)->budget;
  if (!b) return;
  pass(b, instructions);
  if (b->spent) raise_spent(L, b);
}

void excuse_time(lua_State *L, double seconds) {
  for (Budget *b = script_of(L)->budget; b; b = b->outer)
    if (b->deadline > 0) b->deadline += seconds;
}

void make_room(lua_State *L, size_t n) {
  Budget *b = script_of(L)->budget;
  if (!b || !b->quota || b->lifted) return;
  if (n <= b->quota) {
    charge_work(L, n / BYTES); /* in either case, because garbage must not decide */
    if (b->held + n <= b->quota) return;
    lua_gc(L, LUA_GCCOLLECT, 0);
    if (b->held + n <= b->quota) return;
  }
  if (!b->spent) b->spent = "memory";
  raise_spent(L, b);
}

/* ---- protected calls and coroutines ------------------------------------------------- */

bool budget_spent(lua_State *L) {
  const Budget *b = script_of(L)->budget;
  return b && b->spent;
}

/* A buffer of the library's raises the message of a memory error as a string. */
static bool says_no_memory(lua_State *L) {
  return lua_type(L, -1) == LUA_TSTRING && strstr(lua_tostring(L, -1), "not enough memory");
}

bool budget_ended(lua_State *L, int status) {
  Budget *b = script_of(L)->budget;
  if (!b) return false;
  if (!b->spent && b->refused && (status == LUA_ERRMEM || says_no_memory(L))) {
    b->spent = "memory";
    lua_pop(L, 1);
    push_spent(L, b);
  }
  if (b->spent) stop(L);
  return b->spent;
}

lua_State *enter_thread(lua_State *L, lua_State *co) {
  Budget *b = script_of(L)->budget;
  if (!b) return NULL;
  /* A new coroutine has inherited the hook of its maker but has paid for nothing. */
  const bool begins = lua_status(co) == LUA_OK;
  if (counts(b) && (begins || lua_gethook(co) != on_count || lua_gethookcount(co) > b->slice)) {
    charge_work(L, b->left == 0); /* raises if nothing is left */
    take_slice(co, b);
  }
  lua_State *before = b->running;
  b->running = co;
  return before;
}

void leave_thread(lua_State *L, lua_State *before) {
  Budget *b = script_of(L)->budget;
  if (!b) return;
  b->running = before;
  if (counts(b) && !b->spent && lua_gethookcount(L) > b->slice) take_slice(L, b);
}

/* ---- memory ------------------------------------------------------------------------- */

/* A buffer of Lua's library is not asked for again after a collection: file:read would fail because
 * of garbage.  So a block of that size may exceed the quota, and the next allocation collects. */
static bool may_be_buffer(const Budget *b, size_t more) {
  enum { LEAST = 1024, MOST = 128 << 10, SHARE = 32 };
  return more >= LEAST && more <= MOST && b->quota / SHARE >= more && b->held <= b->quota;
}

/* After a refused allocation Lua collects all garbage and asks again.  If we refuse again, the
 * budget pays for the collection, so that a loop of failures ends. */
bool budget_refuses(Budget *b, size_t more, size_t nsize) {
  enum { COLLECTION = 200000 };
  if (!b->quota || b->lifted || (more <= b->quota && b->held <= b->quota - more) ||
      may_be_buffer(b, more)) {
    b->wanted = 0;
    return false;
  }
  if (b->wanted == nsize) {
    pass(b, COLLECTION);
    pay(b, COLLECTION);
    if (b->spent) stop(b->running);
  }
  b->wanted = b->wanted == nsize ? 0 : nsize;
  return b->refused = true;
}

/* Lua's table of all strings belongs to no call, grows when a call makes many strings, and shrinks
 * again when the collector has freed them.  Its growth counts only while it lasts. */
void budget_shrunk(Budget *b, bool own, size_t bytes) {
  if (!own) {
    if (bytes > b->grown) bytes = b->grown;
    b->grown -= bytes;
  }
  b->held -= bytes < b->held ? bytes : b->held;
}

void budget_allocated(Budget *b, int kind, size_t nsize) {
  if (nsize < LONG || b->lifted || b->spent) return;
  pass(b, nsize / BYTES);
  if (kind == LUA_TSTRING) {
    pay(b, nsize / COPIED);
    if (!b->spent) note_longest(b->running, b, nsize);
  }
  if (b->spent) stop(b->running);
}

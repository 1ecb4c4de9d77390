/* script_impl.h - the members of a Script, for the files of src/script. */
#ifndef GRPO_SCRIPT_SCRIPT_IMPL_H
#define GRPO_SCRIPT_SCRIPT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/intbuf.h"
#include "base/pool.h"
#include "kern/kern.h"
#include "script/script.h"

/* A limited call that is running; it lives in the C frame of call_limited. */
typedef struct Budget {
  struct Budget *outer; /* the limited call around this one */
  const char *name;
  const char *spent;  /* what ran out: NULL, "instructions", "memory", "seconds"; or "cancelled" */
  uint64_t given;     /* instructions in all; UINT64_MAX: unlimited */
  uint64_t left;      /* those not yet handed to a slice */
  bool signals;       /* a signal that asks the run to end ends the call */
  bool inherited;     /* `left` is what the call around it has left */
  int slice;          /* how many are handed out at once */
  size_t longest;     /* bytes of the longest string that was made during this call */
  uint64_t unlooked;  /* work since the last look at the clock, in instructions */
  double deadline;    /* time of core.clock(); 0: none */
  double seconds;     /* how many the deadline gives */
  uint64_t tag;       /* marks blocks that are allocated during this call */
  size_t held;        /* bytes of those blocks, and bytes by which other blocks grew */
  size_t grown;       /* bytes that other blocks grew by: a part of held */
  size_t quota;       /* how many there may be; 0: unlimited */
  lua_State *co;      /* the call's own thread */
  lua_State *from;    /* the thread that made the call */
  lua_State *running; /* co, or the coroutine that runs in its place */
  bool refused;       /* an allocation was refused because of the quota */
  bool lifted;        /* the quota is suspended while an error is described */
  size_t wanted;      /* size of the last refused allocation; 0 after a success */
} Budget;

/* A member of a circular list. */
typedef struct Link {
  struct Link *prev, *next;
} Link;

typedef struct ForeignVm ForeignVm;

struct Script {
  lua_State *L; /* in a host's state: the thread that loaded grpo */
  const EmbeddedFile *files;
  const char *override; /* GRPO_LUA: a directory whose files replace embedded ones */
  Pool *pool;
  int threads; /* as asked for; 0: all cores */
  Arena arena; /* scratch memory of small operations */
  Ctx cx;
  Budget *budget;    /* innermost limited call; NULL: none */
  uint64_t tags;     /* limited calls so far */
  uint64_t used;     /* instructions of the last limited call, if they were counted */
  size_t lua_bytes;  /* held by Lua */
  int no_grad;       /* depth of grpo.no_grad */
  Link *scope;       /* tensors made in the innermost grpo.scope; NULL: none is active */
  Link step;         /* tensors that belong to the step */
  uint64_t randn;    /* calls of grpo.randn without a seed */
  size_t unreported; /* tensor bytes that the collector has not been told about */
  Buf spare_buf[2];  /* memory of the last buffers that keep_buf() took back */
  IntBuf spare_ints;
  lua_CFunction core; /* opens grpo.core (core.h) */
  ForeignVm *foreign; /* if the Lua state is a host's; NULL: it is our own */
  /* Called around the outermost limited call; set in a host's state only (foreign_vm.c). */
  void (*enter_limited)(lua_State *L, Script *s);
  void (*leave_limited)(lua_State *L, Script *s);
  bool complete;  /* script_register has come to its end */
  bool no_memory; /* the machine had no memory for something that was asked for */
  bool closed;    /* the Lua state is being closed */
  bool random;    /* math.random calls the function given to core.reseed_math */
};

/* Fills a Script that is zero. */
void script_init(Script *s, lua_State *L, const EmbeddedFile *files, lua_CFunction core);
void script_release(Script *s); /* frees what it holds besides Lua's memory */
/* Pops a Script, which script_of(L) returns from now on. */
void script_bind(lua_State *L);

#endif

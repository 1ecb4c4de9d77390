/* script_impl.h - the inside of a Script, for the files that run it. */
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

/* The limited call that is running; lives in its C frame. */
typedef struct Budget {
  struct Budget *outer; /* the limited call around this one */
  const struct Limits *limits;
  const char *name;
  const char *spent; /* which budget ran out: NULL, "instructions", "seconds"; "cancelled" */
  uint64_t given,
      left;        /* instructions in all, and not yet handed to a slice; UINT64_MAX: unlimited */
  bool inherited;  /* `left` is what the call around it has left */
  double deadline; /* core.clock() time; 0: none */
  uint64_t tag;    /* marks blocks allocated during this call */
  size_t held, quota;   /* bytes of those blocks; 0: no quota */
  lua_State *co, *from; /* the call's own thread, and the one that it was called on */
  bool refused;         /* an allocation was refused for the quota */
  bool lifted;          /* the quota does not count: an error is being described */
  size_t wanted;        /* size of the last refused one; 0 after a success */
} Budget;

/* A place in a circular list. */
typedef struct Link {
  struct Link *prev, *next;
} Link;

typedef struct ForeignVm ForeignVm;

struct Script {
  lua_State *L; /* of a guest: the thread that asked for grpo */
  const EmbeddedFile *files;
  const char *override; /* GRPO_LUA: a directory whose files win over embedded ones */
  Pool *pool;
  int threads; /* asked for; 0: all cores */
  Arena arena; /* scratch of small operations */
  Ctx cx;
  Budget *budget;    /* innermost limited call; NULL: none */
  uint64_t tags;     /* limited calls so far */
  uint64_t used;     /* instructions that the last one took, where they were counted */
  size_t lua_bytes;  /* held by Lua */
  int no_grad;       /* depth of grpo.no_grad */
  Link *scope;       /* tensors made in the innermost grpo.scope; NULL: none is active */
  Link step;         /* tensors that belong to the step */
  uint64_t randn;    /* calls of grpo.randn without a seed */
  size_t unreported; /* tensor bytes the collector has not heard of */
  Buf spare_buf;     /* memory of the last buffer that keep_buf() gave back */
  IntBuf spare_ints;
  lua_CFunction core; /* opens grpo.core (core.h) */
  ForeignVm *foreign; /* the Lua state is a host's; NULL: it is our own */
  /* In a host's state (foreign_vm.c), else NULL: called around the outermost limited call, and to make
   * the chunk on top run in the guarded environment. */
  void (*enter_limited)(lua_State *L, Script *s);
  void (*leave_limited)(lua_State *L, Script *s);
  void (*set_environment)(lua_State *L, const Script *s);
  bool closed; /* the Lua state is being closed */
  bool random; /* math.random draws from core.reseed_math's function */
};

/* Fills a Script that is zero. */
void script_init(Script *s, lua_State *L, const EmbeddedFile *files, lua_CFunction core);
void script_release(Script *s); /* frees what it holds beside Lua's memory */
/* Pops the Script, which from now on is script_of(L). */
void script_bind(lua_State *L);
/* Must the running limited call go without `more` bytes, for a block of nsize in all? */
bool budget_refuses(Budget *b, size_t more, size_t nsize);

#endif

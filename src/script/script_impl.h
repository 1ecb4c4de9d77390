/* script_impl.h - the inside of a Script, for the files that run it: lua_vm.c,
 * foreign_vm.c, limits.c, guard.c, lua_tensor.c, lua_system.c.
 */
#ifndef GRPO_SCRIPT_SCRIPT_IMPL_H
#define GRPO_SCRIPT_SCRIPT_IMPL_H

#include "script/script.h"

/* The limited call that is running; lives in its C frame. */
typedef struct Budget {
  struct Budget *outer; /* the limited call around this one */
  const Limits *limits;
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

typedef struct Guest Guest;

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
  Guest *guest; /* the Lua state is a host's; NULL: it is our own */
  bool closed;  /* the Lua state is being closed */
  bool random;  /* math.random draws from core.reseed_math's function */
};

/* lua_vm.c, for foreign_vm.c */
void script_init(Script *s, lua_State *L, const EmbeddedFile *files); /* *s is zero */
void script_release(Script *s);     /* what it holds beside Lua's memory */
void script_register(lua_State *L); /* pops the Script: script_of, modules, errors */
/* Must the running limited call go without `more` bytes, for a block of nsize in all? */
bool budget_refuses(Budget *b, size_t more, size_t nsize);

/* foreign_vm.c: in a host's state, around the outermost limited call; the chunk on top runs in the
 * guarded environment (in a state of our own: nothing to do) */
void guest_enter(lua_State *L, Script *s);
void guest_leave(lua_State *L, Script *s);
void guest_set_environment(lua_State *L, const Script *s);

/* Replacements in the table of globals at index env, or in one that stands for it. */
void limits_open(lua_State *L, int env); /* guard.c: functions that could evade a budget */
void random_open(lua_State *L, int env); /* lua_system.c: math.random on a stream that is given */

/* limits.c, for guard.c */
void arm_thread(lua_State *L, Script *s, lua_State *co); /* a coroutine obeys the running budget */
bool budget_spent(lua_State *L);                         /* must the running limited call die? */
/* Before C code that allocates n bytes outside Lua's own collector-aware paths: makes the memory
 * decision independent of garbage.  Raises "not enough memory" when the quota is too small. */
void make_room(lua_State *L, size_t n);

/* match.c: string.find, match, gmatch, gsub in bounded time */
extern const luaL_Reg bounded_matchers[];

#endif

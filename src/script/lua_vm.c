#include "script/lua_vm.h"

#include <lauxlib.h>
#include <lualib.h>
#include <unistd.h>

#include "base/mem.h"
#include "script/budget.h"
#include "script/errors.h"
#include "script/guard.h"
#include "script/lua_random.h"
#include "script/register.h"
#include "script/script_impl.h"
#include "script/search.h"

/* ---- memory ------------------------------------------------------------------------- */

/* In front of every block that Lua holds: the limited call that allocated it; 0: none. */
typedef struct BlockHead {
  uint64_t tag;
} BlockHead;

static void *allocate(void *ud, void *p, size_t osize, size_t nsize) {
  Script *s = ud;
  Budget *b = s->budget;
  BlockHead *head = p ? (BlockHead *)p - 1 : NULL;
  const int kind = p ? 0 : (int)osize; /* of a new block osize is the kind of object */
  if (!p) osize = 0;
  bool own = b && (!p || head->tag == b->tag);
  if (nsize == 0) {
    if (own) b->held -= osize < b->held ? osize : b->held;
    s->lua_bytes -= osize;
    mem_raw(head, 0);
    return NULL;
  }
  if (b && nsize > osize && budget_refuses(b, nsize - osize, nsize)) return NULL;
  head = mem_raw(head, nsize + sizeof *head);
  if (!head) return NULL;
  if (!p) head->tag = b ? b->tag : 0;
  if (b && nsize > osize) {
    b->held += nsize - osize; /* growth counts for the running call, whoever made the block */
    budget_allocated(b, kind, nsize);
  } else if (own) {
    b->held -= osize - nsize < b->held ? osize - nsize : b->held;
  }
  s->lua_bytes += nsize - osize;
  return head + 1;
}

/* ---- the state ---------------------------------------------------------------------- */

static int protected_open_libraries(lua_State *L) {
  luaL_openlibs(L);
  search_open(L);
  script_register(L); /* pops our argument, the Script */
  lua_pushglobaltable(L);
  guard_open(L, lua_gettop(L));
  seeded_random_open(L, lua_gettop(L));
  return 0;
}

/* The last resort: an error outside all protected calls, which no code here leaves room for. */
static int on_panic(lua_State *L) {
  static const char line[] = "grpo: out of memory\n";
  (void)L;
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(status_exit(GRPO_EIO));
  _exit(status_exit(GRPO_ENOMEM));
}

Status script_open(Script **out, const EmbeddedFile *files, lua_CFunction core) {
  Script *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "a Lua state");
  script_init(s, NULL, files, core);
  s->L = lua_newstate(allocate, s);
  if (!s->L) {
    mem_free(s);
    return fail(GRPO_ENOMEM, "a Lua state");
  }
  lua_atpanic(s->L, on_panic);
  lua_pushcfunction(s->L, protected_open_libraries);
  lua_pushlightuserdata(s->L, s);
  if (lua_pcall(s->L, 1, 0, 0) != LUA_OK) {
    const char *text = lua_tostring(s->L, -1); /* allocates nothing for a string */
    Status st = fail(GRPO_ENOMEM, "starting Lua: %s", text ? text : "not enough memory");
    script_close(s);
    return st;
  }
  *out = s;
  return GRPO_OK;
}

void script_close(Script *s) {
  if (!s) return;
  s->closed = true;
  lua_close(s->L); /* frees models and tensors, before we free the pool they run on */
  script_release(s);
  mem_free(s);
}

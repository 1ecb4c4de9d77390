#include "script/lua_vm.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/shell.h"
#include "script/budget.h"
#include "script/environment.h"
#include "script/errors.h"
#include "script/guard.h"
#include "script/lua_mathematics.h"
#include "script/lua_random.h"
#include "script/modules.h"
#include "script/register.h"
#include "script/script_impl.h"

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
    mem_raw(head, head ? osize + sizeof *head : 0, 0);
    return NULL;
  }
  if (b && nsize > osize && budget_refuses(b, nsize - osize, nsize)) return NULL;
  head = mem_raw(head, head ? osize + sizeof *head : 0, nsize + sizeof *head);
  if (!head) return NULL;
  if (!p) head->tag = b ? b->tag : 0;
  if (b && nsize > osize) {
    b->held += nsize - osize; /* growth counts for the running call, whoever made the block */
    if (!own) b->grown += nsize - osize;
    budget_allocated(b, kind, nsize);
  } else if (b) {
    budget_shrunk(b, own, osize - nsize);
  }
  s->lua_bytes += nsize - osize;
  return head + 1;
}

/* ---- the search for modules --------------------------------------------------------- */

/* Lua's search for modules that are files is limited to regular files: Lua opens what it finds, and
 * if that is a named pipe, it waits until somebody writes to it.  We change this in our own states
 * only, because a host's package library belongs to the host. */

/* Pushes the first readable file of `paths`, or nil and a text that lists them all. */
static int push_first(lua_State *L, const char *paths) {
  luaL_Buffer tried;
  luaL_buffinit(L, &tried);
  for (const char *end; *paths; paths = *end ? end + 1 : end) {
    end = strchrnul(paths, ';');
    lua_pushlstring(L, paths, (size_t)(end - paths));
    if (access(lua_tostring(L, -1), R_OK) == 0) return 1;
    lua_pushfstring(L, "%sno file '%s'", luaL_bufflen(&tried) ? "\n\t" : "", lua_tostring(L, -1));
    lua_remove(L, -2);
    luaL_addvalue(&tried);
  }
  luaL_pushresult(&tried);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* package.searchpath(name, path[, sep[, rep]]) */
static int l_searchpath(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *templates = luaL_checkstring(L, 2);
  const char *sep = luaL_optstring(L, 3, "."), *rep = luaL_optstring(L, 4, LUA_DIRSEP);
  if (*sep) name = luaL_gsub(L, name, sep, rep);
  return push_first(L, luaL_gsub(L, templates, "?", name));
}

/* Refuses what is not a regular file, then calls Lua's own searcher (upvalue 1), which loads it.
 * The program's own modules are not looked for in files, where a checkout may have others. */
static int l_search_files(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  if (modules_push_own(L, name)) return 2;
  lua_pushcfunction(L, l_searchpath);
  lua_pushvalue(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "package");
  if (!lua_istable(L, -1) || lua_getfield(L, -1, "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_replace(L, 4);
  lua_settop(L, 4);
  lua_call(L, 2, 1);
  const char *path = lua_tostring(L, -1);
  const Status s = path ? file_check_input(path) : GRPO_OK;
  if (s) return raise_new(L, s, "module '%s': %s", name, err_message());
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, LUA_MULTRET);
  return lua_gettop(L) - 2;
}

static void search_open(lua_State *L) {
  enum { FILES = 2 }; /* after package.preload */
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_pushcfunction(L, l_searchpath);
  lua_setfield(L, -2, "searchpath");
  lua_getfield(L, -1, "searchers");
  lua_rawgeti(L, -1, FILES);
  lua_pushcclosure(L, l_search_files, 1);
  lua_rawseti(L, -2, FILES);
  lua_pop(L, 2);
}

/* ---- os.execute --------------------------------------------------------------------- */

/* os.execute([command]); upvalue 1: Lua's own */
static int l_execute(lua_State *L) {
  const char *command = luaL_optstring(L, 1, NULL);
  if (!command) return lua_tocfunction(L, lua_upvalueindex(1))(L);
  errno = 0;
  return luaL_execresult(L, shell_run(command));
}

static void execute_open(lua_State *L) {
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_getfield(L, -1, "execute");
  lua_pushcclosure(L, l_execute, 1);
  lua_setfield(L, -2, "execute");
  lua_pop(L, 1);
}

/* ---- the state ---------------------------------------------------------------------- */

static int protected_open_libraries(lua_State *L) {
  luaL_openlibs(L);
  search_open(L);
  execute_open(L);
  script_register(L); /* pops our argument, the Script */
  lua_pushglobaltable(L);
  guard_open(L, lua_gettop(L));
  seeded_random_open(L, lua_gettop(L));
  mathematics_open(L, lua_gettop(L));
  environment_open(L, modules_require);
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
